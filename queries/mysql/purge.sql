-- name: PurgeBatch :execrows
-- Never a live claim. Run it in READ COMMITTED, where it locks the rows it deletes and no gaps.
DELETE FROM firsttime_keys
WHERE expires_at <= TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), UTC_TIMESTAMP())
  AND (state = 'CONFIRMED' OR leased_until <= TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), UTC_TIMESTAMP()))
ORDER BY expires_at
LIMIT ?;
