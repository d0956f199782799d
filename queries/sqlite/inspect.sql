-- name: Get :one
-- In its last millisecond a lease has a microsecond left: it is live.
SELECT scope,
       message_id,
       state,
       claimed_by,
       attempts,
       CAST(CAST(unixepoch('subsec') * 1000000 AS INTEGER) - recorded_at AS INTEGER) AS age_us,
       CAST(leased_until - CAST(unixepoch('subsec') * 1000000 AS INTEGER) + (leased_until = CAST(unixepoch('subsec') * 1000000 AS INTEGER)) AS INTEGER) AS lease_left_us,
       CAST(CAST(unixepoch('subsec') * 1000000 AS INTEGER) - COALESCE(confirmed_at, CAST(unixepoch('subsec') * 1000000 AS INTEGER)) AS INTEGER) AS confirmed_age_us,
       CAST(expires_at - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS INTEGER) AS retention_left_us
FROM firsttime_keys
WHERE scope = sqlc.arg(scope)
  AND message_id = sqlc.arg(message_id);

-- name: ListStale :many
-- Claims that never finished and whose lease is over, the longest overdue first. Reads the whole table.
SELECT scope,
       message_id,
       state,
       claimed_by,
       attempts,
       CAST(CAST(unixepoch('subsec') * 1000000 AS INTEGER) - recorded_at AS INTEGER) AS age_us,
       CAST(leased_until - CAST(unixepoch('subsec') * 1000000 AS INTEGER) + (leased_until = CAST(unixepoch('subsec') * 1000000 AS INTEGER)) AS INTEGER) AS lease_left_us,
       CAST(CAST(unixepoch('subsec') * 1000000 AS INTEGER) - COALESCE(confirmed_at, CAST(unixepoch('subsec') * 1000000 AS INTEGER)) AS INTEGER) AS confirmed_age_us,
       CAST(expires_at - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS INTEGER) AS retention_left_us
FROM firsttime_keys
WHERE state = 'CLAIMED'
  AND leased_until < CAST(unixepoch('subsec') * 1000000 AS INTEGER)
ORDER BY leased_until
LIMIT sqlc.arg(row_limit);

-- name: CountByState :many
-- Reads the whole table.
SELECT scope,
       CAST(SUM(CASE WHEN state = 'CLAIMED' AND leased_until >= CAST(unixepoch('subsec') * 1000000 AS INTEGER) THEN 1 ELSE 0 END) AS INTEGER) AS claimed,
       CAST(SUM(CASE WHEN state = 'CLAIMED' AND leased_until < CAST(unixepoch('subsec') * 1000000 AS INTEGER) THEN 1 ELSE 0 END) AS INTEGER) AS stale,
       CAST(SUM(CASE WHEN state = 'CONFIRMED' THEN 1 ELSE 0 END) AS INTEGER) AS confirmed,
       CAST(SUM(CASE WHEN expires_at <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) AND (state = 'CONFIRMED' OR leased_until < CAST(unixepoch('subsec') * 1000000 AS INTEGER)) THEN 1 ELSE 0 END) AS INTEGER) AS purgeable,
       CAST(CAST(unixepoch('subsec') * 1000000 AS INTEGER) - COALESCE(MIN(CASE WHEN state = 'CLAIMED' THEN recorded_at END), CAST(unixepoch('subsec') * 1000000 AS INTEGER)) AS INTEGER) AS oldest_claim_us
FROM firsttime_keys
GROUP BY scope
ORDER BY scope;

-- name: ServerVersion :one
-- Understood by this kind of server alone: it finds a dialect that does not fit the database.
SELECT CAST(sqlite_version() AS TEXT) AS version;
