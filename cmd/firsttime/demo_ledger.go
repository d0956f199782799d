package main

import (
	"context"
	"database/sql"
	"fmt"
)

// ledger is the table of charges. It has no unique constraint on purpose: nothing but the claims keeps a
// payment from being charged twice.
type ledger struct {
	db    database
	table string
}

func (l ledger) create(ctx context.Context) error {
	_, err := l.db.ExecContext(ctx, "CREATE TABLE "+l.table+
		" (payment_id VARCHAR(255) NOT NULL, order_id VARCHAR(255) NOT NULL, amount_cents BIGINT NOT NULL)")
	return err
}

func (l ledger) charge(ctx context.Context, tx *sql.Tx, p payment) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (payment_id, order_id, amount_cents) VALUES (%s, %s, %s)",
		l.table, l.db.parameter(1), l.db.parameter(2), l.db.parameter(3)), p.ID, p.OrderID, p.AmountCents)
	return err
}

// check counts the charges, the payments without one, and the payments with more than one.
func (l ledger) check(ctx context.Context, payments []payment) (charges, missing, double int, err error) {
	rows, err := l.db.QueryContext(ctx, "SELECT payment_id FROM "+l.table)
	if err != nil {
		return 0, 0, 0, err
	}
	defer rows.Close()
	perPayment := make(map[string]int, len(payments))
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return 0, 0, 0, err
		}
		charges++
		perPayment[id]++
	}
	for _, p := range payments {
		switch n := perPayment[p.ID]; {
		case n == 0:
			missing++
		case n > 1:
			double++
		}
	}
	return charges, missing, double, rows.Err()
}

func (l ledger) drop(ctx context.Context) error {
	_, err := l.db.ExecContext(ctx, "DROP TABLE "+l.table)
	return err
}
