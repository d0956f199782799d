-- name: Claim :execrows
-- The primary key decides: of all concurrent claims on one key exactly one inserts its row.
-- No row means taken.
INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, expires_at)
VALUES (
    sqlc.arg(scope),
    sqlc.arg(message_id),
    'CLAIMED',
    sqlc.arg(claimed_by),
    1,
    CAST(unixepoch('subsec') * 1000000 AS INTEGER),
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(sqlc.arg(lease_us) AS INTEGER),
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(sqlc.arg(retention_us) AS INTEGER)
)
ON CONFLICT (scope, message_id) DO NOTHING;

-- name: Takeover :execrows
-- Succeeds only against the very claim that was found stale: never against a CONFIRMED key, a live
-- lease or a claim that is newer than the one that was read. So attempts counts every start.
-- The clock counts milliseconds and may be behind by one: a lease is over when the clock is past its end.
UPDATE firsttime_keys
SET claimed_by   = sqlc.arg(claimed_by),
    attempts     = attempts + 1,
    leased_until = CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(sqlc.arg(lease_us) AS INTEGER),
    expires_at   = CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(sqlc.arg(retention_us) AS INTEGER)
WHERE scope = sqlc.arg(scope)
  AND message_id = sqlc.arg(message_id)
  AND state = 'CLAIMED'
  AND claimed_by = sqlc.arg(stale_claimed_by)
  AND leased_until < CAST(unixepoch('subsec') * 1000000 AS INTEGER);
