-- name: PurgeBatch :execrows
-- Never a live claim.
DELETE FROM firsttime_keys
WHERE (scope, message_id) IN (
    SELECT scope, message_id
    FROM firsttime_keys
    WHERE expires_at <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
      AND (state = 'CONFIRMED' OR leased_until < CAST(unixepoch('subsec') * 1000000 AS INTEGER))
    ORDER BY expires_at
    LIMIT sqlc.arg(batch_size)
);
