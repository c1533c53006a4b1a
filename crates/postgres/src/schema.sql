-- What tidegate keeps in PostgreSQL. Runs as one transaction, under a lock, when its version is newer than what is there.
-- {items} is the name of the table, {unlogged} the word for one that does not survive a crash.

-- Not IF NOT EXISTS, which asks for the right to create a schema even where there is nothing to create.
DO $$ BEGIN
  IF to_regnamespace('tidegate') IS NULL THEN
    CREATE SCHEMA tidegate;
  END IF;
END $$;

CREATE TABLE IF NOT EXISTS tidegate.versions (name text PRIMARY KEY, version int NOT NULL);

-- A version of 0 is a row that says nothing: it was only locked, or its states were forgotten.
-- No index but the key's, and room on each page: a write then touches no index and leaves nothing to vacuum but its page.
CREATE {unlogged} TABLE IF NOT EXISTS tidegate.{items} (
  key text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL,
  expires timestamptz NOT NULL,
  data bytea NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);

-- Writes the commits whose rows are unchanged, and answers which commits are not written. Rows are locked in the order of
-- their keys, those that do not exist yet too, so that no two calls wait for each other.
CREATE OR REPLACE FUNCTION tidegate.write_{items}(
  wait_ms int, keys text[], commits int[], expected bigint[], versions bigint[], lives_ms bigint[], contents bytea[]
) RETURNS int[] LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
  changed int[];
BEGIN
  PERFORM set_config('lock_timeout', wait_ms || 'ms', true);
  INSERT INTO tidegate.{items} AS item (key, version, expires, data)
    SELECT u.key, 0, clock_timestamp(), ''::bytea FROM unnest(keys) AS u(key) ORDER BY u.key
    ON CONFLICT (key) DO UPDATE SET version = item.version WHERE false;
  SELECT coalesce(array_agg(DISTINCT u.commit), '{}') INTO changed
    FROM unnest(keys, commits, expected) AS u(key, commit, expected)
    LEFT JOIN tidegate.{items} AS item ON item.key = u.key
    WHERE item.version IS DISTINCT FROM u.expected;
  UPDATE tidegate.{items} AS item
    SET version = u.version,
        expires = CASE WHEN u.life_ms < 0 THEN 'infinity' ELSE clock_timestamp() + u.life_ms * interval '1 ms' END,
        data = u.data
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
