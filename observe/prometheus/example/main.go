// Command example consumes a queue of RabbitMQ once for each message, with its keys in SQLite, and serves the
// metrics of that to Prometheus.
//
//	example -db keys.db -listen 127.0.0.1:9465
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	amqp "github.com/rabbitmq/amqp091-go"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/rabbitmq"
	"github.com/firsttime-go/firsttime/dialects/sqlite"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/observe/prometheus"
	"github.com/firsttime-go/firsttime/store"
)

type config struct {
	amqp   string
	queue  string
	db     string
	listen string
	lease  time.Duration
	count  time.Duration
	work   time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.amqp, "amqp", "amqp://localhost", "URL of RabbitMQ")
	flag.StringVar(&c.queue, "queue", "letters", "queue to consume")
	flag.StringVar(&c.db, "db", "keys.db", "file of the keys")
	flag.StringVar(&c.listen, "listen", "127.0.0.1:9465", "address of /metrics")
	flag.DurationVar(&c.lease, "lease", store.DefaultLease, "how long the claim of a process that died is honoured")
	flag.DurationVar(&c.count, "count-every", time.Minute, "read the table at most this often")
	flag.DurationVar(&c.work, "work", 0, "how long a message takes")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, c)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) error {
	db, err := sql.Open("sqlite", "file:"+c.db+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := migrations.Up(ctx, db, sqlite.Dialect); err != nil {
		return err
	}
	keys, err := store.NewContext(ctx, db, sqlite.Dialect, store.WithLease(c.lease))
	if err != nil {
		return err
	}
	defer keys.Close() //nolint:errcheck // the process ends

	registry := client.NewRegistry()
	metrics, err := prometheus.New(registry)
	if err != nil {
		return err
	}
	if err := registry.Register(prometheus.NewKeys(keys, c.count)); err != nil {
		return err
	}
	if err := serve(ctx, c.listen, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})); err != nil {
		return err
	}
	handle := func(ctx context.Context, d amqp.Delivery) consumer.Ack {
		slog.Info("at work", "message", d.MessageId)
		select {
		case <-ctx.Done():
			return consumer.Retry(context.Cause(ctx))
		case <-time.After(c.work):
			return consumer.Accept()
		}
	}
	return rabbitmq.Consume(ctx, c.amqp, c.queue, handle, rabbitmq.WithStore(keys, consumer.WithObserver(metrics)))
}

// serve answers GET /metrics from now until ctx ends.
func serve(ctx context.Context, address string, metrics http.Handler) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	slog.Info("serving", "address", listener.Addr().String())
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("no metrics any more", "error", err)
		}
	}()
	return nil
}
