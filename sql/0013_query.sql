-- Statements of people run in here, with the rights of a role that only reads. Within a function that
-- has other rights than its caller Postgres refuses to change the role, so that no statement gets the
-- caller's rights back, by set_config or whatever else it calls.
--
-- The program makes the role tapekeep_query the owner where it may make roles, and asks nothing as long
-- as another one is.
CREATE FUNCTION run_query(statement text) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER
AS $$
BEGIN
  RETURN QUERY EXECUTE statement;
END
$$;
REVOKE EXECUTE ON FUNCTION run_query FROM PUBLIC;
COMMENT ON FUNCTION run_query IS 'Answers one statement with the rights of tapekeep_query; called by tapekeep query in a transaction that is READ ONLY.';
