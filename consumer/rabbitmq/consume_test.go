package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/rabbitmq"
	"github.com/firsttime-go/firsttime/store"
)

func TestDuplicatesAreHandledOnce(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue, s := b.queue(), newSeen()
	stop := b.consume(queue, s.accept, rabbitmq.WithStore(memory(t)))
	const messages = 50
	for range 3 {
		for n := range messages {
			b.publish("", queue, message(fmt.Sprint(n)))
		}
	}
	b.publish("", queue, message("last"))
	s.wait(t, messages+1)
	for b.ready(queue) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for id, n := range s.ids() {
		if n != 1 {
			t.Errorf("message %s was handled %d times", id, n)
		}
	}
	if len(s.ids()) != messages+1 || b.ready(queue) != 0 || b.ready(queue+".dlq") != 0 {
		t.Errorf("%d messages handled, %d left, %d dead letters", len(s.ids()), b.ready(queue), b.ready(queue+".dlq"))
	}
}

func TestTheHeaderIsTheKeyBeforeTheMessageID(t *testing.T) {
	for _, test := range []struct {
		d    amqp.Delivery
		want string
	}{
		{amqp.Delivery{MessageId: "m"}, "m"},
		{amqp.Delivery{MessageId: "m", Headers: amqp.Table{"x-acemq-id": "h"}}, "h"},
		{amqp.Delivery{MessageId: "m", Headers: amqp.Table{"x-acemq-id": ""}}, "m"},
		{amqp.Delivery{MessageId: "m", Headers: amqp.Table{"x-acemq-id": int64(7)}}, "m"},
		{amqp.Delivery{Headers: amqp.Table{"x-acemq-id": "h"}}, "h"},
		{amqp.Delivery{}, ""},
	} {
		if got := rabbitmq.Key(test.d); got != test.want {
			t.Errorf("Key(%v, %v) = %q, want %q", test.d.MessageId, test.d.Headers, got, test.want)
		}
	}
}

