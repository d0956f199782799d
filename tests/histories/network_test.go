package histories

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
)

// layer is what statements pass through on their way to a database.
type layer func(q dialects.Queries, db *sql.DB) dialects.Queries

// behind is a dialect whose statements pass through a layer.
type behind struct {
	dialects.Dialect
	layer layer
}

func (b behind) Open(ctx context.Context, db *sql.DB, mode dialects.StatementMode) (dialects.Queries, error) {
	q, err := b.Dialect.Open(ctx, db, mode)
	if err != nil {
		return nil, err
	}
	return b.layer(q, db), nil
}

// network is a layer that lets some statements wait, so that those of several clients interleave in more
// ways, and loses some requests and some replies in the contexts that ask for it.
type network struct{ dialects.Queries }

func throughNetwork(q dialects.Queries, _ *sql.DB) dialects.Queries { return network{q} }

type losses struct{}

func losing(ctx context.Context) context.Context { return context.WithValue(ctx, losses{}, true) }

var errNoReply = dialects.Mark(dialects.ErrOutcomeUnknown, errors.New("the reply was lost"))

// pass runs a statement, or does not, and hands its error on, or another one.
func pass(ctx context.Context, statement func() error) error {
	if rand.N(4) == 0 {
		time.Sleep(rand.N(1500 * time.Microsecond))
	}
	lose := ctx.Value(losses{}) != nil && rand.N(10) == 0
	if lose && rand.N(2) == 0 {
		return errNoReply
	}
	err := statement()
	if lose {
		return errNoReply
	}
	return err
}

// ask is pass for a statement that answers.
func ask[T any](ctx context.Context, statement func() (T, error)) (T, error) {
	var t, none T
	err := pass(ctx, func() (err error) {
		t, err = statement()
		return err
	})
	if err != nil {
		return none, err
	}
	return t, nil
}

func (n network) Claim(ctx context.Context, p dialects.ClaimParams) (won bool, taken *dialects.Row, err error) {
	err = pass(ctx, func() (err error) {
		won, taken, err = n.Queries.Claim(ctx, p)
		return err
	})
	if err != nil {
		return false, nil, err
	}
	return won, taken, nil
}

func (n network) Takeover(ctx context.Context, p dialects.TakeoverParams) (bool, error) {
	return ask(ctx, func() (bool, error) { return n.Queries.Takeover(ctx, p) })
}

func (n network) Confirm(ctx context.Context, p dialects.ConfirmParams) (bool, error) {
	return ask(ctx, func() (bool, error) { return n.Queries.Confirm(ctx, p) })
}

func (n network) ConfirmOnce(ctx context.Context, p dialects.ConfirmParams) (bool, error) {
	return ask(ctx, func() (bool, error) { return n.Queries.ConfirmOnce(ctx, p) })
}

func (n network) ConfirmKey(ctx context.Context, p dialects.ConfirmKeyParams) (bool, error) {
	return ask(ctx, func() (bool, error) { return n.Queries.ConfirmKey(ctx, p) })
}

func (n network) InsertConfirmed(ctx context.Context, p dialects.InsertConfirmedParams) (bool, error) {
	return ask(ctx, func() (bool, error) { return n.Queries.InsertConfirmed(ctx, p) })
}

func (n network) Extend(ctx context.Context, p dialects.ExtendParams) (bool, error) {
	return ask(ctx, func() (bool, error) { return n.Queries.Extend(ctx, p) })
}

func (n network) Forget(ctx context.Context, p dialects.ForgetParams) (bool, error) {
	return ask(ctx, func() (bool, error) { return n.Queries.Forget(ctx, p) })
}

func (n network) Get(ctx context.Context, p dialects.GetParams) (dialects.Row, error) {
	return ask(ctx, func() (dialects.Row, error) { return n.Queries.Get(ctx, p) })
}

func (n network) PurgeBatch(ctx context.Context, p dialects.PurgeBatchParams) (dialects.PurgedBatch, error) {
	return ask(ctx, func() (dialects.PurgedBatch, error) { return n.Queries.PurgeBatch(ctx, p) })
}

func (n network) WithTx(tx *sql.Tx) dialects.Queries { return network{n.Queries.WithTx(tx)} }
