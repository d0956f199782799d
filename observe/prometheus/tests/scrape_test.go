package tests

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/firsttime-go/firsttime/tests/servers"
)

// broker is a queue of the example's.
type broker struct {
	url, queue string
	channel    *amqp.Channel
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	b := &broker{url: servers.Shared(t, servers.RabbitMQ).URL(), queue: "scraped-" + rand.Text()}
	conn, err := amqp.Dial(b.url)
	if err != nil {
		t.Fatal(err)
	}
	if b.channel, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = b.channel.QueueDelete(b.queue, false, false, false)
		_ = conn.Close()
	})
	return b
}

func (b *broker) publish(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		err := b.channel.PublishWithContext(t.Context(), "", b.queue, false, false, amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// example starts the example on the queue, and waits until the queue is there.
func (b *broker) example(t *testing.T, db string, work time.Duration) *process {
	t.Helper()
	p := start(t, "example", "-amqp", b.url, "-queue", b.queue, "-db", db, "-listen", "127.0.0.1:0",
		"-lease", "2s", "-count-every", "1s", "-work", work.String())
	poll(t, func() error {
		conn, err := amqp.Dial(b.url)
		if err != nil {
			return err
		}
		defer conn.Close() //nolint:errcheck // it only asked
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		queue, err := ch.QueueDeclarePassive(b.queue, true, false, false, false, nil)
		if err == nil && queue.Consumers == 0 {
			err = fmt.Errorf("nobody consumes %s: %s", b.queue, p.text())
		}
		return err
	})
	return p
}

func want(t *testing.T, scraped map[string]*dto.MetricFamily, wanted float64, name string, labels ...string) {
	t.Helper()
	if got := value(scraped, name, labels...); got != wanted {
		t.Errorf("%s%v is %v, want %v", name, labels, got, wanted)
	}
}

func TestTheExampleCountsWhatItsMessagesMet(t *testing.T) {
	b := newBroker(t)
	db := filepath.Join(t.TempDir(), "keys.db")
	scope := []string{"scope", b.queue}
	outcome := func(name string) []string { return []string{"scope", b.queue, "outcome", name} }

	first := b.example(t, db, time.Second)
	b.publish(t, "A", "A", "") // at once: one works, the other finds it at work, and comes back to find it done
	first.until(t, 1, "firsttime_deliveries_total", outcome("duplicate")...)
	first.until(t, 1, "firsttime_deliveries_total", outcome("rejected")...)
	scraped := first.scrape(t)
	want(t, scraped, 1, "firsttime_deliveries_total", outcome("first")...)
	want(t, scraped, 1, "firsttime_deliveries_total", outcome("in_progress")...)
	want(t, scraped, 1, "firsttime_deliveries_total", outcome("duplicate")...)
	want(t, scraped, 1, "firsttime_deliveries_total", outcome("rejected")...)
	want(t, scraped, 0, "firsttime_deliveries_total", outcome("takeover")...)
	want(t, scraped, 1, "firsttime_confirms_total", scope...)
	want(t, scraped, 1, "firsttime_handler_duration_seconds", scope...)
	want(t, scraped, 0, "firsttime_confirm_failures_total", scope...)
	want(t, scraped, 0, "firsttime_claims_lost_total", scope...)
	first.until(t, 1, "firsttime_keys", "scope", b.queue, "state", "confirmed")

	first.kill()
	dying := b.example(t, db, time.Minute) // long enough to be seen at work
	b.publish(t, "B")
	dying.until(t, 1, "firsttime_keys", "scope", b.queue, "state", "claimed")
	dying.kill() // with B in its hands

	second := b.example(t, db, time.Second)
	second.until(t, 1, "firsttime_deliveries_total", outcome("takeover")...)
	second.until(t, 2, "firsttime_keys", "scope", b.queue, "state", "confirmed")
	scraped = second.scrape(t)
	want(t, scraped, 1, "firsttime_deliveries_total", outcome("takeover")...)
	want(t, scraped, 0, "firsttime_deliveries_total", outcome("first")...)
	want(t, scraped, 1, "firsttime_confirms_total", scope...)
	if n := value(scraped, "firsttime_heartbeats_total", "scope", b.queue, "result", "ok"); n < 1 {
		t.Errorf("%v heartbeats", n)
	}
	if n := value(scraped, "firsttime_deliveries_total", outcome("in_progress")...); n < 1 {
		t.Errorf("B was in progress %v times until its lease was over", n)
	}
}

// The command and the collector speak of keys in the same words, so that one dashboard fits both.
func TestServeAndTheCollectorShowKeysAlike(t *testing.T) {
	b := newBroker(t)
	db := filepath.Join(t.TempDir(), "keys.db")
	example := b.example(t, db, 0)
	b.publish(t, "A", "B", "B")
	example.until(t, 2, "firsttime_keys", "scope", b.queue, "state", "confirmed")
	serve := start(t, "firsttime", "--db", "sqlite:"+db, "serve", "--listen", "127.0.0.1:0", "--count-every", "1s")
	of, by := example.scrape(t), serve.scrape(t)
	for _, name := range []string{"firsttime_keys", "firsttime_keys_past_retention", "firsttime_oldest_claim_age_seconds", "firsttime_table_size_bytes"} {
		if of[name].GetHelp() == "" || of[name].GetHelp() != by[name].GetHelp() || of[name].GetType() != by[name].GetType() {
			t.Errorf("%s: the collector says %q (%v), serve %q (%v)", name, of[name].GetHelp(), of[name].GetType(), by[name].GetHelp(), by[name].GetType())
		}
		for _, m := range of[name].GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName(), l.GetValue())
			}
			want(t, by, m.GetGauge().GetValue(), name, labels...)
		}
		if n, m := len(of[name].GetMetric()), len(by[name].GetMetric()); n != m {
			t.Errorf("%s: %d series of the collector, %d of serve", name, n, m)
		}
	}
}
