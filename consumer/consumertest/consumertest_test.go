package consumertest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/consumertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type order struct{ id string }

func (o order) MessageID() string { return o.id }

func accept(context.Context, order) consumer.Ack { return consumer.Accept() }

func TestThreeDeliveriesAreThreeAcceptsAndOneCall(t *testing.T) {
	kit := consumertest.New(t, consumer.MessageID, accept)
	for range 3 {
		if ack := kit.Deliver(order{"A-1"}); ack != consumer.Accept() {
			t.Errorf("answer %v", ack)
		}
	}
	if kit.Calls() != 1 {
		t.Errorf("%d calls", kit.Calls())
	}
}

// A crash leaves the claim: the next delivery waits for the end of the lease, the one after that runs the
// handler, unless the key was confirmed before the crash.
func TestACrashIsFollowedByATakeover(t *testing.T) {
	for point, calls := range map[consumertest.Point]int{
		consumertest.BeforeHandler: 1,
		consumertest.AfterHandler:  2,
	} {
		t.Run(point.String(), func(t *testing.T) {
			kit := consumertest.New(t, consumer.MessageID, accept)
			kit.CrashAt(point)
			if ack := kit.Deliver(order{"A-1"}); !errors.Is(ack.Err(), consumertest.ErrCrashed) {
				t.Fatalf("answer %v, want a crash", ack)
			}
			if ack := kit.Deliver(order{"A-1"}); !errors.Is(ack.Err(), consumer.ErrInProgress) {
				t.Errorf("answer %v while the dead one's lease lasts", ack)
			}
			kit.EndLeases()
			if ack := kit.Deliver(order{"A-1"}); ack != consumer.Accept() {
				t.Errorf("answer %v after the lease", ack)
			}
			if kit.Calls() != calls {
				t.Errorf("%d calls, want %d", kit.Calls(), calls)
			}
		})
	}
}

func TestACrashBeforeTheAckIsFollowedByADuplicate(t *testing.T) {
	kit := consumertest.New(t, consumer.MessageID, accept)
	kit.CrashAt(consumertest.BeforeAck)
	if ack := kit.Deliver(order{"A-1"}); !errors.Is(ack.Err(), consumertest.ErrCrashed) {
		t.Fatalf("answer %v, want a crash", ack)
	}
	if ack := kit.Deliver(order{"A-1"}); ack != consumer.Accept() || kit.Calls() != 1 {
		t.Errorf("answer %v, %d calls", ack, kit.Calls())
	}
}

// What a user tests: a charge in a transaction, a crash at every point.
func TestAChargeSurvivesEveryCrash(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+t.TempDir()+"/charges.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE charges (order_id TEXT)"); err != nil {
		t.Fatal(err)
	}
	charge := consumer.InTx(db, func(ctx context.Context, tx *sql.Tx, o order) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO charges VALUES (?)", o.id)
		return err
	})
	kit := consumertest.New(t, consumer.MessageID, charge)
	for i, point := range consumertest.Points() {
		o := order{fmt.Sprint(i)}
		kit.CrashAt(point)
		if ack := kit.Deliver(o); !errors.Is(ack.Err(), consumertest.ErrCrashed) {
			t.Fatalf("%v: answer %v, want a crash", point, ack)
		}
		kit.DeliverUntilAccepted(o, 3)
		var n int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM charges WHERE order_id = ?", o.id).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != 1 {
			t.Errorf("crash %v: %d charges", point, n)
		}
	}
}

func TestAHandlerThatEndsItsGoroutineIsARetry(t *testing.T) {
	kit := consumertest.New(t, consumer.MessageID, func(context.Context, order) consumer.Ack {
		runtime.Goexit()
		return consumer.Accept()
	})
	if ack := kit.Deliver(order{"A-1"}); ack.Accepted() || kit.Store().Len() != 0 {
		t.Errorf("answer %v, %d keys", ack, kit.Store().Len())
	}
}

func TestAPanicOfTheHandlerReachesTheTest(t *testing.T) {
	kit := consumertest.New(t, consumer.MessageID, func(context.Context, order) consumer.Ack { panic("boom") })
	defer func() {
		if v := recover(); v != "boom" {
			t.Errorf("recovered %v", v)
		}
	}()
	kit.Deliver(order{"A-1"})
}
