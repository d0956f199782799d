-- name: Get :one
SELECT scope,
       message_id,
       state,
       claimed_by,
       attempts,
       CAST(TIMESTAMPDIFF(MICROSECOND, recorded_at, TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))) AS SIGNED) AS age_us,
       CAST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())), leased_until) AS SIGNED) AS lease_left_us,
       CAST(TIMESTAMPDIFF(MICROSECOND, COALESCE(confirmed_at, TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))), TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))) AS SIGNED) AS confirmed_age_us,
       CAST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())), expires_at) AS SIGNED) AS retention_left_us
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
       CAST(TIMESTAMPDIFF(MICROSECOND, recorded_at, TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))) AS SIGNED) AS age_us,
       CAST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())), leased_until) AS SIGNED) AS lease_left_us,
       CAST(TIMESTAMPDIFF(MICROSECOND, COALESCE(confirmed_at, TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))), TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))) AS SIGNED) AS confirmed_age_us,
       CAST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())), expires_at) AS SIGNED) AS retention_left_us
FROM firsttime_keys
WHERE state = 'CLAIMED'
  AND leased_until <= TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))
ORDER BY leased_until
LIMIT ?;

-- name: CountByState :many
-- Reads the whole table.
SELECT scope,
       CAST(SUM(CASE WHEN state = 'CLAIMED' AND leased_until > TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())) THEN 1 ELSE 0 END) AS SIGNED) AS claimed,
       CAST(SUM(CASE WHEN state = 'CLAIMED' AND leased_until <= TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())) THEN 1 ELSE 0 END) AS SIGNED) AS stale,
       CAST(SUM(CASE WHEN state = 'CONFIRMED' THEN 1 ELSE 0 END) AS SIGNED) AS confirmed,
       CAST(SUM(CASE WHEN expires_at <= TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())) AND (state = 'CONFIRMED' OR leased_until <= TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))) THEN 1 ELSE 0 END) AS SIGNED) AS purgeable,
       CAST(TIMESTAMPDIFF(MICROSECOND, COALESCE(MIN(CASE WHEN state = 'CLAIMED' THEN recorded_at END), TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))), TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))) AS SIGNED) AS oldest_claim_us
FROM firsttime_keys
GROUP BY scope
ORDER BY scope;

-- name: ServerVersion :one
-- Understood by this kind of server alone: it finds a dialect that does not fit the database.
SELECT CAST(@@version AS CHAR) AS version;

-- name: Autocommit :one
-- A session without it would hold every claim in a transaction that nobody commits.
SELECT CAST(@@autocommit AS SIGNED) AS autocommit;
