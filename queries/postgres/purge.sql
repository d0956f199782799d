-- name: PurgeBatch :one
-- Never a live claim. Rows that somebody works on are skipped instead of waited for;
-- statement_timestamp() is stable, so that the index on expires_at serves the search. It begins where the
-- batch before ended: what that deleted stays in the index for a while and would be read again.
WITH batch AS MATERIALIZED (
    SELECT scope, message_id
    FROM firsttime_keys
    WHERE expires_at >= timestamptz 'epoch' + sqlc.arg(from_us)::bigint * interval '1 microsecond'
      AND expires_at <= statement_timestamp()
      AND (state = 'CONFIRMED' OR leased_until <= statement_timestamp())
    ORDER BY expires_at
    LIMIT sqlc.arg(batch_size)::bigint
    FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM firsttime_keys AS k
    USING batch
    WHERE k.scope = batch.scope
      AND k.message_id = batch.message_id
    RETURNING k.expires_at
)
SELECT COUNT(*) AS deleted,
       COALESCE((EXTRACT(EPOCH FROM MAX(expires_at)) * 1000000)::bigint, 0)::bigint AS until_us
FROM deleted;
