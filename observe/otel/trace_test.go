package otel_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/rabbitmq"
	"github.com/firsttime-go/firsttime/observe/otel"
	"github.com/firsttime-go/firsttime/store"
)

// What a publisher put into a message's headers is the trace that its claim, its handler, its confirm and the claims
// of its redeliveries belong to.
func TestClaimAndConfirmBelongToTheTraceInTheMessagesHeaders(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	telemetry, err := otel.New(otel.WithTracerProvider(tracers))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := store.NewMemory()
	if err != nil {
		t.Fatal(err)
	}

	publishing, sent := tracers.Tracer("publisher").Start(t.Context(), "send")
	message := amqp.Delivery{MessageId: "A", Headers: amqp.Table{"unrelated": int32(1)}}
	propagation.TraceContext{}.Inject(publishing, headers(message.Headers))
	sent.End()

	answers := []consumer.Ack{consumer.Retry(errors.New("no")), consumer.Accept()}
	handle := traced(consumer.Idempotent(memory, rabbitmq.Key, func(ctx context.Context, _ amqp.Delivery) consumer.Ack {
		_, work := tracers.Tracer("handler").Start(ctx, "work")
		work.End()
		answer := answers[0]
		answers = answers[1:]
		return answer
	}, consumer.WithObserver(telemetry), consumer.WithLogger(slog.New(slog.DiscardHandler))))
	for range 3 { // retried, accepted, duplicate
		handle(t.Context(), message)
	}

	count := map[string]int{}
	for _, span := range spans.Ended() {
		count[span.Name()]++
		if span.Name() == "send" {
			continue
		}
		if parent := span.Parent(); parent.SpanID() != sent.SpanContext().SpanID() || parent.TraceID() != sent.SpanContext().TraceID() || !parent.IsRemote() {
			t.Errorf("%s does not belong to the message: its parent is %v", span.Name(), parent)
		}
	}
	for name, n := range map[string]int{"send": 1, "firsttime claim": 3, "work": 2, "firsttime forget": 1, "firsttime confirm": 1} {
		if count[name] != n {
			t.Errorf("%d spans %q, want %d (%v)", count[name], name, n, count)
		}
	}
}
