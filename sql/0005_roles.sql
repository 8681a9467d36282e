-- Whoever writes needs no right to create or alter anything: partitions are made by one function that
-- works with the rights of the tables' owner. Who may call it, and what else, is granted by the
-- program at each migration, because roles belong to the whole cluster and may be made later.

CREATE OR REPLACE FUNCTION make_partition(for_table text, at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
AS $$
DECLARE
  chosen text;
  from_at timestamptz;
  to_at timestamptz;
  made text;
  held record;
BEGIN
  -- Only tables with a policy have partitions: no other name gets any further.
  SELECT width INTO STRICT chosen FROM partition_policy WHERE table_name = for_table;
  from_at := date_trunc(chosen, at);
  to_at := from_at + ('1 ' || chosen)::interval;
  made := for_table || '_' || to_char(from_at, CASE chosen WHEN 'day' THEN 'YYYYMMDD' ELSE 'YYYYMM' END);
  PERFORM pg_advisory_xact_lock(hashtext('tapekeep partitions'), hashtext(for_table));
  PERFORM FROM pg_inherits WHERE inhparent = for_table::regclass AND inhrelid = to_regclass(made);
  IF FOUND THEN
    RETURN NULL;
  END IF;
  EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) WITH (fillfactor = %s)',
                 made, for_table, CASE for_table WHEN 'trade' THEN 85 ELSE 100 END);
  -- A partition has the rights of its table, also for those who look at it alone.
  FOR held IN
    SELECT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END AS grantee
    FROM pg_class c, aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
    WHERE c.oid = for_table::regclass AND a.grantee <> c.relowner
  LOOP
    EXECUTE format('GRANT %s ON %I TO %s', held.privilege_type, made, held.grantee);
  END LOOP;
  EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                 for_table, made, from_at, to_at);
  INSERT INTO partition_state (table_name, span, state)
  VALUES (for_table, tstzrange(from_at, to_at), 'hot') ON CONFLICT DO NOTHING;
  RETURN made;
END
$$;
REVOKE EXECUTE ON FUNCTION make_partition FROM PUBLIC;

-- The caller's search_path must not decide what the owner's rights are used on. Temporary tables come
-- last, or they would hide the real ones.
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION make_partition SET search_path TO %I, pg_temp', current_schema());
END
$$;
