-- name: Extend :execrows
-- Fenced: none if this claim no longer holds the key. A lease never gets shorter.
UPDATE firsttime_keys
SET leased_until = MAX(CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(sqlc.arg(lease_us) AS INTEGER), leased_until + 1),
    expires_at   = MAX(CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(sqlc.arg(retention_us) AS INTEGER), expires_at)
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
