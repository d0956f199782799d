package consumer

import "context"

// Handler handles one message and says how to settle it. It is called concurrently. It should return soon
// after its context ends.
type Handler[M any] func(ctx context.Context, message M) Ack

// Middleware adds to a handler.
type Middleware[M any] func(Handler[M]) Handler[M]

// Chain is one middleware made of several, the first of them outermost.
func Chain[M any](middlewares ...Middleware[M]) Middleware[M] {
	return func(h Handler[M]) Handler[M] {
		for i := len(middlewares) - 1; i >= 0; i-- {
			h = middlewares[i](h)
		}
		return h
	}
}
