-- name: Extend :execrows
-- Fenced: none if this claim no longer holds the key. A lease never gets shorter.
UPDATE firsttime_keys
SET leased_until = GREATEST(TIMESTAMPADD(MICROSECOND, CAST(sqlc.arg(lease_us) AS SIGNED), TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))), TIMESTAMPADD(MICROSECOND, 1, leased_until)),
    expires_at   = GREATEST(TIMESTAMPADD(MICROSECOND, CAST(sqlc.arg(retention_us) AS SIGNED), TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))), expires_at)
WHERE scope = sqlc.arg(scope)
  AND message_id = sqlc.arg(message_id)
  AND claimed_by = sqlc.arg(claimed_by)
  AND state = 'CLAIMED';

-- name: Forget :execrows
-- Removes only this very claim, and never a CONFIRMED key.
DELETE FROM firsttime_keys
WHERE scope = sqlc.arg(scope)
  AND message_id = sqlc.arg(message_id)
  AND claimed_by = sqlc.arg(claimed_by)
  AND state = 'CLAIMED';
