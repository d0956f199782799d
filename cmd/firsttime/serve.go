package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/firsttime-go/firsttime/store"
)

type serveOptions struct {
	listen     string
	every      time.Duration
	share      float64
	countEvery time.Duration
}

// serveConnections leaves one for a health check while keys are purged and counted, and keeps checks of a database
// that hangs from taking all that it has.
const serveConnections = 4

func newServe(c *cli) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Purge on schedule, and serve metrics and health",
		Long: `Stays and purges on schedule, as "purge --every" does, and serves over HTTP

  /metrics  how many keys there are and what the purges did, in the text format of Prometheus
  /healthz  200 if the database answers and has the table, else 503 with the reason in one line

A purge that fails is logged and counted, and the next one tried in its turn. Several processes may serve one table.
SIGINT and SIGTERM are its normal end: a purge under way stops after its batch, and the exit code is 0.

There is no password on what it serves: listen on localhost, or where only your Prometheus gets to.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return wrongUse{err}
			}
			return c.serve(cmd.Context(), o, cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:9464", "address to serve on; port 0 takes a free one")
	f.DurationVar(&o.every, "every", time.Hour, "purge about this often")
	f.Float64Var(&o.share, "share", store.DefaultPurgeShare, "part of the time in which statements of a purge may run, 0.0001 to 1")
	f.DurationVar(&o.countEvery, "count-every", time.Minute, "read the table at most this often for /metrics")
	return cmd
}

func (o serveOptions) validate() error {
	_, _, err := net.SplitHostPort(o.listen)
	switch {
	case err != nil:
		return fmt.Errorf("--listen %s: give host:port, such as 127.0.0.1:9464", printable(o.listen))
	case o.every < time.Second:
		return fmt.Errorf("--every %v: give at least 1s", o.every)
	case !(o.share >= store.MinPurgeShare && o.share <= 1):
		return fmt.Errorf("--share %v: give %v to 1", o.share, store.MinPurgeShare)
	case o.countEvery < time.Second:
		return fmt.Errorf("--count-every %v: give at least 1s", o.countEvery)
	}
	return nil
}

// serve purges and answers until ctx ends, which is no error. It logs to w.
func (c *cli) serve(ctx context.Context, o serveOptions, w io.Writer) error {
	logger := c.logger(w)
	db, err := c.open()
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(serveConnections)
	s, err := db.store(ctx, store.WithTimeout(c.timeout), store.WithLogger(logger))
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	logger.Info("serving", slog.String("address", listener.Addr().String()), slog.String("database", db.name),
		slog.Duration("purge_every", o.every))

	p := &purger{store: s, every: o.every, share: o.share, logger: logger}
	keys := &keyGauges{store: s, interval: o.countEvery, patience: countTime, logger: logger}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics(keys, p))
	mux.Handle("GET /healthz", healthz(db, s, min(c.timeout, healthTime)))

	serving, stop := context.WithCancel(ctx)
	purged := make(chan struct{})
	go func() {
		p.run(serving)
		close(purged)
	}()
	err = serveHTTP(serving, listener, mux)
	stop()
	<-purged
	logger.Info("stopped")
	return errors.Join(err, s.Close())
}

func (c *cli) logger(w io.Writer) *slog.Logger {
	if c.json {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

// shutdownTime is for answers under way when the command is told to end.
const shutdownTime = 3 * time.Second

// serveHTTP answers until ctx ends.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      countTime + 10*time.Second, // a scrape may have to wait for the keys to be counted
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 14,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if server.Shutdown(last) != nil {
		_ = server.Close() // who asked goes without an answer
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// healthTime is what a health check may take: those who ask give up after a few seconds.
const healthTime = 2 * time.Second

// healthz looks for one key, by the table's primary key. Whether it is there does not matter.
func healthz(db database, s *store.SQL, patience time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		if _, err := s.Get(ctx, "healthz"); err != nil && !errors.Is(err, store.ErrNotFound) {
			http.Error(w, oneLine(db.advise(err)), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}
