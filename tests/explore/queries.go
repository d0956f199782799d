package explore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
)

// dialect is that of the table.
type dialect struct{ p *process }

func (dialect) Name() string { return "explore" }

func (d dialect) Open(_ context.Context, db *sql.DB, _ dialects.StatementMode) (dialects.Queries, error) {
	return queries{p: d.p, to: db}, nil
}

func (dialect) Normalize(err error) error {
	switch {
	case err == nil || dialects.Marked(err):
		return err
	case errors.Is(err, errUndone):
		return dialects.Mark(dialects.ErrRetryable, err)
	case dialects.ConnectionLost(err):
		return dialects.Mark(dialects.ErrOutcomeUnknown, err)
	}
	return err
}

func (dialect) Check(context.Context, *sql.DB, dialects.StatementMode) (dialects.Findings, error) {
	return nil, errors.ErrUnsupported
}

func (dialect) Clock(context.Context, *sql.DB) (int64, error) { return 0, errors.ErrUnsupported }

func (dialect) Size(context.Context, *sql.DB) (dialects.Size, error) {
	return dialects.Size{}, errors.ErrUnsupported
}

// queries are the statements of the table, with the guards that the SQL of every dialect has. A mistake
// leaves one of them out.
type queries struct {
	p  *process
	to interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	}
}

func (q queries) exec(ctx context.Context, s *statement) error {
	_, err := q.to.ExecContext(ctx, s.name, s)
	return dialect{}.Normalize(err)
}

// change executes a statement that answers whether it changed a row.
func (q queries) change(ctx context.Context, s statement, yes, no string, run func(v view, r *row) bool) (changed bool, err error) {
	s.write = true
	s.run = func(v view) string {
		if changed = run(v, v.row(s.key)); changed {
			return yes
		}
		return no
	}
	if err = q.exec(ctx, &s); err != nil {
		return false, err
	}
	return changed, nil
}

func (q queries) Claim(ctx context.Context, p dialects.ClaimParams) (bool, *dialects.Row, error) {
	var (
		won   bool
		taken *dialects.Row
	)
	s := &statement{name: "claim", key: p.MessageID, token: p.ClaimedBy, write: true}
	s.run = func(v view) string {
		if v.mistake == claimInsideTheTransaction && v.tx == nil {
			v.tx = q.p.early()
		}
		if r := v.row(p.MessageID); r != nil {
			if q.p.w.scenario.readsTaken {
				s.seen = r.holder
				taken = v.read(p.MessageID, p.ClaimedBy)
			}
			return "taken"
		}
		now := v.now()
		v.put(p.MessageID, &row{
			state: dialects.Claimed, holder: p.ClaimedBy, attempts: 1, recorded: now,
			leasedUntil: now + microseconds(p.LeaseUs), expires: now + microseconds(p.RetentionUs),
		})
		won = true
		return "won"
	}
	if err := q.exec(ctx, s); err != nil {
		return false, nil, err
	}
	return won, taken, nil
}

func (q queries) Takeover(ctx context.Context, p dialects.TakeoverParams) (bool, error) {
	s := statement{name: "take over", key: p.MessageID, token: p.ClaimedBy}
	return q.change(ctx, s, "taken over", "changed meanwhile", func(v view, r *row) bool {
		now := v.now()
		switch {
		case r == nil,
			r.state != dialects.Claimed && v.mistake != takeoverWithoutTheState,
			r.holder != p.StaleClaimedBy && v.mistake != takeoverOfWhatWasRead,
			r.leasedUntil > now && v.mistake != takeoverOfWhatWasRead && v.mistake != takeoverWithoutTheLease:
			return false
		}
		changed := *r
		changed.state, changed.holder, changed.confirmed = dialects.Claimed, p.ClaimedBy, 0
		changed.attempts++
		changed.leasedUntil, changed.expires = now+microseconds(p.LeaseUs), now+microseconds(p.RetentionUs)
		v.put(p.MessageID, &changed)
		return true
	})
}

func (q queries) Confirm(ctx context.Context, p dialects.ConfirmParams) (bool, error) {
	s := statement{name: "confirm", key: p.MessageID, token: p.ClaimedBy}
	return q.change(ctx, s, "held", "lost", func(v view, r *row) bool {
		return v.confirm(p, r, v.mistake == confirmOnlyOnce)
	})
}

func (q queries) ConfirmOnce(ctx context.Context, p dialects.ConfirmParams) (bool, error) {
	s := statement{name: "confirm in the transaction", key: p.MessageID, token: p.ClaimedBy}
	return q.change(ctx, s, "held", "lost", func(v view, r *row) bool {
		if v.mistake == confirmInItsOwnTransaction {
			v.tx = nil
		}
		return v.confirm(p, r, v.mistake != confirmTwiceInTransactions)
	})
}

func (v view) confirm(p dialects.ConfirmParams, r *row, once bool) bool {
	if r == nil || once && r.state == dialects.Confirmed ||
		r.holder != p.ClaimedBy && v.mistake != confirmWithoutTheToken {
		return false
	}
	changed := *r
	changed.state, changed.confirmed = dialects.Confirmed, v.now()
	v.put(p.MessageID, &changed)
	return true
}

