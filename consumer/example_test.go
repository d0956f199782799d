package consumer_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/dialects/sqlite"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
)

type Mail struct{ ID, To string }

func (m Mail) MessageID() string { return m.ID }

func ExampleIdempotent() {
	keys, _ := store.NewMemory()
	mails, _ := keys.Scope("mails")

	send := consumer.Idempotent(mails, consumer.MessageID, func(_ context.Context, m Mail) consumer.Ack {
		fmt.Println("sending to", m.To)
		return consumer.Accept()
	})

	ctx := context.Background()
	fmt.Println(send(ctx, Mail{"m-1", "customer@example.org"}))
	fmt.Println(send(ctx, Mail{"m-1", "customer@example.org"})) // delivered again
	fmt.Println(send(ctx, Mail{"", "nobody"}))
	// Output:
	// sending to customer@example.org
	// accept
	// accept
	// reject: the message has no key
}

// The work and the key are one transaction.
func ExampleInTx() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "firsttime")
	defer os.RemoveAll(dir)
	db, _ := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	defer db.Close()
	migrations.Up(ctx, db, sqlite.Dialect)
	db.ExecContext(ctx, "CREATE TABLE sent (recipient TEXT)")
	keys, err := store.New(db, sqlite.Dialect)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keys.Close()

	handle := consumer.Idempotent(keys, consumer.MessageID,
		consumer.InTx(db, func(ctx context.Context, tx *sql.Tx, m Mail) error {
			if m.To == "" {
				return consumer.Fatal(errors.New("no recipient"))
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO sent VALUES (?)", m.To)
			return err
		}))

	for _, m := range []Mail{{"m-1", "customer"}, {"m-1", "customer"}, {"m-2", ""}} {
		fmt.Println(handle(ctx, m))
	}
	var sent int
	db.QueryRowContext(ctx, "SELECT count(*) FROM sent").Scan(&sent)
	fmt.Println(sent, "sent")
	// Output:
	// accept
	// accept
	// reject: no recipient
	// 1 sent
}

func ExampleJoin() {
	fmt.Println(consumer.Join("eu", "order", "4711"))
	fmt.Println(consumer.Join("a/b", "c") == consumer.Join("a", "b/c"))
	fmt.Printf("%q\n", consumer.Join("eu", ""))
	// Output:
	// eu/order/4711
	// false
	// ""
}

// An observer sees every delivery, for metrics and traces.
func ExampleWithObserver() {
	keys, _ := store.NewMemory()
	print := consumer.ObserverFunc(func(_ context.Context, e consumer.Event) {
		fmt.Println(e.Kind, e.Outcome, e.Key, e.Ack)
	})
	handle := consumer.Idempotent(keys, consumer.MessageID,
		func(context.Context, Mail) consumer.Ack { return consumer.Accept() }, consumer.WithObserver(print))
	handle(context.Background(), Mail{ID: "m-1"})
	handle(context.Background(), Mail{ID: "m-1"})
	// Output:
	// settled first m-1 accept
	// settled duplicate m-1 accept
}
