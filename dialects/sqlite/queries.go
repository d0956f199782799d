package sqlite

import (
	"context"
	"database/sql"

	"github.com/firsttime-go/firsttime/dialects"
	gen "github.com/firsttime-go/firsttime/gen/sqlite"
)

// queries is what sqlc generated, with results and errors normalized.
type queries struct {
	*gen.Queries
	at      gen.DBTX // where to look for the table when a statement is refused
	dialect *dialect
}

func (q queries) normalize(err error) error { return q.dialect.normalize(q.at, err) }

func (q queries) Claim(ctx context.Context, p dialects.ClaimParams) (bool, *dialects.Row, error) {
	won, err := q.changed(q.Queries.Claim(ctx, gen.ClaimParams(p)))
	return won, nil, err
}

func (q queries) Takeover(ctx context.Context, p dialects.TakeoverParams) (bool, error) {
	return q.changed(q.Queries.Takeover(ctx, gen.TakeoverParams(p)))
}

func (q queries) Confirm(ctx context.Context, p dialects.ConfirmParams) (bool, error) {
	return q.changed(q.Queries.Confirm(ctx, gen.ConfirmParams(p)))
}

func (q queries) ConfirmOnce(ctx context.Context, p dialects.ConfirmParams) (bool, error) {
	return q.changed(q.Queries.ConfirmOnce(ctx, gen.ConfirmOnceParams(p)))
}

func (q queries) ConfirmKey(ctx context.Context, p dialects.ConfirmKeyParams) (bool, error) {
	return q.changed(q.Queries.ConfirmKey(ctx, gen.ConfirmKeyParams(p)))
}

func (q queries) InsertConfirmed(ctx context.Context, p dialects.InsertConfirmedParams) (bool, error) {
	return q.changed(q.Queries.InsertConfirmed(ctx, gen.InsertConfirmedParams(p)))
}

func (q queries) Extend(ctx context.Context, p dialects.ExtendParams) (bool, error) {
	return q.changed(q.Queries.Extend(ctx, gen.ExtendParams(p)))
}

func (q queries) Forget(ctx context.Context, p dialects.ForgetParams) (bool, error) {
	return q.changed(q.Queries.Forget(ctx, gen.ForgetParams(p)))
}

func (q queries) Get(ctx context.Context, p dialects.GetParams) (dialects.Row, error) {
	row, err := q.Queries.Get(ctx, gen.GetParams(p))
	return dialects.Row(row), q.normalize(err)
}

func (q queries) ListStale(ctx context.Context, limit int64) ([]dialects.Row, error) {
	found, err := q.Queries.ListStale(ctx, limit)
	rows := make([]dialects.Row, len(found))
	for i, row := range found {
		rows[i] = dialects.Row(row)
	}
	return rows, q.normalize(err)
}

func (q queries) CountByState(ctx context.Context) ([]dialects.Count, error) {
	found, err := q.Queries.CountByState(ctx)
	counts := make([]dialects.Count, len(found))
	for i, row := range found {
		counts[i] = dialects.Count(row)
	}
	return counts, q.normalize(err)
}

func (q queries) PurgeBatch(ctx context.Context, p dialects.PurgeBatchParams) (dialects.PurgedBatch, error) {
	n, err := q.Queries.PurgeBatch(ctx, p.BatchSize)
	return dialects.PurgedBatch{Deleted: n, More: n == p.BatchSize}, q.normalize(err)
}

func (q queries) WithTx(tx *sql.Tx) dialects.Queries {
	return queries{q.Queries.WithTx(tx), tx, q.dialect}
}
