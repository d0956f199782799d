package rabbitmq

import (
	"maps"
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

// attemptsOf is how often the message was tried before this delivery.
func attemptsOf(d amqp.Delivery) int {
	n, _ := d.Headers[headerAttempts].(int64)
	return int(max(n, 0))
}

// republished is the message of a delivery as it is published into another queue: everything that would
// change what the broker does with it is in headers.
func republished(d amqp.Delivery) amqp.Publishing {
	headers := make(amqp.Table, len(d.Headers)+4)
	maps.Copy(headers, d.Headers)
	if _, again := headers[headerExchange]; !again {
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
// went round. It cannot be settled.
func restore(d amqp.Delivery) amqp.Delivery {
	d.Acknowledger = nil
	if _, again := d.Headers[headerExchange]; !again {
		return d
	}
	headers := maps.Clone(d.Headers)
	d.Exchange, _ = headers[headerExchange].(string)
	d.RoutingKey, _ = headers[headerRoutingKey].(string)
	d.UserId, _ = headers[headerUserID].(string)
	d.Expiration, _ = headers[headerExpiration].(string)
	move(headers, headerCC, cc)
	maps.DeleteFunc(headers, func(name string, _ any) bool { return strings.HasPrefix(name, headerPrefix) })
	d.Headers = headers
	return d
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
