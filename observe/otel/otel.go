// Package otel reports what consumers do to OpenTelemetry: counters and durations as metrics, and a span for
// every claim and every confirm, as children of the span in the delivery's context.
//
//	telemetry, err := otel.New(otel.WithTracerProvider(tracers), otel.WithMeterProvider(meters))
//	handle := consumer.Idempotent(payments, key, handler, consumer.WithObserver(telemetry))
//
// Put the trace of a message into its delivery's context before the wrapped handler is called, as the
// propagator of your broker's instrumentation does, and its claim and confirm are part of that trace.
//
// It is a module of its own, so that programs without it do not depend on OpenTelemetry.
package otel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/firsttime-go/firsttime/consumer"
)

const instrumentation = "github.com/firsttime-go/firsttime/observe/otel"

// Attributes of metrics and spans. Keys are attributes of spans alone, and only if WithKeys says so: they may be
// secret, and there are too many of them for metrics.
const (
	scopeKey   = attribute.Key("firsttime.scope")
	outcomeKey = attribute.Key("firsttime.outcome")
	attemptKey = attribute.Key("firsttime.attempt")
	messageKey = attribute.Key("firsttime.key")
	errorKey   = attribute.Key("error.type")
)

// Option configures New.
type Option func(*settings)

type settings struct {
	tracers trace.TracerProvider
	meters  metric.MeterProvider
	keys    bool
}

// WithTracerProvider sets where spans go. The default is the global provider.
func WithTracerProvider(p trace.TracerProvider) Option { return func(s *settings) { s.tracers = p } }

// WithMeterProvider sets where metrics go. The default is the global provider.
func WithMeterProvider(p metric.MeterProvider) Option { return func(s *settings) { s.meters = p } }

// WithKeys puts the keys into the spans.
func WithKeys() Option { return func(s *settings) { s.keys = true } }

// Telemetry is an observer of consumers. It is safe for concurrent use; one serves all consumers of a process.
type Telemetry struct {
	tracer trace.Tracer
	keys   bool

	deliveries, confirms, confirmFailures, forgetFailures, lost, heartbeats metric.Int64Counter
	claim, confirm, handle                                                  metric.Float64Histogram
}

// New makes the instruments. It fails if the provider of meters does.
func New(options ...Option) (*Telemetry, error) {
	set := settings{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider()}
	for _, option := range options {
		option(&set)
	}
	t := &Telemetry{tracer: set.tracers.Tracer(instrumentation), keys: set.keys}
	meter := set.meters.Meter(instrumentation)
	var errs []error
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	duration := func(name, description string) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description))
		errs = append(errs, err)
		return h
	}
	t.deliveries = counter("firsttime.deliveries", "{delivery}", "Deliveries, by what they met.")
	t.confirms = counter("firsttime.confirms", "{key}", "Keys that were confirmed.")
	t.confirmFailures = counter("firsttime.confirm.failures", "{key}", "Keys of accepted work that could not be confirmed.")
	t.forgetFailures = counter("firsttime.forget.failures", "{key}", "Keys that could not be given back.")
	t.lost = counter("firsttime.claims.lost", "{claim}", "Claims that were lost before they were confirmed.")
	t.heartbeats = counter("firsttime.heartbeats", "{heartbeat}", "Extensions of leases.")
	t.claim = duration("firsttime.claim.duration", "How long claims took.")
	t.confirm = duration("firsttime.confirm.duration", "How long it took to confirm keys or give them back after their handlers.")
	t.handle = duration("firsttime.handler.duration", "How long handlers ran.")
	return t, errors.Join(errs...)
}

// Observe reports an event. It is called by consumers.
func (t *Telemetry) Observe(ctx context.Context, e consumer.Event) {
	scope := scopeKey.String(e.Scope)
	of := metric.WithAttributes(scope)
	switch e.Kind {
	case consumer.Settled:
		t.settled(ctx, e, scope)
	case consumer.ConfirmFailed:
		t.confirmFailures.Add(ctx, 1, of)
	case consumer.ForgetFailed:
		t.forgetFailures.Add(ctx, 1, of)
	case consumer.ClaimLost:
		t.lost.Add(ctx, 1, of)
	case consumer.Heartbeat:
		if e.Err != nil {
			of = metric.WithAttributes(scope, errorKey.String("failed"))
		}
		t.heartbeats.Add(ctx, 1, of)
	}
}

func (t *Telemetry) settled(ctx context.Context, e consumer.Event, scope attribute.KeyValue) {
	of := metric.WithAttributes(scope)
	t.deliveries.Add(ctx, 1, metric.WithAttributes(scope, outcomeKey.String(string(e.Outcome))))
	if e.Confirmed {
		t.confirms.Add(ctx, 1, of)
	}
	attributes := []attribute.KeyValue{scope, outcomeKey.String(string(e.Outcome))}
	if e.Attempt > 0 {
		attributes = append(attributes, attemptKey.Int(e.Attempt))
	}
	if t.keys && e.Key != "" {
		attributes = append(attributes, messageKey.String(e.Key))
	}
	if e.Claim > 0 {
		t.claim.Record(ctx, e.Claim.Seconds(), of)
		var failed error
		if e.Outcome == consumer.StoreError {
			failed = e.Err
		}
		t.span(ctx, "firsttime claim", e.Started, e.Claim, failed, attributes)
	}
	if e.Handle > 0 {
		t.handle.Record(ctx, e.Handle.Seconds(), of)
	}
	if e.Confirm > 0 {
		t.confirm.Record(ctx, e.Confirm.Seconds(), of)
		name := "firsttime forget"
		if e.Ack.Accepted() {
			name = "firsttime confirm"
		}
		t.span(ctx, name, e.Started.Add(e.Claim+e.Handle), e.Confirm, nil, attributes)
	}
}

// span reports what is over already.
func (t *Telemetry) span(ctx context.Context, name string, start time.Time, took time.Duration, failed error, attributes []attribute.KeyValue) {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(start), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	if failed != nil {
		span.SetStatus(codes.Error, failed.Error())
	}
	span.End(trace.WithTimestamp(start.Add(took)))
}