func (q queries) ConfirmKey(ctx context.Context, p dialects.ConfirmKeyParams) (bool, error) {
	s := statement{name: "confirm the key", key: p.MessageID, token: p.ClaimedBy}
	return q.change(ctx, s, "found", "not found", func(v view, r *row) bool {
		if r == nil {
			return false
		}
		changed := *r
		if r.state != dialects.Confirmed {
			changed.holder = p.ClaimedBy
		}
		changed.state, changed.confirmed = dialects.Confirmed, v.now()
		v.put(p.MessageID, &changed)
		return true
	})
}

func (q queries) InsertConfirmed(ctx context.Context, p dialects.InsertConfirmedParams) (bool, error) {
	s := statement{name: "insert confirmed", key: p.MessageID, token: p.ClaimedBy}
	return q.change(ctx, s, "won", "taken", func(v view, r *row) bool {
		if r != nil {
			return false
		}
		now := v.now()
		v.put(p.MessageID, &row{
			state: dialects.Confirmed, holder: p.ClaimedBy, attempts: 1, recorded: now,
			leasedUntil: now, confirmed: now, expires: now + microseconds(p.RetentionUs),
		})
		return true
	})
}

func (q queries) Extend(ctx context.Context, p dialects.ExtendParams) (bool, error) {
	s := statement{name: "extend", key: p.MessageID, token: p.ClaimedBy}
	return q.change(ctx, s, "extended", "not held", func(v view, r *row) bool {
		if r == nil || r.state != dialects.Claimed || r.holder != p.ClaimedBy && v.mistake != extendWithoutTheToken {
			return false
		}
		changed, now := *r, v.now()
		changed.leasedUntil = max(now+microseconds(p.LeaseUs), r.leasedUntil+time.Microsecond)
		changed.expires = max(now+microseconds(p.RetentionUs), r.expires)
		v.put(p.MessageID, &changed)
		return true
	})
}

func (q queries) Forget(ctx context.Context, p dialects.ForgetParams) (bool, error) {
	if q.p.w.scenario.mistake == cleanUpInTheDeliverysContext {
		if delivery, ok := ctx.Value(deliveryKey{}).(*delivery); ok && delivery.ctx.Err() != nil {
			return false, delivery.ctx.Err()
		}
	}
	s := statement{name: "forget", key: p.MessageID, token: p.ClaimedBy}
	return q.change(ctx, s, "given back", "nothing to give back", func(v view, r *row) bool {
		switch {
		case r == nil,
			r.state != dialects.Claimed && v.mistake != forgetOfTheConfirmed,
			r.holder != p.ClaimedBy && v.mistake != forgetWithoutTheToken:
			return false
		}
		v.put(p.MessageID, nil)
		return true
	})
}

func (q queries) Get(ctx context.Context, p dialects.GetParams) (dialects.Row, error) {
	var found *dialects.Row
	s := &statement{name: "read", key: p.MessageID}
	s.run = func(v view) string {
		found = nil
		r := v.row(p.MessageID)
		if r == nil {
			return "not found"
		}
		s.seen = r.holder
		found = v.read(p.MessageID, q.p.token())
		switch {
		case found.State == dialects.Confirmed:
			return "confirmed"
		case found.LeaseLeftUs > 0:
			return "claimed"
		}
		return "claimed, lease over"
	}
	switch err := q.exec(ctx, s); {
	case err != nil:
		return dialects.Row{}, err
	case found == nil:
		return dialects.Row{}, dialects.ErrNotFound
	}
	return *found, nil
}

// read is the row of key as the claim with this token reads it.
func (v view) read(key, token string) *dialects.Row {
	r, now := v.row(key), v.now()
	read := &dialects.Row{
		MessageID: key, State: r.state, ClaimedBy: r.holder, Attempts: r.attempts,
		AgeUs: (now - r.recorded).Microseconds(), LeaseLeftUs: (r.leasedUntil - now).Microseconds(),
		RetentionLeftUs: (r.expires - now).Microseconds(),
	}
	if r.state == dialects.Confirmed {
		read.ConfirmedAgeUs = (now - r.confirmed).Microseconds()
	}
	switch {
	case v.mistake == noCheckOfTheOwnToken && r.holder == token:
		read.ClaimedBy = "somebody else"
	case v.mistake == inProgressIsDuplicate && r.live(now) && r.holder != token:
		read.State = dialects.Confirmed
	}
	return read
}

func (q queries) ListStale(context.Context, int64) ([]dialects.Row, error) {
	return nil, errors.ErrUnsupported
}

func (q queries) CountByState(context.Context) ([]dialects.Count, error) {
	return nil, errors.ErrUnsupported
}

func (q queries) PurgeBatch(ctx context.Context, p dialects.PurgeBatchParams) (batch dialects.PurgedBatch, err error) {
	s := &statement{name: "purge"}
	s.run = func(v view) string {
		now := v.now()
		for _, key := range keys(v.rows) {
			r := v.rows[key]
			if batch.Deleted < p.BatchSize && !v.locked(key, v.tx) &&
				(r.purgeable(now) || v.mistake == purgeOfLiveClaims && r.state == dialects.Claimed) {
				v.put(key, nil)
				batch.Deleted++
			}
		}
		return "done"
	}
	if err := q.exec(ctx, s); err != nil {
		return dialects.PurgedBatch{}, err
	}
	batch.More = batch.Deleted == p.BatchSize
	return batch, nil
}

func (q queries) WithTx(tx *sql.Tx) dialects.Queries { return queries{p: q.p, to: tx} }

func (queries) Close() error { return nil }

func microseconds(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