func TestTheScopeIsTheQueue(t *testing.T) {
	t.Parallel()
	b := shared(t)
	m := memory(t)
	for range 2 { // two consumers of one event do not hide each other's work
		queue, s := b.queue(), newSeen()
		stop := b.consume(queue, s.accept, rabbitmq.WithStore(m))
		b.publish("", queue, message("A-1"))
		s.wait(t, 1)
		if err := stop(); err != nil {
			t.Error(err)
		}
		scoped, err := m.Scope(queue)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := scoped.Get(t.Context(), "A-1"); err != nil || !r.Confirmed {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// A dead letter that came back and died again without an error does not show the one that it died of before.
func TestADeadLetterHasTheErrorOfItsLastDeathAlone(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue := b.queue()
	die := func(m amqp.Publishing, err error) amqp.Delivery {
		t.Helper()
		stop := b.consume(queue, func(context.Context, amqp.Delivery) consumer.Ack { return consumer.Reject(err) }, fast(5))
		b.publish("", queue, m)
		dead := b.take(queue + ".dlq")
		if err := stop(); err != nil {
			t.Error(err)
		}
		return dead
	}
	dead := die(message("A-1"), errHandler)
	if dead.Headers[rabbitmq.HeaderError] != errHandler.Error() {
		t.Fatalf("dead letter %v", dead.Headers)
	}
	if dead = die(again(dead), nil); dead.Headers[rabbitmq.HeaderError] != nil || dead.Headers[rabbitmq.HeaderReason] != "rejected" {
		t.Errorf("dead letter %v, want no error", dead.Headers)
	}
}

func TestRetriesClimbTheLadderAndEndAmongTheDeadLetters(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue, s := b.queue(), newSeen()
	stop := b.consume(queue, func(_ context.Context, d amqp.Delivery) consumer.Ack {
		s.add(d)
		return consumer.Retry(errHandler)
	}, fast(5))
	b.publish("", queue, message("A-1"))
	dead := b.take(queue + ".dlq")
	if err := stop(); err != nil {
		t.Error(err)
	}
	if dead.Headers[rabbitmq.HeaderReason] != "attempts exhausted" || dead.Headers[rabbitmq.HeaderAttempts] != int64(5) ||
		dead.Headers[rabbitmq.HeaderError] != errHandler.Error() || dead.MessageId != "A-1" {
		t.Errorf("dead letter %v", dead.Headers)
	}
	if len(s.all) != 5 {
		t.Fatalf("%d attempts, want 5", len(s.all))
	}
	for i, rung := range []time.Duration{50, 100, 200, 200} {
		if wait := s.at[i+1].Sub(s.at[i]); wait < rung*time.Millisecond*8/10 {
			t.Errorf("attempt %d came after %v, want %vms less a fifth at least", i+2, wait, int(rung))
		}
	}
}

func TestAPoisonMessageEndsAmongTheDeadLettersAndOthersFlow(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue, s := b.queue(), newSeen()
	m := memory(t)
	stop := b.consume(queue, func(_ context.Context, d amqp.Delivery) consumer.Ack {
		switch {
		case strings.HasPrefix(d.MessageId, "panics"):
			panic("cannot bear it")
		case strings.HasPrefix(d.MessageId, "rejects"):
			return consumer.Reject(errHandler)
		}
		s.add(d)
		return consumer.Accept()
	}, fast(3), rabbitmq.WithStore(m, consumer.WithMaxAttempts(3)), rabbitmq.WithConcurrency(2))

	// A crash loop: three processes have died with it.
	scoped, err := m.Scope(queue)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if c, err := scoped.Claim(t.Context(), "crashes"); err != nil || !c.Outcome().Held() {
			t.Fatal(c, err)
		}
		m.EndLeases()
	}

	tooLong := message("too long")
	tooLong.Headers = amqp.Table{rabbitmq.KeyHeader: strings.Repeat("k", store.MaxKeyLen+1)}
	b.publish("", queue, message(""), message("panics"), message("rejects"), message("crashes"), tooLong)
	want := map[string]string{
		"panics": "the handler panicked: cannot bear it", "rejects": errHandler.Error(), "crashes": "never finished",
		"": consumer.ErrNoKey.Error(), "too long": store.ErrInvalidKey.Error(),
	}
	for n := range 20 {
		b.publish("", queue, message(fmt.Sprint(n)))
	}
	s.wait(t, 20)
	dead := map[string]amqp.Delivery{}
	for len(dead) < len(want) {
		d := b.take(queue + ".dlq")
		dead[d.MessageId] = d
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for id, text := range want {
		got, _ := dead[id].Headers[rabbitmq.HeaderError].(string)
		if !strings.Contains(got, text) {
			t.Errorf("dead letter %q has the error %q, want %q", id, got, text)
		}
	}
	if reason := dead["panics"].Headers[rabbitmq.HeaderReason]; reason != "attempts exhausted" {
		t.Errorf("reason of the panic: %v", reason)
	}
}

func TestAKeyInProgressWaitsAndSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue, s := b.queue(), newSeen()
	m := memory(t)
	scoped, err := m.Scope(queue)
	if err != nil {
		t.Fatal(err)
	}
	holder, err := scoped.Claim(t.Context(), "A-1")
	if err != nil {
		t.Fatal(err)
	}
	inProgress := make(chan struct{}, 100)
	stop := b.consume(queue, s.accept, fast(1), rabbitmq.WithStore(m, consumer.WithMaxWait(50*time.Millisecond),
		consumer.WithObserver(consumer.ObserverFunc(func(_ context.Context, e consumer.Event) {
			if e.Outcome == consumer.InProgress {
				inProgress <- struct{}{}
			}
		}))))
	b.publish("", queue, message("A-1"))
	for range 3 { // more often than the one attempt that it has
		<-inProgress
	}
	if err := holder.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wait(t, 1)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := b.ready(queue + ".dlq"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// away is a store that is not there.
type away struct{}

func (away) Claim(context.Context, string) (*store.Claim, error) { return nil, errors.New("away") }
func (away) FirstTime(context.Context, string) (bool, error)     { return false, errors.New("away") }

func TestAFailingStoreSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue := b.queue()
	tries := make(chan struct{}, 100)
	handle := consumer.Idempotent(away{}, rabbitmq.Key, func(context.Context, amqp.Delivery) consumer.Ack { return consumer.Accept() },
		consumer.WithObserver(consumer.ObserverFunc(func(context.Context, consumer.Event) { tries <- struct{}{} })))
	stop := b.consume(queue, handle, fast(1))
	b.publish("", queue, message("A-1"))
	for range 3 {
		<-tries
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := b.ready(queue + ".dlq"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

func TestAQueueThatExistsIsUsedAsItIs(t *testing.T) {
	t.Parallel()
	b := shared(t)
	for name, args := range map[string]amqp.Table{
		"classic": nil, "limited": {"x-max-length": int32(1000)}, "quorum": {"x-queue-type": "quorum"},
	} {
		t.Run(name, func(t *testing.T) {
			queue, s := b.queue(), newSeen()
			b.declare(queue, args)
			b.publish("", queue, message("A-1"))
			stop := b.consume(queue, s.accept)
			s.wait(t, 1)
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhatCannotWorkIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	b := shared(t)
	uri, err := amqp.ParseURI(b.url)
	if err != nil {
		t.Fatal(err)
	}
	uri.Password = "hunter2"
	wrong := uri.String()
	taken := b.queue()
	b.declare(taken+".retry.50", nil) // without its time
	accept := func(context.Context, amqp.Delivery) consumer.Ack { return consumer.Accept() }
	closed := memory(t)
	for name, test := range map[string]struct {
		url, queue string
		handle     rabbitmq.Handler
		options    []rabbitmq.Option
		want       string
	}{
		"URL":                    {"amqp://user:hunter2@host:port", "q", accept, nil, "malformed"},
		"scheme":                 {"http://user:hunter2@host", "q", accept, nil, "malformed"},
		"password":               {wrong, "q", accept, nil, "username or password"},
		"queue":                  {b.url, "", accept, nil, "queue's name"},
		"long queue":             {b.url, strings.Repeat("q", 250), accept, nil, "queue's name"},
		"handler":                {b.url, "q", nil, nil, "handler is nil"},
		"rung":                   {b.url, taken, accept, []rabbitmq.Option{fast(3)}, "with other settings"},
		"reserved":               {b.url, "amq.reserved", accept, nil, "amq."},
		"concurrency":            {b.url, "q", accept, []rabbitmq.Option{rabbitmq.WithConcurrency(0)}, "WithConcurrency(0)"},
		"prefetch":               {b.url, "q", accept, []rabbitmq.Option{rabbitmq.WithPrefetch(0)}, "WithPrefetch(0)"},
		"prefetch < concurrency": {b.url, "q", accept, []rabbitmq.Option{rabbitmq.WithPrefetch(3)}, "WithPrefetch(3)"},
		"drain":                  {b.url, "q", accept, []rabbitmq.Option{rabbitmq.WithDrainTimeout(-1)}, "WithDrainTimeout"},
		"queue type":             {b.url, "q", accept, []rabbitmq.Option{rabbitmq.WithQueueType("stream")}, "WithQueueType"},
		"logger":                 {b.url, "q", accept, []rabbitmq.Option{rabbitmq.WithLogger(nil)}, "WithLogger"},
		"nil store":              {b.url, "q", accept, []rabbitmq.Option{rabbitmq.WithStore(nil)}, "WithStore"},
		"scope too long":         {b.url, strings.Repeat("q", 200), accept, []rabbitmq.Option{rabbitmq.WithStore(closed)}, "scope"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := rabbitmq.Consume(ctx, test.url, test.queue, test.handle, append([]rabbitmq.Option{quiet}, test.options...)...)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %v, want one that says %q and no password", err, test.want)
			}
		})
	}
}

func TestLaddersThatMakeNoSense(t *testing.T) {
	good := rabbitmq.DefaultLadder()
	for name, change := range map[string]func(l *rabbitmq.Ladder){
		"attempts":  func(l *rabbitmq.Ladder) { l.MaxAttempts = 0 },
		"initial":   func(l *rabbitmq.Ladder) { l.Initial = 0 },
		"max":       func(l *rabbitmq.Ladder) { l.Max = l.Initial / 2 },
		"long":      func(l *rabbitmq.Ladder) { l.Max = 25 * time.Hour },
		"factor":    func(l *rabbitmq.Ladder) { l.Factor = 0.5 },
		"many":      func(l *rabbitmq.Ladder) { l.Factor, l.MaxAttempts = 1.0001, 1000 },
		"no factor": func(l *rabbitmq.Ladder) { l.Factor = 1 },
		"jitter":    func(l *rabbitmq.Ladder) { l.Jitter = 1.5 },
	} {
		bad := good
		change(&bad)
		err := rabbitmq.Consume(t.Context(), "amqp://localhost", "q", newSeen().accept, rabbitmq.WithLadder(bad))
		if err == nil || !strings.Contains(err.Error(), "WithLadder") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
