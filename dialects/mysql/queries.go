package mysql

import (
	"context"
	"database/sql"
	"errors"
	"math"

	"github.com/firsttime-go/firsttime/dialects"
	gen "github.com/firsttime-go/firsttime/gen/mysql"
)

// queries is what sqlc generated, with results and errors normalized.
type queries struct {
	*gen.Queries
	db *sql.DB // for the transaction of a purge
}

func (q queries) Claim(ctx context.Context, p dialects.ClaimParams) (bool, *dialects.Row, error) {
	won, err := inserted(q.Queries.Claim(ctx, gen.ClaimParams(p)))
	return won, nil, err
}

func (q queries) Takeover(ctx context.Context, p dialects.TakeoverParams) (bool, error) {
	return changed(q.Queries.Takeover(ctx, gen.TakeoverParams(p)))
}

func (q queries) Confirm(ctx context.Context, p dialects.ConfirmParams) (bool, error) {
	return changed(q.Queries.Confirm(ctx, gen.ConfirmParams(p)))
}

func (q queries) ConfirmOnce(ctx context.Context, p dialects.ConfirmParams) (bool, error) {
	return changed(q.Queries.ConfirmOnce(ctx, gen.ConfirmOnceParams(p)))
}

func (q queries) ConfirmKey(ctx context.Context, p dialects.ConfirmKeyParams) (bool, error) {
	return changed(q.Queries.ConfirmKey(ctx, gen.ConfirmKeyParams(p)))
}

func (q queries) InsertConfirmed(ctx context.Context, p dialects.InsertConfirmedParams) (bool, error) {
	return inserted(q.Queries.InsertConfirmed(ctx, gen.InsertConfirmedParams(p)))
}

func (q queries) Extend(ctx context.Context, p dialects.ExtendParams) (bool, error) {
	return changed(q.Queries.Extend(ctx, gen.ExtendParams(p)))
}

func (q queries) Forget(ctx context.Context, p dialects.ForgetParams) (bool, error) {
	return changed(q.Queries.Forget(ctx, gen.ForgetParams(p)))
}

func (q queries) Get(ctx context.Context, p dialects.GetParams) (dialects.Row, error) {
	row, err := q.Queries.Get(ctx, gen.GetParams(p))
	return dialects.Row(row), normalize(err)
}

func (q queries) ListStale(ctx context.Context, limit int64) ([]dialects.Row, error) {
	found, err := q.Queries.ListStale(ctx, int32(min(limit, math.MaxInt32)))
	rows := make([]dialects.Row, len(found))
	for i, row := range found {
		rows[i] = dialects.Row(row)
	}
	return rows, normalize(err)
}

func (q queries) CountByState(ctx context.Context) ([]dialects.Count, error) {
	found, err := q.Queries.CountByState(ctx)
	counts := make([]dialects.Count, len(found))
	for i, row := range found {
		counts[i] = dialects.Count(row)
	}
	return counts, normalize(err)
}

// PurgeBatch runs in READ COMMITTED, where the range scan of the DELETE locks no gaps that the claims
// of others would have to wait for.
func (q queries) PurgeBatch(ctx context.Context, p dialects.PurgeBatchParams) (batch dialects.PurgedBatch, err error) {
	size := int32(min(p.BatchSize, math.MaxInt32))
	batch.UntilUs, err = q.PurgeUntil(ctx, gen.PurgeUntilParams{FromUs: p.FromUs, Offset: size - 1})
	batch.More = err == nil
	if errors.Is(err, sql.ErrNoRows) {
		batch.UntilUs, err = endOfTime, nil
	}
	if err != nil {
		return dialects.PurgedBatch{}, normalize(err)
	}
	tx, err := dialects.BeginTx(ctx, q.db, &sql.TxOptions{Isolation: sql.LevelReadCommitted}, normalize)
	if err != nil {
		return dialects.PurgedBatch{}, normalize(err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
	batch.Deleted, err = q.Queries.WithTx(tx.Tx).PurgeBatch(ctx, gen.PurgeBatchParams{FromUs: p.FromUs, UntilUs: batch.UntilUs, Limit: size})
	if err != nil {
		return dialects.PurgedBatch{}, normalize(err)
	}
	if err := tx.Commit(); err != nil {
		return dialects.PurgedBatch{}, normalize(err)
	}
	// A batch in which nothing can be deleted and which all expired together would come again for ever.
	batch.More = batch.More && (batch.Deleted > 0 || batch.UntilUs > p.FromUs)
	return batch, nil
}

// endOfTime is the year 2200, in microseconds since 1970. TiDB, which counts nanoseconds in 64 bits, cannot add
// what leads beyond 2262 and wraps around.
const endOfTime = 7258118400_000000

func (q queries) WithTx(tx *sql.Tx) dialects.Queries {
	return queries{q.Queries.WithTx(tx), q.db}
}

// changed turns a row count into an answer: every statement names one key.
func changed(rows int64, err error) (bool, error) {
	return rows > 0, normalize(err)
}

// inserted is changed for an INSERT, in which a unique violation means that another row was first.
func inserted(rows int64, err error) (bool, error) {
	if isUniqueViolation(err) {
		return false, nil
	}
	return changed(rows, err)
}
