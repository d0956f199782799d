package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// health tells whether the service can work: its database answers and its queue is consumed.
type health struct {
	db        *sql.DB
	connected atomic.Bool
}

func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	switch {
	case !h.connected.Load():
		http.Error(w, "the queue is not consumed", http.StatusServiceUnavailable)
	case h.db.PingContext(ctx) != nil:
		http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ok")
	}
}

// serve answers GET /healthz until ctx ends.
func (h *health) serve(ctx context.Context, address string) error {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", h)
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return server.ListenAndServe()
}
