// Package prometheus counts and times what consumers do, and shows how many keys a store has, in metrics of
// Prometheus.
//
//	metrics, err := prometheus.New(prometheus.DefaultRegisterer)
//	handle := consumer.Idempotent(payments, key, handler, consumer.WithObserver(metrics))
//
//	prometheus.DefaultRegisterer.MustRegister(prometheus.NewKeys(store, time.Minute))
//
// It is a module of its own, so that programs without it do not depend on the client of Prometheus.
package prometheus

import (
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firsttime-go/firsttime/consumer"
)

// Metrics is an observer of consumers. It is safe for concurrent use; one serves all consumers of a process.
// It never has a key in a label: there would be a time series for every message.
type Metrics struct {
	deliveries *prometheus.CounterVec
	confirms   *prometheus.CounterVec
	failures   *prometheus.CounterVec
	forgets    *prometheus.CounterVec
	lost       *prometheus.CounterVec
	heartbeats *prometheus.CounterVec
	claim      *prometheus.HistogramVec
	confirm    *prometheus.HistogramVec
	handle     *prometheus.HistogramVec

	scopes sync.Map // those whose counters are there
}

// The buckets are for a statement, from a tenth of a millisecond on, and for a handler, up to ten minutes.
var (
	statementBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	handlerBuckets   = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600}
)

// New registers the metrics. It fails if they are registered already: share one Metrics.
func New(registry prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "firsttime", Name: name, Help: help}, append([]string{"scope"}, labels...))
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "firsttime", Name: name, Help: help, Buckets: buckets}, []string{"scope"})
	}
	m := &Metrics{
		deliveries: counter("deliveries_total", "Deliveries, by what they met: first, takeover, duplicate, in_progress, rejected, store_error.", "outcome"),
		confirms:   counter("confirms_total", "Keys that were confirmed."),
		failures:   counter("confirm_failures_total", "Keys of accepted work that could not be confirmed: another delivery would do it again."),
		forgets:    counter("forget_failures_total", "Keys that could not be given back: a retry waits until the lease is over."),
		lost:       counter("claims_lost_total", "Claims that were lost while their handlers ran, or before they were confirmed."),
		heartbeats: counter("heartbeats_total", "Extensions of leases, by result: ok, failed.", "result"),
		claim:      histogram("claim_duration_seconds", "How long claims took.", statementBuckets),
		confirm:    histogram("confirm_duration_seconds", "How long it took to confirm keys or give them back after their handlers.", statementBuckets),
		handle:     histogram("handler_duration_seconds", "How long handlers ran.", handlerBuckets),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.deliveries, m.confirms, m.failures, m.forgets, m.lost, m.heartbeats, m.claim, m.confirm, m.handle} {
		errs = append(errs, registry.Register(c))
	}
	return m, errors.Join(errs...)
}

// prepare shows all counters of a scope as 0 before the first of them counts: to Prometheus a counter that begins
// with 1 has not increased, and the first failed confirm would raise no alert.
func (m *Metrics) prepare(scope string) {
	if _, known := m.scopes.LoadOrStore(scope, true); known {
		return
	}
	for _, outcome := range []consumer.Outcome{
		consumer.First, consumer.TakenOver, consumer.Duplicate, consumer.InProgress, consumer.Rejected, consumer.StoreError,
	} {
		m.deliveries.WithLabelValues(scope, string(outcome))
	}
	for _, c := range []*prometheus.CounterVec{m.confirms, m.failures, m.forgets, m.lost} {
		c.WithLabelValues(scope)
	}
	m.heartbeats.WithLabelValues(scope, "ok")
	m.heartbeats.WithLabelValues(scope, "failed")
}

// Observe counts an event. It is called by consumers.
func (m *Metrics) Observe(_ context.Context, e consumer.Event) {
	m.prepare(e.Scope)
	switch e.Kind {
	case consumer.Settled:
		m.settled(e)
	case consumer.ConfirmFailed:
		m.failures.WithLabelValues(e.Scope).Inc()
	case consumer.ForgetFailed:
		m.forgets.WithLabelValues(e.Scope).Inc()
	case consumer.ClaimLost:
		m.lost.WithLabelValues(e.Scope).Inc()
	case consumer.Heartbeat:
		result := "ok"
		if e.Err != nil {
			result = "failed"
		}
		m.heartbeats.WithLabelValues(e.Scope, result).Inc()
	}
}

func (m *Metrics) settled(e consumer.Event) {
	m.deliveries.WithLabelValues(e.Scope, string(e.Outcome)).Inc()
	if e.Claim > 0 {
		m.claim.WithLabelValues(e.Scope).Observe(e.Claim.Seconds())
	}
	if e.Handle > 0 {
		m.handle.WithLabelValues(e.Scope).Observe(e.Handle.Seconds())
	}
	if e.Confirm > 0 {
		m.confirm.WithLabelValues(e.Scope).Observe(e.Confirm.Seconds())
	}
	if e.Confirmed {
		m.confirms.WithLabelValues(e.Scope).Inc()
	}
}
