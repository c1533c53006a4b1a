-- A user for tidegate with a schema of its own and no other rights. Run it once, as a superuser, in the database for the
-- counters. It needs psql 15 or newer:
--   TIDEGATE_PASSWORD=… psql --set=ON_ERROR_STOP=1 --dbname=limits --file=setup.sql
\getenv password TIDEGATE_PASSWORD

CREATE ROLE tidegate LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION PASSWORD :'password';

-- Nobody else comes in, and nobody makes tables outside of their own schema. Leave these two out in a database that others
-- use too.
REVOKE ALL ON DATABASE :"DBNAME" FROM PUBLIC;
REVOKE ALL ON SCHEMA public FROM PUBLIC;

GRANT CONNECT ON DATABASE :"DBNAME" TO tidegate;

-- tidegate makes its tables and functions in it when it connects for the first time.
CREATE SCHEMA tidegate AUTHORIZATION tidegate;
