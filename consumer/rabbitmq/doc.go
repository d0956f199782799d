// Package rabbitmq consumes a queue of RabbitMQ and settles every delivery by its handler's answer.
//
//	err := rabbitmq.Consume(ctx, "amqp://localhost", "payments", handle, rabbitmq.WithStore(keys))
//
// What becomes of a delivery:
//
//	Accept       it is acknowledged
//	Retry        it waits on a ladder of queues, longer each time, and comes back; after the last
//	             attempt it goes to the dead letters
//	RetryAfter   it waits for about as long as the answer says
//	Reject       it goes to the dead letters, the queue <queue>.dlq, with the reason in its headers
//
// A message that has to wait, or goes to the dead letters, is published into another queue first, and
// acknowledged only when the broker has confirmed that it has it. So it is never lost between the two, and
// a crash between them makes it two messages with one id, of which the second is found to be a duplicate.
//
// # Queues
//
// The queue that is consumed is used as it is if it exists, and otherwise created as a durable quorum
// queue. The others are created beside it: <queue>.dlq, <queue>.retry.<ms> for every rung of the ladder
// and <queue>.wait.<ms> for deliveries that find their key in progress. What waits comes back by itself
// when its time is over, even if no consumer is connected. A rung that a change of the ladder leaves behind
// empties itself and may be deleted then.
//
// # Messages
//
// Ids, properties, headers and bodies go round unchanged. Some would change what the broker does with a
// message that is published again: CC, the user id, the expiration, and where it was published to. They are
// kept in headers that begin with "x-firsttime-" and are put back for the handler. The broker adds its own
// "x-death" headers.
package rabbitmq
