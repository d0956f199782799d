package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/rabbitmq"
)

// order is the body of a message.
type order struct {
	ID          string `json:"order_id"`
	AmountCents int64  `json:"amount_cents"`
}

// payments charges orders.
type payments struct {
	db      *sql.DB
	dialect string
	work    time.Duration
	outside bool
}

// createTable makes the table of charges. No constraint of it keeps an order from being charged twice:
// that is for the keys to do.
func (p *payments) createTable(ctx context.Context) error {
	_, err := p.db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS charges (order_id VARCHAR(100) NOT NULL, amount_cents BIGINT NOT NULL)`)
	if err == nil {
		return nil
	}
	// Two processes that start at once can both try, on PostgreSQL: IF NOT EXISTS does not keep them apart.
	if _, there := p.db.ExecContext(ctx, "SELECT 1 FROM charges WHERE 1 = 0"); there == nil {
		return nil
	}
	return err
}

func (p *payments) handler() rabbitmq.Handler {
	if p.outside {
		return p.chargeOutside
	}
	return consumer.InTx(p.db, p.chargeInTx)
}

// chargeInTx charges in the transaction that confirms the message's key: both are committed, or neither.
func (p *payments) chargeInTx(ctx context.Context, tx *sql.Tx, d amqp.Delivery) error {
	o, err := parse(d)
	if err != nil {
		return err
	}
	if err := p.charge(ctx, tx, o); err != nil {
		return err
	}
	return pause(ctx, p.work)
}

// chargeOutside charges on its own, as a call to somebody else's API would. The key is confirmed after it:
// a process that dies in between has charged, and the next delivery charges again.
func (p *payments) chargeOutside(ctx context.Context, d amqp.Delivery) consumer.Ack {
	o, err := parse(d)
	if err == nil {
		err = p.charge(ctx, p.db, o)
	}
	if err == nil {
		err = pause(ctx, p.work)
	}
	return consumer.FromError(err)
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (p *payments) charge(ctx context.Context, at execer, o order) error {
	insert := "INSERT INTO charges (order_id, amount_cents) VALUES (?, ?)"
	if p.dialect == "postgres" {
		insert = "INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)"
	}
	_, err := at.ExecContext(ctx, insert, o.ID, o.AmountCents)
	return err
}

// parse says of a body that makes no sense that no retry will help it.
func parse(d amqp.Delivery) (o order, err error) {
	if err := json.Unmarshal(d.Body, &o); err != nil {
		return o, consumer.Fatal(fmt.Errorf("the body is no order: %w", err))
	}
	if o.ID == "" || o.AmountCents <= 0 {
		return o, consumer.Fatal(fmt.Errorf("order %q of %d cents cannot be charged", o.ID, o.AmountCents))
	}
	return o, nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
