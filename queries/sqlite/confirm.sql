-- name: Confirm :execrows
-- Fenced: one row if this claim still holds the key, none if it was overtaken or given back.
UPDATE firsttime_keys
SET confirmed_at = MAX(CAST(unixepoch('subsec') * 1000000 AS INTEGER), COALESCE(confirmed_at + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER))),
    state        = 'CONFIRMED'
WHERE scope = sqlc.arg(scope)
  AND message_id = sqlc.arg(message_id)
  AND claimed_by = sqlc.arg(claimed_by);

-- name: ConfirmOnce :execrows
-- Confirm for a transaction that has effects: none if this claim has confirmed before, because those effects
-- are committed already.
UPDATE firsttime_keys
SET confirmed_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER),
    state        = 'CONFIRMED'
WHERE scope = sqlc.arg(scope)
  AND message_id = sqlc.arg(message_id)
  AND claimed_by = sqlc.arg(claimed_by)
  AND state = 'CLAIMED';

-- name: ConfirmKey :execrows
-- Records the fact whoever holds the key: a claim that somebody else still holds on it is lost.
UPDATE firsttime_keys
SET claimed_by   = CASE WHEN state = 'CONFIRMED' THEN claimed_by ELSE sqlc.arg(claimed_by) END,
    confirmed_at = MAX(CAST(unixepoch('subsec') * 1000000 AS INTEGER), COALESCE(confirmed_at + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER))),
    state        = 'CONFIRMED'
WHERE scope = sqlc.arg(scope)
  AND message_id = sqlc.arg(message_id);

-- name: InsertConfirmed :execrows
-- Records the fact for a key that has no row. No row means taken.
INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, confirmed_at, expires_at)
VALUES (
    sqlc.arg(scope),
    sqlc.arg(message_id),
    'CONFIRMED',
    sqlc.arg(claimed_by),
    1,
    CAST(unixepoch('subsec') * 1000000 AS INTEGER),
    CAST(unixepoch('subsec') * 1000000 AS INTEGER),
    CAST(unixepoch('subsec') * 1000000 AS INTEGER),
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(sqlc.arg(retention_us) AS INTEGER)
)
ON CONFLICT (scope, message_id) DO NOTHING;
