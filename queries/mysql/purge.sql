-- name: PurgeBatch :execrows
-- Never a live claim. Rows that somebody works on, other purges included, are skipped instead of waited for.
-- Run it in READ COMMITTED, where it locks the rows it deletes and no gaps.
DELETE k
FROM firsttime_keys AS k
JOIN (
    SELECT b.scope, b.message_id
    FROM firsttime_keys AS b
    WHERE b.expires_at <= TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), UTC_TIMESTAMP())
      AND (b.state = 'CONFIRMED' OR b.leased_until <= TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), UTC_TIMESTAMP()))
    ORDER BY b.expires_at
    LIMIT ?
    FOR UPDATE SKIP LOCKED
) AS batch ON k.scope = batch.scope AND k.message_id = batch.message_id;
