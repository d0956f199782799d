package histories

import (
	"fmt"
	"time"
)

// action is what a client does to a key.
type action string

const (
	claims     action = "claim"
	extends    action = "extend"
	confirms   action = "confirm"
	commits    action = "confirm, commit"
	rollsBack  action = "confirm, roll back"
	worksInTx  action = "InTx"
	forgets    action = "forget"
	confirmKey action = "confirm by key"
	reads      action = "get"
	purges     action = "purge"
)

// operation is one call of one client, as it was sent.
type operation struct {
	action action
	client int
	key    int
	// claim is the number of the claim that the operation is about. A claim has the number of the operation
	// that took it.
	claim int
	// alone says of a purge that nothing else ran at the same time, so that no lock made it skip the key.
	alone bool
}

// result is the kind of an answer.
type result string

const (
	first      result = "first"
	takenOver  result = "taken over"
	inProgress result = "in progress"
	duplicate  result = "duplicate"
	done       result = "done"
	confirmed  result = "confirmed before"
	lost       result = "claim lost"
	claimed    result = "claimed"
	notFound   result = "not found"
	undone     result = "transaction undone" // for certain
)

// answer is what came back, and when. All times of a history are durations since its beginning.
type answer struct {
	result       result
	attempt      int
	worker       string
	left         time.Duration // of the lease
	sent, gotten time.Duration
}

func (o operation) String() string {
	switch o.action {
	case purges:
		return string(o.action)
	case reads:
		return fmt.Sprintf("%s key %d", o.action, o.key)
	}
	return fmt.Sprintf("%s key %d #%d", o.action, o.key, o.claim)
}

func (a answer) String() string {
	text := string(a.result)
	if a.worker != "" {
		text += fmt.Sprintf(", attempt %d of worker %s", a.attempt, a.worker)
	}
	if a.left != 0 {
		text += fmt.Sprintf(", %v left", a.left.Round(10*time.Microsecond))
	}
	return text
}
