package prometheus_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/dialects/sqlite"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/observe/prometheus"
	"github.com/firsttime-go/firsttime/store"
)

func newStore(t *testing.T) *store.SQL {
	t.Helper()
	_, s := newDatabase(t)
	return s
}

func newDatabase(t *testing.T) (*sql.DB, *store.SQL) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "keys.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := migrations.Up(t.Context(), db, sqlite.Dialect); err != nil {
		t.Fatal(err)
	}
	s, err := store.New(db, sqlite.Dialect, store.WithLease(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return db, s
}

func identity(message string) string { return message }

func TestMetricsCountWhatConsumersDo(t *testing.T) {
	registry := client.NewPedanticRegistry()
	metrics, err := prometheus.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	payments, err := newStore(t).Scope("payments")
	if err != nil {
		t.Fatal(err)
	}
	quiet := consumer.WithLogger(slog.New(slog.DiscardHandler))
	deliver := func(key string, answer func(ctx context.Context) consumer.Ack) consumer.Ack {
		return consumer.Idempotent(payments, identity, func(ctx context.Context, _ string) consumer.Ack { return answer(ctx) },
			consumer.WithObserver(metrics), consumer.WithHeartbeat(20*time.Millisecond), quiet)(t.Context(), key)
	}
	accept := func(context.Context) consumer.Ack { return consumer.Accept() }
	deliver("A", accept)
	deliver("A", accept) // duplicate
	deliver("B", func(context.Context) consumer.Ack { return consumer.Retry(errors.New("no")) })
	deliver("", accept) // rejected
	deliver("C", func(context.Context) consumer.Ack {
		deliver("C", accept) // in progress
		for deadline := time.Now().Add(10 * time.Second); heartbeats(t, registry) < 2 && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
		return consumer.Accept()
	})
	want := `
# HELP firsttime_claims_lost_total Claims that were lost while their handlers ran, or before they were confirmed.
# TYPE firsttime_claims_lost_total counter
firsttime_claims_lost_total{scope="payments"} 0
# HELP firsttime_confirm_failures_total Keys of accepted work that could not be confirmed: another delivery would do it again.
# TYPE firsttime_confirm_failures_total counter
firsttime_confirm_failures_total{scope="payments"} 0
# HELP firsttime_confirms_total Keys that were confirmed.
# TYPE firsttime_confirms_total counter
firsttime_confirms_total{scope="payments"} 2
# HELP firsttime_deliveries_total Deliveries, by what they met: first, takeover, duplicate, in_progress, rejected, store_error.
# TYPE firsttime_deliveries_total counter
firsttime_deliveries_total{outcome="duplicate",scope="payments"} 1
firsttime_deliveries_total{outcome="first",scope="payments"} 3
firsttime_deliveries_total{outcome="in_progress",scope="payments"} 1
firsttime_deliveries_total{outcome="rejected",scope="payments"} 1
firsttime_deliveries_total{outcome="store_error",scope="payments"} 0
firsttime_deliveries_total{outcome="takeover",scope="payments"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"firsttime_confirms_total", "firsttime_deliveries_total",
		"firsttime_confirm_failures_total", "firsttime_claims_lost_total"); err != nil {
		t.Error(err)
	}
	if n := heartbeats(t, registry); n < 2 {
		t.Errorf("%v heartbeats", n)
	}
	for name, count := range map[string]int{"firsttime_claim_duration_seconds": 1, "firsttime_handler_duration_seconds": 1, "firsttime_confirm_duration_seconds": 1} {
		if n, err := testutil.GatherAndCount(registry, name); err != nil || n != count {
			t.Errorf("%s: %d series, %v", name, n, err)
		}
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if _, err := prometheus.New(registry); err == nil {
		t.Error("the metrics were registered twice")
	}
}

// heartbeats are those that went well.
func heartbeats(t *testing.T, from client.Gatherer) (n float64) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "firsttime_heartbeats_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "result" && label.GetValue() == "ok" {
					n += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

func TestKeysAreCountedAtMostOncePerInterval(t *testing.T) {
	s := newStore(t)
	payments, err := s.Scope("payments")
	if err != nil {
		t.Fatal(err)
	}
	if err := payments.Confirm(t.Context(), "A"); err != nil {
		t.Fatal(err)
	}
	keys := prometheus.NewKeys(s, time.Hour)
	registry := client.NewPedanticRegistry()
	registry.MustRegister(keys)
	want := `
# HELP firsttime_keys Keys in the table, by state: claimed (a handler works), stale (its process died), confirmed.
# TYPE firsttime_keys gauge
firsttime_keys{scope="payments",state="claimed"} 0
firsttime_keys{scope="payments",state="confirmed"} 1
firsttime_keys{scope="payments",state="stale"} 0
# HELP firsttime_keys_past_retention Keys that the next purge deletes.
# TYPE firsttime_keys_past_retention gauge
firsttime_keys_past_retention{scope="payments"} 0
`
	for _, key := range []string{"B", "C"} {
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "firsttime_keys", "firsttime_keys_past_retention"); err != nil {
			t.Error(err)
		}
		if err := payments.Confirm(t.Context(), key); err != nil { // not seen before the interval is over
			t.Fatal(err)
		}
	}
	if n, err := testutil.GatherAndCount(registry, "firsttime_table_size_bytes"); err != nil || n != 2 {
		t.Errorf("%d sizes, %v", n, err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestAFailureOfTheDatabaseIsAnErrorOfTheScrape(t *testing.T) {
	s := newStore(t)
	registry := client.NewPedanticRegistry()
	registry.MustRegister(prometheus.NewKeys(s, time.Second))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Gather(); !errors.Is(err, store.ErrClosed) && (err == nil || !strings.Contains(err.Error(), "closed")) {
		t.Errorf("error %v", err)
	}
}

// A row of another program must not cost the whole scrape: the client panics at a label that is not UTF-8.
func TestAScopeThatIsNotTextIsShown(t *testing.T) {
	db, s := newDatabase(t)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO firsttime_keys
		(scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, expires_at)
		VALUES (?, 'A', 'CLAIMED', 'somebody', 1, 0, 0, 0)`, "bad \xff"); err != nil {
		t.Fatal(err)
	}
	registry := client.NewPedanticRegistry()
	registry.MustRegister(prometheus.NewKeys(s, time.Second))
	want := `
# HELP firsttime_keys_past_retention Keys that the next purge deletes.
# TYPE firsttime_keys_past_retention gauge
firsttime_keys_past_retention{scope="bad �"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "firsttime_keys_past_retention"); err != nil {
		t.Error(err)
	}
}
