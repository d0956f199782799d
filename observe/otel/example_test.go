package otel_test

import (
	"context"
	"database/sql"
	"log"
	"maps"
	"os"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/propagation"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/rabbitmq"
	"github.com/firsttime-go/firsttime/dialects/postgres"
	"github.com/firsttime-go/firsttime/observe/otel"
	"github.com/firsttime-go/firsttime/store"
)

// headers lets a propagator read and write the headers of a message.
type headers amqp.Table

func (h headers) Get(name string) string { text, _ := h[name].(string); return text }
func (h headers) Set(name, value string) { h[name] = value }
func (h headers) Keys() []string         { return slices.Collect(maps.Keys(h)) }

// traced puts the trace of a message, from its header traceparent, into the context of its delivery.
func traced(next rabbitmq.Handler) rabbitmq.Handler {
	return func(ctx context.Context, d amqp.Delivery) consumer.Ack {
		return next(propagation.TraceContext{}.Extract(ctx, headers(d.Headers)), d)
	}
}

// With RabbitMQ: traced is outermost, so that claims and confirms are in the message's trace as well as what the
// handler does.
func Example() {
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	check(err)
	keys, err := store.New(db, postgres.Dialect)
	check(err)
	payments, err := keys.Scope("payments")
	check(err)
	telemetry, err := otel.New()
	check(err)

	charge := func(context.Context, amqp.Delivery) consumer.Ack { return consumer.Accept() }
	once := consumer.Idempotent(payments, rabbitmq.Key, charge, consumer.WithObserver(telemetry))
	check(rabbitmq.Consume(context.Background(), os.Getenv("AMQP_URL"), "payments", traced(once)))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
