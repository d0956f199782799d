package faults

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/consumer"
)

// workerVariable turns this test binary into a worker of the database that it names.
const workerVariable = "FIRSTTIME_TEST_WORKER"

// atOnce is how many messages a worker handles at once.
const atOnce = 4

// worker is a process with consumers of its own, which can be stopped and killed. It gets its messages from the
// load's broker on its standard input, and answers on its standard output.
type worker struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	clock time.Duration // how far its clock is ahead of this process's

	// charged gets a value when a charge is written and its transaction not yet confirmed. Nobody has to wait.
	charged chan struct{}
	ended   chan struct{}

	mu      sync.Mutex
	next    int
	waiting map[int]delivery
}

// delivery is a message on its way to a worker and back.
type delivery struct {
	order  string
	answer chan workerLine
}

// workerLine is what is said on the pipes, as JSON: an order to the worker, and from it, the time once, then that
// charges are written, and answers.
type workerLine struct {
	ID       int
	Order    string        `json:",omitempty"`
	Now      time.Time     `json:",omitzero"`
	Charged  bool          `json:",omitempty"`
	Accepted bool          `json:",omitempty"`
	Rejected bool          `json:",omitempty"`
	Delay    time.Duration `json:",omitempty"`
	Error    string        `json:",omitempty"` // its name
}

// settings of a worker, as they are handed to its process.
type settings struct {
	program string // this test binary if it is ""
	env     []string
	lease   time.Duration
	pause   time.Duration // of a charge
}

func startWorker(s *site, set settings) (*worker, error) {
	program := set.program
	if program == "" {
		program = os.Args[0]
	}
	w := &worker{
		cmd:     exec.Command(program, s.dsn, set.lease.String(), set.pause.String()),
		charged: make(chan struct{}, 1), ended: make(chan struct{}), waiting: make(map[int]delivery),
	}
	w.cmd.Env = append(append(os.Environ(), workerVariable+"="+s.name), set.env...)
	w.cmd.Stderr = os.Stderr
	var err error
	if w.input, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	answers := json.NewDecoder(output)
	var hello workerLine
	if err := answers.Decode(&hello); err != nil {
		return nil, errors.Join(fmt.Errorf("a worker said nothing: %w", err), w.cmd.Wait())
	}
	w.clock = time.Until(hello.Now)
	go w.listen(answers)
	return w, nil
}

// listen hands on what the worker says, until it is gone.
func (w *worker) listen(answers *json.Decoder) {
	for {
		var line workerLine
		if err := answers.Decode(&line); err != nil {
			break
		}
		if line.Charged {
			select {
			case w.charged <- struct{}{}:
			default:
			}
			continue
		}
		w.mu.Lock()
		d := w.waiting[line.ID]
		delete(w.waiting, line.ID)
		w.mu.Unlock()
		d.answer <- line
	}
	_ = w.cmd.Wait() // it was killed, or its input was closed
	close(w.ended)
}

var errGone = errors.New("the worker is gone")

// handle lets the worker handle an order.
func (w *worker) handle(order string, seen *sightings) consumer.Ack {
	d := delivery{order: order, answer: make(chan workerLine, 1)}
	w.mu.Lock()
	w.next++
	id := w.next
	w.waiting[id] = d
	w.mu.Unlock()
	line, err := json.Marshal(workerLine{ID: id, Order: order})
	if err == nil {
		_, err = w.input.Write(append(line, '\n'))
	}
	if err != nil {
		return consumer.Retry(errors.Join(errGone, err))
	}
	var answer workerLine
	select {
	case answer = <-d.answer:
	case <-w.ended:
		return consumer.Retry(errGone)
	}
	if answer.Error != "" {
		seen.add("worker " + answer.Error)
	}
	switch {
	case answer.Accepted:
		return consumer.Accept()
	case answer.Rejected:
		return consumer.Reject(errors.New(answer.Error))
	}
	return consumer.RetryAfter(errors.New(answer.Error), answer.Delay)
}

