-- name: Claim :execrows
-- The primary key decides: of all concurrent claims on one key exactly one inserts its row.
-- Error 1062 means taken.
INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, expires_at)
VALUES (
    sqlc.arg(scope),
    sqlc.arg(message_id),
    'CLAIMED',
    sqlc.arg(claimed_by),
    1,
    TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())),
    TIMESTAMPADD(MICROSECOND, CAST(sqlc.arg(lease_us) AS SIGNED), TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))),
    TIMESTAMPADD(MICROSECOND, CAST(sqlc.arg(retention_us) AS SIGNED), TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())))
);

-- name: Takeover :execrows
-- Succeeds only against the very claim that was found stale: never against a CONFIRMED key, a live
-- lease or a claim that is newer than the one that was read. So attempts counts every start.
UPDATE firsttime_keys
SET claimed_by   = sqlc.arg(claimed_by),
    attempts     = attempts + 1,
    leased_until = TIMESTAMPADD(MICROSECOND, CAST(sqlc.arg(lease_us) AS SIGNED), TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))),
    expires_at   = TIMESTAMPADD(MICROSECOND, CAST(sqlc.arg(retention_us) AS SIGNED), TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())))
WHERE scope = sqlc.arg(scope)
  AND message_id = sqlc.arg(message_id)
  AND state = 'CLAIMED'
  AND claimed_by = sqlc.arg(stale_claimed_by)
  AND leased_until <= TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()));
