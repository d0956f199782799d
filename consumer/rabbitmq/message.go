package rabbitmq

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// KeyHeader is the header in which some publishers put a message's id.
const KeyHeader = "x-acemq-id"

// Key is the id of a message: the header x-acemq-id if it is a string and not empty, and otherwise the
// property message-id. "" means that it has none.
func Key(d amqp.Delivery) string {
	if id, ok := d.Headers[KeyHeader].(string); ok && id != "" {
		return id
	}
	return d.MessageId
}

// Headers of ours. Those of the first group are on messages that wait and are taken off again for the
// handler; those of the second are on dead letters.
const (
	headerPrefix     = "x-firsttime-"
	headerAttempts   = headerPrefix + "attempt" // how often it was tried
	headerExchange   = headerPrefix + "exchange"
	headerRoutingKey = headerPrefix + "routing-key"
	headerCC         = headerPrefix + "cc"
	headerUserID     = headerPrefix + "user-id"
	headerExpiration = headerPrefix + "expiration"
	headerKept       = headerPrefix + "kept-" // before the name of a header of the broker's

	// HeaderReason is why a dead letter is one: "rejected" or "attempts exhausted".
	HeaderReason = headerPrefix + "reason"
	// HeaderError is the text of the handler's last error.
	HeaderError = headerPrefix + "error"
	// HeaderQueue is the queue that it was consumed from.
	HeaderQueue = headerPrefix + "queue"
	// HeaderAttempts is how often the handler was called with it.
	HeaderAttempts = headerPrefix + "attempts"
)

// cc is the header by which a publisher names further routing keys. The broker would obey it again.
const cc = "CC"

// attemptsOf is how often the message was tried before this delivery. Anybody can write the header: whatever it
// says, one can be added.
func attemptsOf(d amqp.Delivery) int {
	n, _ := d.Headers[headerAttempts].(int64)
	return int(min(max(n, 0), math.MaxInt32-1))
}

// isDeath reports whether a header is one in which the broker notes why and where a message died. It must not
// be published again: a broker that finds the name of the queue in it takes the way back from a rung for a cycle,
// and drops the message. (RabbitMQ 3.10 does.) A name that is too long to be kept is none of the broker's.
func isDeath(name string) bool {
	if len(headerKept+name) > maxShort {
		return false
	}
	return name == "x-death" || strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// maxShort is what AMQP has room for in the name of a header, a queue or an exchange, and in a routing key, in
// bytes.
const maxShort = 255

// isCount reports whether a header is one with which the broker counts deliveries.
func isCount(name string) bool { return name == "x-delivery-count" || name == "x-acquired-count" }

// republished is the message of a delivery as it is published into another queue: everything that would
// change what the broker does with it is in headers of ours.
func republished(d amqp.Delivery) amqp.Publishing {
	headers := make(amqp.Table, len(d.Headers)+4)
	_, again := d.Headers[headerExchange]
	for name, value := range d.Headers {
		switch {
		case isCount(name):
		case isDeath(name):
			if !again { // otherwise it died on a rung of ours
				headers[headerKept+name] = value
			}
		default:
			headers[name] = value
		}
	}
	if !again {
		headers[headerExchange], headers[headerRoutingKey] = d.Exchange, d.RoutingKey
		move(headers, cc, headerCC)
		set(headers, headerUserID, d.UserId)
		set(headers, headerExpiration, d.Expiration)
	}
	delete(headers, cc)
	return amqp.Publishing{
		Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: d.DeliveryMode, Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo,
		MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body,
	}
}

// restore is the delivery as the handler gets it: as the message was first published, however often it
// went round. It cannot be settled. It shares nothing with d: what a handler does with headers and body must not
// change what is published again.
func restore(d amqp.Delivery) amqp.Delivery {
	d.Acknowledger = nil
	d.Body = bytes.Clone(d.Body)
	headers, _ := cloned(d.Headers).(amqp.Table)
	d.Headers = headers
	if _, again := headers[headerExchange]; !again {
		return d
	}
	d.Exchange, _ = headers[headerExchange].(string)
	d.RoutingKey, _ = headers[headerRoutingKey].(string)
	d.UserId, _ = headers[headerUserID].(string)
	d.Expiration, _ = headers[headerExpiration].(string)
	move(headers, headerCC, cc)
	maps.DeleteFunc(headers, func(name string, _ any) bool { return isDeath(name) })
	for name := range d.Headers {
		if original, kept := strings.CutPrefix(name, headerKept); kept {
			move(headers, name, original)
		}
	}
	maps.DeleteFunc(headers, func(name string, _ any) bool { return strings.HasPrefix(name, headerPrefix) })
	return d
}

// cloned is a deep copy of what a header can hold.
func cloned(value any) any {
	switch v := value.(type) {
	case amqp.Table:
		table := make(amqp.Table, len(v))
		for name, item := range v {
			table[name] = cloned(item)
		}
		return table
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = cloned(item)
		}
		return list
	case []byte:
		return bytes.Clone(v)
	}
	return value
}

// maxHeaders is what the headers of a message may take, in bytes: with its other properties they must fit into
// one frame, of 128 KiB by default. A broker ends the connection of a publisher that sends more.
const maxHeaders = 120 << 10

var errTooLarge = errors.New("the headers leave no room for those that a message needs on its way")

// shrink makes headers fit: at the cost of the error's text, and if that is not enough, of all that a dead letter
// can do without.
func shrink(headers amqp.Table) {
	if sizeOf(headers) > maxHeaders {
		set(headers, HeaderError, "the error does not fit beside the message's headers")
	}
	if sizeOf(headers) > maxHeaders {
		maps.DeleteFunc(headers, func(name string, value any) bool {
			return !isEssential(name) || sizeOf(value) > sizeOf("")+maxShort
		})
		headers[HeaderError] = "the message's own headers were too large to be kept"
	}
}

// isEssential reports whether a header says where a message comes from or why it is a dead letter. Whoever
// publishes can write such headers too, of any size; the true ones are short.
func isEssential(name string) bool {
	switch name {
	case headerExchange, headerRoutingKey, headerUserID, headerExpiration,
		HeaderReason, HeaderError, HeaderQueue, HeaderAttempts:
		return true
	}
	return false
}

// sizeOf is about what a header's value takes on the wire, rather too much than too little.
func sizeOf(value any) int {
	switch v := value.(type) {
	case amqp.Table:
		size := 5
		for name, item := range v {
			size += 1 + len(name) + sizeOf(item)
		}
		return size
	case []any:
		size := 5
		for _, item := range v {
			size += sizeOf(item)
		}
		return size
	case string:
		return 5 + len(v)
	case []byte:
		return 5 + len(v)
	}
	return 9
}

func move(headers amqp.Table, from, to string) {
	if v, ok := headers[from]; ok {
		headers[to] = v
		delete(headers, from)
	}
}

func set(headers amqp.Table, name, value string) {
	if value != "" {
		headers[name] = value
	}
}
