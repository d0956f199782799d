// Command payments is a complete service: it takes orders from RabbitMQ and charges each of them exactly
// once, in a transaction of PostgreSQL, MySQL, MariaDB or SQLite.
//
//	payments -dialect sqlite -dsn 'file:payments.db?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate'
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql" // driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	_ "modernc.org/sqlite"             // driver "sqlite"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/rabbitmq"
	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/dialects/all"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
)

type config struct {
	amqp        string
	queue       string
	dialect     string
	dsn         string
	lease       time.Duration
	concurrency int
	health      string
	work        time.Duration
	outside     bool
}

func main() {
	var c config
	flag.StringVar(&c.amqp, "amqp", envOr("AMQP_URL", "amqp://localhost"), "URL of RabbitMQ; or set AMQP_URL")
	flag.StringVar(&c.queue, "queue", "payments", "queue of the orders")
	flag.StringVar(&c.dialect, "dialect", "sqlite", "kind of database: postgres, mysql or sqlite")
	flag.StringVar(&c.dsn, "dsn", os.Getenv("DATABASE_DSN"), "data source name, as the database's driver wants it; or set DATABASE_DSN")
	flag.DurationVar(&c.lease, "lease", store.DefaultLease, "how long the claim of a process that died is honoured")
	flag.IntVar(&c.concurrency, "concurrency", rabbitmq.DefaultConcurrency, "charges at once")
	flag.StringVar(&c.health, "health", "", "address of the health endpoint, such as localhost:8080")
	flag.DurationVar(&c.work, "work", 0, "how long a charge takes, to simulate a slow one")
	flag.BoolVar(&c.outside, "outside-transaction", false, "charge outside of the key's transaction, to see what that costs")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, c)
	stop()
	// To be told to end while it still starts is no failure.
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "payments:", err)
		os.Exit(1)
	}
}

func envOr(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

// run serves until ctx ends and everything that was begun is settled.
func run(ctx context.Context, c config) error {
	db, dialect, err := open(ctx, c)
	if err != nil {
		return err
	}
	defer db.Close()
	keys, err := store.NewContext(ctx, db, dialect, store.WithLease(c.lease))
	if err != nil {
		return err
	}
	defer keys.Close() //nolint:errcheck // the process ends
	go func() {
		// Every process of the service may purge; they take turns.
		if err := keys.PurgeEvery(ctx, time.Hour); err != nil && ctx.Err() == nil {
			slog.Error("keys are not purged any more", "error", err)
		}
	}()

	p := &payments{db: db, dialect: dialect.Name(), work: c.work, outside: c.outside}
	if err := p.createTable(ctx); err != nil {
		return err
	}
	h := &health{db: db}
	if c.health != "" {
		go func() {
			if err := h.serve(ctx, c.health); !errors.Is(err, http.ErrServerClosed) {
				slog.Error("no health endpoint", "error", err)
			}
		}()
	}
	return rabbitmq.Consume(ctx, c.amqp, c.queue, p.handler(),
		rabbitmq.WithStore(keys, consumer.WithMaxAttempts(10)),
		rabbitmq.WithConcurrency(c.concurrency),
		rabbitmq.WithOnConnection(h.connected.Store))
}

// open opens the database and brings its table of keys up to date.
func open(ctx context.Context, c config) (*sql.DB, dialects.Dialect, error) {
	dialect, err := all.ByName(c.dialect)
	if err != nil {
		return nil, nil, err
	}
	if c.dsn == "" {
		return nil, nil, errors.New("no database: give -dsn, or set DATABASE_DSN")
	}
	drivers := map[string]string{"postgres": "pgx", "mysql": "mysql", "sqlite": "sqlite"}
	db, err := sql.Open(drivers[dialect.Name()], c.dsn)
	if err != nil {
		return nil, nil, err
	}
	// A connection for every charge, and some for heartbeats, claims and confirms meanwhile.
	db.SetMaxOpenConns(2*c.concurrency + 2)
	db.SetMaxIdleConns(2*c.concurrency + 2)
	if err := migrations.Up(ctx, db, dialect); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, dialect, nil
}
