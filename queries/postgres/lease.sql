-- name: Extend :execrows
-- Fenced: none if this claim no longer holds the key. A lease never gets shorter.
UPDATE firsttime_keys
SET leased_until = GREATEST(clock_timestamp() + sqlc.arg(lease_us)::bigint * interval '1 microsecond', leased_until + interval '1 microsecond'),
    expires_at   = GREATEST(clock_timestamp() + sqlc.arg(retention_us)::bigint * interval '1 microsecond', expires_at)
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
