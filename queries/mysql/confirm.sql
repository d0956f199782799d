-- name: Confirm :execrows
-- Fenced: one row if this claim still holds the key, none if it was overtaken or given back.
-- confirmed_at changes every time, so that one row means yes whatever clientFoundRows says.
UPDATE firsttime_keys
SET confirmed_at = GREATEST(TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())), COALESCE(TIMESTAMPADD(MICROSECOND, 1, confirmed_at), TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())))),
    state        = 'CONFIRMED'
WHERE scope = sqlc.arg(scope)
  AND message_id = sqlc.arg(message_id)
  AND claimed_by = sqlc.arg(claimed_by);

-- name: ConfirmOnce :execrows
-- Confirm for a transaction that has effects: none if this claim has confirmed before, because those effects
-- are committed already.
UPDATE firsttime_keys
SET confirmed_at = TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())),
    state        = 'CONFIRMED'
WHERE scope = sqlc.arg(scope)
  AND message_id = sqlc.arg(message_id)
  AND claimed_by = sqlc.arg(claimed_by)
  AND state = 'CLAIMED';

-- name: ConfirmKey :execrows
-- Records the fact whoever holds the key: a claim that somebody else still holds on it is lost.
-- MySQL assigns from left to right, so state comes last.
UPDATE firsttime_keys
SET claimed_by   = CASE WHEN state = 'CONFIRMED' THEN claimed_by ELSE sqlc.arg(claimed_by) END,
    confirmed_at = GREATEST(TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())), COALESCE(TIMESTAMPADD(MICROSECOND, 1, confirmed_at), TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())))),
    state        = 'CONFIRMED'
WHERE scope = sqlc.arg(scope)
  AND message_id = sqlc.arg(message_id);

-- name: InsertConfirmed :execrows
-- Records the fact for a key that has no row. Error 1062 means taken.
INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, confirmed_at, expires_at)
VALUES (
    sqlc.arg(scope),
    sqlc.arg(message_id),
    'CONFIRMED',
    sqlc.arg(claimed_by),
    1,
    TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())),
    TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())),
    TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())),
    TIMESTAMPADD(MICROSECOND, CAST(sqlc.arg(retention_us) AS SIGNED), TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())))
);
