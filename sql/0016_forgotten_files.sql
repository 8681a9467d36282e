-- The files of a partition that came back may be deleted: from then on nothing says that there are any.

CREATE FUNCTION forget_files(for_table text, at timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
AS $$
DECLARE
  place record;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  UPDATE partition_state SET uri = NULL, manifest_sha256 = NULL, cold_bytes = NULL
  WHERE table_name = for_table AND span = place.span AND state = 'sealed' AND uri IS NOT NULL;
  RETURN FOUND;
END
$$;
COMMENT ON FUNCTION forget_files IS 'Notes that the files of a partition, whose rows are in the database, are deleted. False: there were none.';

-- The caller's search_path must not decide what the owner's rights are used on.
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION forget_files SET search_path TO %I, pg_temp', current_schema());
  REVOKE EXECUTE ON FUNCTION forget_files FROM PUBLIC;
END
$$;
