-- Makes the login by which Grafana reads the archive, or sets its password again. psql reads the password from the
-- environment. Postgres of compose.yaml runs this when it makes its database; on an older one run it by hand:
--
--   docker compose exec postgres psql --username=tapekeep --dbname=tapekeep --file=/docker-entrypoint-initdb.d/reader.sql
\set ON_ERROR_STOP on
\getenv password GRAFANA_READER_PASSWORD
-- The group of readers, which the first migration finds and gives its rights.
SELECT 'CREATE ROLE tapekeep_reader NOLOGIN' WHERE to_regrole('tapekeep_reader') IS NULL \gexec
SELECT 'CREATE ROLE grafana' WHERE to_regrole('grafana') IS NULL \gexec
ALTER ROLE grafana LOGIN PASSWORD :'password' CONNECTION LIMIT 10;
-- A dashboard over years must not keep the disk from the collector.
ALTER ROLE grafana SET statement_timeout = '30s';
GRANT tapekeep_reader TO grafana;
