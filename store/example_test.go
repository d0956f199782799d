package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/firsttime-go/firsttime/dialects/all"
	"github.com/firsttime-go/firsttime/dialects/sqlite"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
)

// openExample is a migrated database with a table of charges.
func openExample() (db *sql.DB, remove func()) {
	dir, err := os.MkdirTemp("", "firsttime-example-")
	if err != nil {
		log.Fatal(err)
	}
	db, err = sql.Open("sqlite", "file:"+filepath.Join(dir, "keys.db")+
		"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	if err := migrations.Up(context.Background(), db, sqlite.Dialect); err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE charges (order_id TEXT, cents INTEGER)"); err != nil {
		log.Fatal(err)
	}
	return db, func() {
		db.Close()
		os.RemoveAll(dir)
	}
}

// The work and its key commit together, so that three deliveries charge once.
func Example() {
	ctx := context.Background()
	db, remove := openExample()
	defer remove()
	s, err := store.New(db, sqlite.Dialect)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	payments, err := s.Scope("payments")
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		c, err := payments.Claim(ctx, "order-1")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(c.Outcome())
		if !c.Outcome().Held() {
			continue
		}
		err = c.InTx(ctx, db, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO charges VALUES ('order-1', 4200)")
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	var charges int
	if err := db.QueryRow("SELECT count(*) FROM charges").Scan(&charges); err != nil {
		log.Fatal(err)
	}
	fmt.Println("charges:", charges)
	// Output:
	// first
	// duplicate
	// duplicate
	// charges: 1
}

// ConfirmTx puts the confirm into a transaction that is there already.
func ExampleClaim_ConfirmTx() {
	ctx := context.Background()
	db, remove := openExample()
	defer remove()
	s, err := store.New(db, sqlite.Dialect)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	c, err := s.Claim(ctx, "order-1")
	if err != nil {
		log.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO charges VALUES ('order-1', 4200)"); err != nil {
		log.Fatal(err)
	}
	if err := c.ConfirmTx(ctx, tx); err != nil { // last before the commit; ErrClaimLost: roll back
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	again, err := s.Claim(ctx, "order-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Outcome())
	// Output: duplicate
}

// The small contract: for work that cannot share a transaction with its key.
func ExampleScoped_FirstTime() {
	ctx := context.Background()
	m, err := store.NewMemory()
	if err != nil {
		log.Fatal(err)
	}
	send := func(key string) error {
		first, err := m.FirstTime(ctx, key)
		if err != nil || !first {
			return err
		}
		fmt.Println("mail sent for", key)
		return m.Confirm(ctx, key) // or m.Forget(ctx, key) if it was not sent
	}
	for range 3 {
		if err := send("order-1"); err != nil {
			log.Fatal(err)
		}
	}
	// Output: mail sent for order-1
}

// The dialect is picked by a name from the configuration.
func ExampleNew() {
	db, remove := openExample()
	defer remove()
	dialect, err := all.ByName("sqlite")
	if err != nil {
		log.Fatal(err)
	}
	s, err := store.New(db, dialect, store.WithLease(time.Minute), store.WithRetention(7*24*time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	deleted, err := s.PurgeExpired(context.Background())
	fmt.Println(deleted, err)
	// Output: 0 <nil>
}
