-- name: Get :one
SELECT scope,
       message_id,
       state,
       claimed_by,
       attempts,
       (EXTRACT(EPOCH FROM clock_timestamp() - recorded_at) * 1000000)::bigint AS age_us,
       (EXTRACT(EPOCH FROM leased_until - clock_timestamp()) * 1000000)::bigint AS lease_left_us,
       (EXTRACT(EPOCH FROM clock_timestamp() - COALESCE(confirmed_at, clock_timestamp())) * 1000000)::bigint AS confirmed_age_us,
       (EXTRACT(EPOCH FROM expires_at - clock_timestamp()) * 1000000)::bigint AS retention_left_us
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
       (EXTRACT(EPOCH FROM clock_timestamp() - recorded_at) * 1000000)::bigint AS age_us,
       (EXTRACT(EPOCH FROM leased_until - clock_timestamp()) * 1000000)::bigint AS lease_left_us,
       (EXTRACT(EPOCH FROM clock_timestamp() - COALESCE(confirmed_at, clock_timestamp())) * 1000000)::bigint AS confirmed_age_us,
       (EXTRACT(EPOCH FROM expires_at - clock_timestamp()) * 1000000)::bigint AS retention_left_us
FROM firsttime_keys
WHERE state = 'CLAIMED'
  AND leased_until <= clock_timestamp()
ORDER BY leased_until
LIMIT sqlc.arg(row_limit)::bigint;

-- name: CountByState :many
-- Reads the whole table.
SELECT scope,
       COUNT(*) FILTER (WHERE state = 'CLAIMED' AND leased_until > clock_timestamp()) AS claimed,
       COUNT(*) FILTER (WHERE state = 'CLAIMED' AND leased_until <= clock_timestamp()) AS stale,
       COUNT(*) FILTER (WHERE state = 'CONFIRMED') AS confirmed,
       COUNT(*) FILTER (WHERE expires_at <= clock_timestamp() AND (state = 'CONFIRMED' OR leased_until <= clock_timestamp())) AS purgeable,
       (EXTRACT(EPOCH FROM clock_timestamp() - COALESCE(MIN(CASE WHEN state = 'CLAIMED' THEN recorded_at END), clock_timestamp())) * 1000000)::bigint AS oldest_claim_us
FROM firsttime_keys
GROUP BY scope
ORDER BY scope;

-- name: ServerVersion :one
-- Understood by this kind of server alone: it finds a dialect that does not fit the database.
SELECT current_setting('server_version')::text AS version;
