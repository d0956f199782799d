-- name: Claim :one
-- The primary key decides: of all concurrent claims on one key exactly one inserts its row. Losing leaves
-- no dead tuple, no log line and no transaction id behind, and brings the row that was there before in
-- the same round trip. It was read when the statement began: state is empty if the row is younger.
WITH claimed AS (
    INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, expires_at)
    VALUES (
        sqlc.arg(scope),
        sqlc.arg(message_id),
        'CLAIMED',
        sqlc.arg(claimed_by),
        1,
        clock_timestamp(),
        clock_timestamp() + sqlc.arg(lease_us)::bigint * interval '1 microsecond',
        clock_timestamp() + sqlc.arg(retention_us)::bigint * interval '1 microsecond'
    )
    ON CONFLICT (scope, message_id) DO NOTHING
    RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM claimed) AS won,
       COALESCE(k.state, '')::text AS state,
       COALESCE(k.claimed_by, '')::text AS claimed_by,
       COALESCE(k.attempts, 0)::bigint AS attempts,
       COALESCE((EXTRACT(EPOCH FROM k.leased_until - clock_timestamp()) * 1000000)::bigint, 0)::bigint AS lease_left_us
FROM (SELECT 1) AS one
LEFT JOIN firsttime_keys AS k ON k.scope = sqlc.arg(scope) AND k.message_id = sqlc.arg(message_id);

-- name: Takeover :execrows
-- Succeeds only against the very claim that was found stale: never against a CONFIRMED key, a live
-- lease or a claim that is newer than the one that was read. So attempts counts every start.
UPDATE firsttime_keys
SET claimed_by   = sqlc.arg(claimed_by),
    attempts     = attempts + 1,
    leased_until = clock_timestamp() + sqlc.arg(lease_us)::bigint * interval '1 microsecond',
    expires_at   = clock_timestamp() + sqlc.arg(retention_us)::bigint * interval '1 microsecond'
WHERE scope = sqlc.arg(scope)
  AND message_id = sqlc.arg(message_id)
  AND state = 'CLAIMED'
  AND claimed_by = sqlc.arg(stale_claimed_by)
  AND leased_until <= clock_timestamp();
