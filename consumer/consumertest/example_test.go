package consumertest_test

import (
	"context"
	"testing"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/consumertest"
)

// A test of a handler: its process dies after it has sent a mail and before anybody knows.
func Example() {
	test := func(t *testing.T) {
		sent := 0
		kit := consumertest.New(t, consumer.MessageID, func(context.Context, order) consumer.Ack {
			sent++
			return consumer.Accept()
		})
		kit.CrashAt(consumertest.AfterHandler)
		kit.Deliver(order{"A-1"})
		kit.DeliverUntilAccepted(order{"A-1"}, 3)
		if sent != 2 {
			t.Errorf("sent %d times; outside of a transaction a crash at this point means twice", sent)
		}
	}
	_ = test
}
