package rabbitmq_test

import (
	"context"
	"database/sql"
	"log"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/rabbitmq"
	"github.com/firsttime-go/firsttime/dialects/postgres"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
)

// The program of the README.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	check(err)
	check(migrations.Up(ctx, db, postgres.Dialect)) // creates firsttime_keys; may run at every start
	keys, err := store.New(db, postgres.Dialect)
	check(err)

	charge := consumer.InTx(db, func(ctx context.Context, tx *sql.Tx, d amqp.Delivery) error { // work and key commit together
		_, err := tx.ExecContext(ctx, "INSERT INTO charges (order_id, cents) VALUES ($1, $2)", d.MessageId, 4200)
		return err
	})
	check(rabbitmq.Consume(ctx, os.Getenv("AMQP_URL"), "payments", charge, rabbitmq.WithStore(keys)))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
