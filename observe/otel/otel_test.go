package otel_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/observe/otel"
	"github.com/firsttime-go/firsttime/store"
)

func identity(message string) string { return message }

type away struct{}

func (away) Claim(context.Context, string) (*store.Claim, error) { return nil, errors.New("away") }
func (away) FirstTime(context.Context, string) (bool, error)     { return false, errors.New("away") }

func TestTelemetryReportsWhatConsumersDo(t *testing.T) {
	reader, spans := sdkmetric.NewManualReader(), tracetest.NewSpanRecorder()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	telemetry, err := otel.New(otel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))),
		otel.WithTracerProvider(tracers), otel.WithKeys())
	if err != nil {
		t.Fatal(err)
	}
	memory, err := store.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	ctx, parent := tracers.Tracer("test").Start(t.Context(), "message")
	deliver := func(s store.Store, answer consumer.Ack, work time.Duration) {
		consumer.Idempotent(s, identity, func(context.Context, string) consumer.Ack {
			time.Sleep(work)
			return answer
		}, consumer.WithObserver(telemetry), consumer.WithHeartbeat(50*time.Millisecond), consumer.WithLogger(slog.New(slog.DiscardHandler)))(ctx, "A")
	}
	deliver(memory, consumer.Retry(errors.New("no")), 0)
	deliver(memory, consumer.Accept(), 300*time.Millisecond) // some heartbeats
	deliver(memory, consumer.Accept(), 0)                    // duplicate
	deliver(away{}, consumer.Accept(), 0)
	parent.End()

	var names []string
	for _, span := range spans.Ended() {
		if span.Name() == "message" {
			continue
		}
		names = append(names, span.Name())
		if span.Parent().SpanID() != parent.SpanContext().SpanID() {
			t.Errorf("%s is not part of the message's trace", span.Name())
		}
		if span.EndTime().Before(span.StartTime()) {
			t.Errorf("%s ends before it starts", span.Name())
		}
	}
	want := []string{"firsttime claim", "firsttime forget", "firsttime claim", "firsttime confirm", "firsttime claim", "firsttime claim"}
	if len(names) != len(want) {
		t.Fatalf("spans %v, want %v", names, want)
	}
	for i := range want {
		if names[i] != want[i] {
			t.Errorf("spans %v, want %v", names, want)
		}
	}
	if last := spans.Ended()[len(want)-1]; last.Status().Code != codes.Error {
		t.Errorf("the claim that failed has the status %v", last.Status())
	}

	var found metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, m := range found.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, point := range data.DataPoints {
				name := m.Name
				if outcome, ok := point.Attributes.Value(attribute.Key("firsttime.outcome")); ok {
					name += " " + outcome.AsString()
				}
				counts[name] += point.Value
			}
		case metricdata.Histogram[float64]:
			for _, point := range data.DataPoints {
				counts[m.Name] += int64(point.Count)
			}
		}
	}
	for name, n := range map[string]int64{
		"firsttime.deliveries first": 2, "firsttime.deliveries duplicate": 1, "firsttime.deliveries store_error": 1,
		"firsttime.confirms": 1, "firsttime.claim.duration": 4, "firsttime.handler.duration": 2,
		"firsttime.confirm.duration": 2,
	} {
		if counts[name] != n {
			t.Errorf("%s = %d, want %d (%v)", name, counts[name], n, counts)
		}
	}
	if counts["firsttime.heartbeats"] < 1 {
		t.Error("no heartbeat")
	}
}

func TestTelemetryHasDefaults(t *testing.T) {
	telemetry, err := otel.New()
	if err != nil {
		t.Fatal(err)
	}
	telemetry.Observe(t.Context(), consumer.Event{Kind: consumer.Settled, Outcome: consumer.First})
}
