-- What tidegate keeps in PostgreSQL. Runs as one transaction, under a lock, when its version is newer than what is there.
-- {items} is the name of the table, {unlogged} the word for one that does not survive a crash.

-- Not IF NOT EXISTS, which asks for the right to create a schema even where there is nothing to create.
DO $$ BEGIN
  IF to_regnamespace('tidegate') IS NULL THEN
    CREATE SCHEMA tidegate;
  END IF;
END $$;

CREATE TABLE IF NOT EXISTS tidegate.versions (name text PRIMARY KEY, version int NOT NULL);

-- When a row that is written now may go; less than 0 is never.
CREATE OR REPLACE FUNCTION tidegate.expires(life_ms bigint) RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN life_ms < 0 THEN 'infinity' ELSE clock_timestamp() + life_ms * interval '1 ms' END
$$;

-- A version of 0 is a row that says nothing: it was only locked, or its states were forgotten.
-- No index but the key's, and room on each page: a write then touches no index and leaves nothing to vacuum but its page.
CREATE {unlogged} TABLE IF NOT EXISTS tidegate.{items} (
  key text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL,
  expires timestamptz NOT NULL,
  data bytea NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);

-- Both functions that write go through the same two phases, each in the order of the keys: they make the rows that are
-- missing, and then lock rows that exist. Making a row waits only for others that make it, and locking a row only for
-- others that lock it, so that no two calls wait for each other.

-- Writes rows whose version is the expected one, each by itself, and answers the places of those it has written. A row
-- that is expected to be missing has no expected version. The keys have to be sorted.
CREATE OR REPLACE FUNCTION tidegate.swap_{items}(
  wait_ms int, keys text[], expected bigint[], versions bigint[], lives_ms bigint[], contents bytea[]
) RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
  made bigint[] := '{}';
  swapped bigint[];
BEGIN
  PERFORM set_config('lock_timeout', wait_ms || 'ms', true);
  IF array_position(expected, NULL) IS NOT NULL THEN
    WITH new AS (
      INSERT INTO tidegate.{items} AS item (key, version, expires, data)
        SELECT u.key, u.version, tidegate.expires(u.life_ms), u.data
        FROM unnest(keys, expected, versions, lives_ms, contents) AS u(key, expected, version, life_ms, data)
        WHERE u.expected IS NULL ORDER BY u.key COLLATE "C"
        ON CONFLICT (key) DO NOTHING RETURNING item.key
    ) SELECT coalesce(array_agg(array_position(keys, new.key)), '{}') INTO made FROM new;
  END IF;
  WITH new AS (
    UPDATE tidegate.{items} AS item
      SET version = u.version, expires = tidegate.expires(u.life_ms), data = u.data
      FROM unnest(keys, expected, versions, lives_ms, contents) WITH ORDINALITY
        AS u(key, expected, version, life_ms, data, place)
      WHERE item.key = u.key AND item.version = u.expected RETURNING u.place
  ) SELECT coalesce(array_agg(new.place), '{}') INTO swapped FROM new;
  RETURN made || swapped;
END $$;

-- Writes the commits, of one row or several, whose rows are all unchanged, and answers which commits are not written. A
-- row that is missing has version 0 here.
CREATE OR REPLACE FUNCTION tidegate.write_{items}(
  wait_ms int, keys text[], commits int[], expected bigint[], versions bigint[], lives_ms bigint[], contents bytea[]
) RETURNS int[] LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
  changed int[];
BEGIN
  PERFORM set_config('lock_timeout', wait_ms || 'ms', true);
  INSERT INTO tidegate.{items} AS item (key, version, expires, data)
    SELECT u.key, 0, clock_timestamp(), ''::bytea FROM unnest(keys) AS u(key) ORDER BY u.key COLLATE "C"
    ON CONFLICT (key) DO NOTHING;
  PERFORM FROM tidegate.{items} AS item WHERE item.key = ANY (keys) ORDER BY item.key FOR UPDATE;
  SELECT coalesce(array_agg(DISTINCT u.commit), '{}') INTO changed
    FROM unnest(keys, commits, expected) AS u(key, commit, expected)
    LEFT JOIN tidegate.{items} AS item ON item.key = u.key
    WHERE item.version IS DISTINCT FROM u.expected;
  UPDATE tidegate.{items} AS item
    SET version = u.version, expires = tidegate.expires(u.life_ms), data = u.data
    FROM unnest(keys, commits, versions, lives_ms, contents) AS u(key, commit, version, life_ms, data)
    WHERE item.key = u.key AND NOT u.commit = ANY (changed);
  RETURN changed;
END $$;

-- Removes what has expired among the next rows after a key, and answers the last key that was looked at and how many rows
-- went; no row if another node does it now.
CREATE OR REPLACE FUNCTION tidegate.sweep_{items}(after text, steps int, OUT last text, OUT removed bigint)
RETURNS SETOF record LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtext('tidegate.sweep_{items}')) THEN
    RETURN;
  END IF;
  RETURN QUERY
    WITH looked AS MATERIALIZED (
      SELECT item.key FROM tidegate.{items} AS item WHERE item.key > after ORDER BY item.key LIMIT steps
    ), gone AS (
      DELETE FROM tidegate.{items} AS item USING looked
        WHERE item.key = looked.key AND item.expires < clock_timestamp() RETURNING 1
    )
    SELECT (SELECT max(looked.key) FROM looked), (SELECT count(*) FROM gone);
END $$;
