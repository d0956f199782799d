-- name: PurgeUntil :one
-- When the last key of the next batch expired. No row means that fewer are left.
SELECT CAST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', expires_at) AS SIGNED) AS until_us
FROM firsttime_keys
WHERE expires_at >= TIMESTAMPADD(MICROSECOND, CAST(sqlc.arg(from_us) AS SIGNED), TIMESTAMP '1970-01-01 00:00:00')
  AND expires_at <= TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME()))
ORDER BY expires_at
LIMIT 1 OFFSET ?;

-- name: PurgeBatch :execrows
-- Never a live claim. Rows that somebody works on, other purges included, are skipped instead of waited for.
-- It begins where the batch before ended: what that deleted stays in the index for a while, and would be
-- read again. Run it in READ COMMITTED, where it locks the rows it deletes and no gaps.
DELETE k
FROM firsttime_keys AS k
JOIN (
    SELECT b.scope, b.message_id
    FROM firsttime_keys AS b
    WHERE b.expires_at >= TIMESTAMPADD(MICROSECOND, CAST(sqlc.arg(from_us) AS SIGNED), TIMESTAMP '1970-01-01 00:00:00')
      AND b.expires_at <= LEAST(TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())), TIMESTAMPADD(MICROSECOND, CAST(sqlc.arg(until_us) AS SIGNED), TIMESTAMP '1970-01-01 00:00:00'))
      AND (b.state = 'CONFIRMED' OR b.leased_until <= TIMESTAMPADD(MICROSECOND, MICROSECOND(NOW(6)), TIMESTAMP(UTC_DATE(), UTC_TIME())))
    ORDER BY b.expires_at
    LIMIT ?
    FOR UPDATE SKIP LOCKED
) AS batch ON k.scope = batch.scope AND k.message_id = batch.message_id;
