package consumer_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/store"
)

// What the wrapper costs per message, with a store in memory and a handler that does nothing. The retention
// keeps the number of keys near that of a running consumer.
func BenchmarkIdempotent(b *testing.B) {
	for _, bench := range []struct {
		name    string
		options []consumer.Option
	}{
		{"heartbeat", nil},
		{"no heartbeat", []consumer.Option{consumer.WithoutHeartbeat()}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			m := newMemory(b, store.WithLease(time.Millisecond), store.WithRetention(2*time.Millisecond))
			handle := consumer.Idempotent(m, consumer.MessageID,
				func(context.Context, order) consumer.Ack { return consumer.Accept() }, bench.options...)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			keys := make([]order, 1<<16)
			for i := range keys {
				keys[i].id = strconv.Itoa(i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if ack := handle(ctx, keys[i%len(keys)]); !ack.Accepted() {
					b.Fatal(ack)
				}
			}
		})
	}
}
