package histories

import (
	"context"
	"database/sql"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/dialects/sqlite"
)

// mutant is a store with a mistake in one of its statements. They run on SQLite.
type mutant struct {
	name    string
	mistake layer
}

func mutants() []mutant {
	return []mutant{
		{"confirm without the token", func(q dialects.Queries, _ *sql.DB) dialects.Queries { return confirmsForAnybody{q} }},
		{"confirm in a transaction without the token", func(q dialects.Queries, _ *sql.DB) dialects.Queries { return confirmsForAnybodyInTx{q} }},
		{"confirm in a transaction again and again", func(q dialects.Queries, _ *sql.DB) dialects.Queries { return confirmsAgain{q} }},
		{"confirm beside the transaction", func(q dialects.Queries, _ *sql.DB) dialects.Queries { return confirmsBesideTx{q} }},
		{"confirm that does nothing", func(q dialects.Queries, _ *sql.DB) dialects.Queries { return confirmsNothing{q} }},
		{"extend without the token", func(q dialects.Queries, _ *sql.DB) dialects.Queries { return extendsForAnybody{q} }},
		{"extend that does nothing", func(q dialects.Queries, _ *sql.DB) dialects.Queries { return extendsNothing{q} }},
		{"forget without the token", func(q dialects.Queries, _ *sql.DB) dialects.Queries { return forgetsForAnybody{q} }},
		{"forget of a confirmed key", func(q dialects.Queries, db *sql.DB) dialects.Queries { return forgetsConfirmed{q, db} }},
		{"claim by reading, then writing", func(q dialects.Queries, db *sql.DB) dialects.Queries { return readsThenWrites{q, db} }},
		{"takeover without the state", takesOverWhere("claimed_by = ?4 AND leased_until <= ?3")},
		{"takeover without the former token", takesOverWhere("state = 'CLAIMED' AND ?4 <> ''")},
		{"takeover without the lease", func(q dialects.Queries, db *sql.DB) dialects.Queries {
			return takesOverWhere("state = 'CLAIMED' AND claimed_by = ?4")(seesLeasesOver{q}, db)
		}},
		{"takeover that does not count", func(q dialects.Queries, _ *sql.DB) dialects.Queries { return takesOverUncounted{q} }},
		{"lease by a clock that is ahead", func(q dialects.Queries, _ *sql.DB) dialects.Queries { return clockAhead{q} }},
		{"in progress answered as duplicate", func(q dialects.Queries, _ *sql.DB) dialects.Queries { return seesClaimsConfirmed{q} }},
		{"no check for the own token", func(q dialects.Queries, _ *sql.DB) dialects.Queries { return forgetsItsToken{q} }},
		{"purge of live claims", purgesWhere("state = 'CLAIMED'")},
		{"purge before the retention is over", purgesWhere("state = 'CONFIRMED'")},
		{"purge that does nothing", purgesWhere("0")},
	}
}

// flawless is made like the mutants, without a mistake.
func flawless() mutant {
	return mutant{"no mistake", takesOverWhere("state = 'CLAIMED' AND claimed_by = ?4 AND leased_until <= ?3")}
}

// database is where the mutant runs. Nothing there locks all others out for a whole transaction, so that a
// statement beside it can run.
func (m mutant) database() database {
	return database{
		name: m.name, driver: "sqlite", dsn: sqliteFile("deferred"), sites: 1,
		dialect: behind{sqlite.Dialect, func(q dialects.Queries, db *sql.DB) dialects.Queries {
			return network{m.mistake(q, db)}
		}},
	}
}

type confirmsForAnybody struct{ dialects.Queries }

func (q confirmsForAnybody) Confirm(ctx context.Context, p dialects.ConfirmParams) (bool, error) {
	return q.ConfirmKey(ctx, confirmKeyParams(p))
}

func confirmKeyParams(p dialects.ConfirmParams) dialects.ConfirmKeyParams {
	return dialects.ConfirmKeyParams{ClaimedBy: p.ClaimedBy, Scope: p.Scope, MessageID: p.MessageID}
}

type confirmsForAnybodyInTx struct{ dialects.Queries }

func (q confirmsForAnybodyInTx) ConfirmOnce(ctx context.Context, p dialects.ConfirmParams) (bool, error) {
	return q.ConfirmKey(ctx, confirmKeyParams(p))
}

func (q confirmsForAnybodyInTx) WithTx(tx *sql.Tx) dialects.Queries {
	return confirmsForAnybodyInTx{q.Queries.WithTx(tx)}
}

type confirmsAgain struct{ dialects.Queries }

func (q confirmsAgain) ConfirmOnce(ctx context.Context, p dialects.ConfirmParams) (bool, error) {
	return q.Confirm(ctx, p)
}

func (q confirmsAgain) WithTx(tx *sql.Tx) dialects.Queries {
	return confirmsAgain{q.Queries.WithTx(tx)}
}

type confirmsBesideTx struct{ dialects.Queries }

func (q confirmsBesideTx) WithTx(*sql.Tx) dialects.Queries { return q }

type confirmsNothing struct{ dialects.Queries }

func (q confirmsNothing) Confirm(ctx context.Context, p dialects.ConfirmParams) (bool, error) {
	row, err := q.Get(ctx, dialects.GetParams{Scope: p.Scope, MessageID: p.MessageID})
	return err == nil && row.ClaimedBy == p.ClaimedBy, nil
}