// handling is the orders that the worker has not answered.
func (w *worker) handling() (orders []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.waiting {
		orders = append(orders, d.order)
	}
	return orders
}

// awaitCharge waits until the worker has written a charge whose transaction is open.
func (w *worker) awaitCharge(t *testing.T) {
	t.Helper()
	select { // a former one
	case <-w.charged:
	default:
	}
	select {
	case <-w.charged:
	case <-w.ended:
		t.Fatal("the worker ended by itself")
	case <-time.After(patience / 4):
		_ = w.cmd.Process.Signal(syscall.SIGQUIT) // it prints what it waits for
		t.Fatalf("no charge within %v, while it handles %v", patience/4, w.handling())
	}
}

func (w *worker) kill() {
	_ = w.cmd.Process.Kill() // it may be gone already
	<-w.ended
}

// crew is the workers of a load, each in its place.
type crew struct {
	t    *testing.T
	site *site

	mu      sync.Mutex
	workers []*worker
}

// startCrew starts a load on workers with these settings.
func startCrew(t *testing.T, s *site, orders int, all ...settings) (*load, *crew) {
	t.Helper()
	c := &crew{t: t, site: s, workers: make([]*worker, len(all))}
	seen := newSightings()
	var handlers []consumer.Handler[string]
	for place, set := range all {
		c.start(place, set)
		for range atOnce {
			handlers = append(handlers, func(_ context.Context, order string) consumer.Ack { return c.at(place).handle(order, seen) })
		}
	}
	t.Cleanup(func() {
		for place := range c.workers {
			c.at(place).kill()
		}
	})
	return startHandlers(t, s, orders, seen, handlers), c
}

func (c *crew) start(place int, set settings) {
	c.t.Helper()
	w, err := startWorker(c.site, set)
	if err != nil {
		c.t.Fatal(err)
	}
	c.workers[place] = w
}

// replace kills the worker in a place and starts another one, while nobody gets a message there. It returns the
// orders that the dead one has not answered.
func (c *crew) replace(place int, set settings) (unanswered []string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers[place].kill()
	unanswered = c.workers[place].handling()
	c.start(place, set)
	return unanswered
}

// at is the worker in a place.
func (c *crew) at(place int) *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workers[place]
}

// runWorker is the main function of a worker.
func runWorker() int {
	if err := work(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

func work(ctx context.Context, args []string) error {
	var d database
	for _, known := range everyDatabase() {
		if known.name == os.Getenv(workerVariable) {
			d = known
		}
	}
	leaseLength, err1 := time.ParseDuration(args[1])
	pause, err2 := time.ParseDuration(args[2])
	db, err3 := d.connect(args[0])
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	s, err := newStore(d, db, leaseLength)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(line workerLine) {
		mu.Lock()
		defer mu.Unlock()
		if err := out.Encode(line); err != nil {
			os.Exit(1) // nobody listens
		}
	}
	write := charging(500, 0)
	all := handlers(s, db, atOnce, newSightings(), func(ctx context.Context, tx *sql.Tx, order string) error {
		err := write(ctx, tx, order)
		say(workerLine{Charged: true})
		time.Sleep(pause)
		return err
	})
	say(workerLine{Now: time.Now()})
	for in := json.NewDecoder(os.Stdin); ; {
		var line workerLine
		if err := in.Decode(&line); err != nil {
			return nil //nolint:nilerr // nobody has more to do for it
		}
		go func() {
			ack := all[line.ID%len(all)](ctx, line.Order)
			answer := workerLine{ID: line.ID, Accepted: ack.Accepted(), Rejected: ack.Verdict() == consumer.VerdictReject, Delay: ack.Delay()}
			if err := ack.Err(); err != nil && !errors.Is(err, consumer.ErrInProgress) {
				answer.Error = nameOf(err)
			}
			say(answer)
		}()
	}
}
