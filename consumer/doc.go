// Package consumer makes a message handler not mind being called twice.
//
//	handle := consumer.Idempotent(payments, key, func(ctx context.Context, order Order) consumer.Ack {
//		...
//		return consumer.Accept()
//	})
//
// The wrapped handler claims the message's key before it calls yours, keeps the claim's lease alive while
// yours runs, and confirms or gives back the key according to what yours answered. What it answers itself:
//
//	the key is new, or its claim was never finished   your handler's answer
//	the key is confirmed                              Accept; your handler does not run
//	somebody else holds the key                       RetryAfter what is left of the lease; it does not run
//	there is no key, or it can never be stored        Reject with a FatalError; it does not run
//	the store fails                                   Retry; it does not run
//	the claim was lost while your handler ran         Retry, unless it accepted
//
// A delivery that finds the key in progress is never acknowledged: the holder may die, and then that
// delivery is the only copy of the message left.
//
// Effects in the database that has the keys happen exactly once if the key is confirmed in their
// transaction: see InTx and ClaimFrom. Other effects happen at least once: twice only if a process dies
// after them and before the key is confirmed, or stalls for longer than its lease.
//
// The package knows no broker. consumer/rabbitmq settles the answers on RabbitMQ; consumertest tests
// handlers of yours against redeliveries and crashes.
package consumer