type extendsForAnybody struct{ dialects.Queries }

func (q extendsForAnybody) Extend(ctx context.Context, p dialects.ExtendParams) (bool, error) {
	row, err := q.Get(ctx, dialects.GetParams{Scope: p.Scope, MessageID: p.MessageID})
	if err == nil {
		p.ClaimedBy = row.ClaimedBy
	}
	return q.Queries.Extend(ctx, p)
}

type extendsNothing struct{ dialects.Queries }

func (q extendsNothing) Extend(ctx context.Context, p dialects.ExtendParams) (bool, error) {
	p.LeaseUs = 0
	return q.Queries.Extend(ctx, p)
}

type forgetsForAnybody struct{ dialects.Queries }

func (q forgetsForAnybody) Forget(ctx context.Context, p dialects.ForgetParams) (bool, error) {
	row, err := q.Get(ctx, dialects.GetParams{Scope: p.Scope, MessageID: p.MessageID})
	if err == nil {
		p.ClaimedBy = row.ClaimedBy
	}
	return q.Queries.Forget(ctx, p)
}

type forgetsConfirmed struct {
	dialects.Queries
	db *sql.DB
}

func (q forgetsConfirmed) Forget(ctx context.Context, p dialects.ForgetParams) (bool, error) {
	_, err := q.db.ExecContext(ctx, "DELETE FROM firsttime_keys WHERE scope = ? AND message_id = ? AND claimed_by = ?",
		p.Scope, p.MessageID, p.ClaimedBy)
	return true, err
}

type readsThenWrites struct {
	dialects.Queries
	db *sql.DB
}

func (q readsThenWrites) Claim(ctx context.Context, p dialects.ClaimParams) (bool, *dialects.Row, error) {
	if row, err := q.Get(ctx, dialects.GetParams{Scope: p.Scope, MessageID: p.MessageID}); err == nil {
		return false, &row, nil
	}
	won, _, err := q.Queries.Claim(ctx, p)
	if err != nil || won {
		return won, nil, err
	}
	_, err = q.db.ExecContext(ctx, "UPDATE firsttime_keys SET claimed_by = ? WHERE scope = ? AND message_id = ?",
		p.ClaimedBy, p.Scope, p.MessageID)
	return true, nil, err
}

// takesOver takes a key over under a condition of its own.
type takesOver struct {
	dialects.Queries
	db    *sql.DB
	where string // of ?3, which is now, and ?4, which is the former holder
}

func takesOverWhere(where string) layer {
	return func(q dialects.Queries, db *sql.DB) dialects.Queries { return takesOver{q, db, where} }
}

func (q takesOver) Takeover(ctx context.Context, p dialects.TakeoverParams) (bool, error) {
	now := time.Now().UnixMicro()
	r, err := q.db.ExecContext(ctx, "UPDATE firsttime_keys SET state = 'CLAIMED', confirmed_at = NULL, attempts = attempts + 1, "+
		"claimed_by = ?5, leased_until = ?6, expires_at = ?7 WHERE scope = ?1 AND message_id = ?2 AND "+q.where,
		p.Scope, p.MessageID, now, p.StaleClaimedBy, p.ClaimedBy, now+p.LeaseUs, now+p.RetentionUs)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

type seesLeasesOver struct{ dialects.Queries }

func (q seesLeasesOver) Get(ctx context.Context, p dialects.GetParams) (dialects.Row, error) {
	row, err := q.Queries.Get(ctx, p)
	row.LeaseLeftUs = 0
	return row, err
}

type takesOverUncounted struct{ dialects.Queries }

func (q takesOverUncounted) Get(ctx context.Context, p dialects.GetParams) (dialects.Row, error) {
	row, err := q.Queries.Get(ctx, p)
	row.Attempts = 1
	return row, err
}

type clockAhead struct{ dialects.Queries }

func (q clockAhead) Claim(ctx context.Context, p dialects.ClaimParams) (bool, *dialects.Row, error) {
	p.LeaseUs -= p.LeaseUs / 2
	return q.Queries.Claim(ctx, p)
}

type seesClaimsConfirmed struct{ dialects.Queries }

func (q seesClaimsConfirmed) Get(ctx context.Context, p dialects.GetParams) (dialects.Row, error) {
	row, err := q.Queries.Get(ctx, p)
	if row.LeaseLeftUs > 0 {
		row.State = dialects.Confirmed
	}
	return row, err
}

// forgetsItsToken does not know its own claim again when the reply to it was lost.
type forgetsItsToken struct{ dialects.Queries }

func (q forgetsItsToken) Get(ctx context.Context, p dialects.GetParams) (dialects.Row, error) {
	row, err := q.Queries.Get(ctx, p)
	if row.State == dialects.Claimed && row.LeaseLeftUs > 0 {
		row.ClaimedBy += "-"
	}
	return row, err
}

type purgesOthers struct {
	dialects.Queries
	db    *sql.DB
	where string
}

func (q purgesOthers) PurgeBatch(ctx context.Context, _ dialects.PurgeBatchParams) (dialects.PurgedBatch, error) {
	_, err := q.db.ExecContext(ctx, "DELETE FROM firsttime_keys WHERE "+q.where)
	return dialects.PurgedBatch{}, err
}

func purgesWhere(where string) layer {
	return func(q dialects.Queries, db *sql.DB) dialects.Queries { return purgesOthers{q, db, where} }
}
