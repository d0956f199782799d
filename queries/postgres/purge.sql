-- name: PurgeBatch :execrows
-- Never a live claim. Rows that somebody works on are skipped instead of waited for;
-- statement_timestamp() is stable, so that the index on expires_at serves the search.
WITH batch AS MATERIALIZED (
    SELECT scope, message_id
    FROM firsttime_keys
    WHERE expires_at <= statement_timestamp()
      AND (state = 'CONFIRMED' OR leased_until <= statement_timestamp())
    ORDER BY expires_at
    LIMIT sqlc.arg(batch_size)::bigint
    FOR UPDATE SKIP LOCKED
)
DELETE FROM firsttime_keys AS k
USING batch
WHERE k.scope = batch.scope
  AND k.message_id = batch.message_id;
