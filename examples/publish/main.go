// Command publish publishes orders for the payments example, some of them more than once, as publishers do
// that could not learn whether the broker has a message.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

type config struct {
	amqp       string
	queue      string
	orders     int
	duplicates float64
	prefix     string
	seed       uint64
}

func main() {
	c := config{amqp: os.Getenv("AMQP_URL")}
	if c.amqp == "" {
		c.amqp = "amqp://localhost"
	}
	flag.StringVar(&c.amqp, "amqp", c.amqp, "URL of RabbitMQ; or set AMQP_URL")
	flag.StringVar(&c.queue, "queue", "payments", "queue of the orders, which the payments service creates")
	flag.IntVar(&c.orders, "orders", 100, "number of orders")
	flag.Float64Var(&c.duplicates, "duplicates", 0.3, "share of orders that are published twice, 0 to 1")
	flag.StringVar(&c.prefix, "prefix", time.Now().Format("20060102-150405-"), "what the orders' ids begin with")
	flag.Uint64Var(&c.seed, "seed", 1, "seed of the choice of duplicates and of the order")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	n, err := publish(ctx, c)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "publish:", err)
		os.Exit(1)
	}
	fmt.Printf("%d orders in %d messages\n", c.orders, n)
}

// publish returns the number of messages that the broker has confirmed, when it has confirmed all.
func publish(ctx context.Context, c config) (int, error) {
	messages, err := c.messages()
	if err != nil {
		return 0, err
	}
	conn, err := amqp.Dial(c.amqp)
	if err != nil {
		return 0, fmt.Errorf("RabbitMQ cannot be reached: %w", err)
	}
	defer conn.Close() //nolint:errcheck // everything is confirmed
	ch, err := conn.Channel()
	if err != nil {
		return 0, err
	}
	if _, err := ch.QueueDeclarePassive(c.queue, true, false, false, false, nil); err != nil {
		return 0, fmt.Errorf("start the payments service first, it creates the queue: %w", err)
	}
	if err := ch.Confirm(false); err != nil {
		return 0, err
	}
	confirmations := make([]*amqp.DeferredConfirmation, len(messages))
	for i, m := range messages {
		if confirmations[i], err = ch.PublishWithDeferredConfirmWithContext(ctx, "", c.queue, true, false, m); err != nil {
			return 0, err
		}
	}
	for _, confirmation := range confirmations {
		acked, err := confirmation.WaitContext(ctx)
		if err != nil {
			return 0, err
		}
		if !acked {
			return 0, errors.New("the broker did not take a message")
		}
	}
	return len(messages), nil
}

// messages are the orders, and some of them again, in a random order.
func (c config) messages() ([]amqp.Publishing, error) {
	if c.orders < 1 || !(c.duplicates >= 0 && c.duplicates <= 1) {
		return nil, fmt.Errorf("%d orders with %v duplicates: give at least one order and a share of 0 to 1", c.orders, c.duplicates)
	}
	var messages []amqp.Publishing
	for n := range c.orders {
		id := fmt.Sprintf("%s%d", c.prefix, n)
		body, err := json.Marshal(map[string]any{"order_id": id, "amount_cents": 100 + n})
		if err != nil {
			return nil, err
		}
		messages = append(messages, amqp.Publishing{
			MessageId: id, DeliveryMode: amqp.Persistent, ContentType: "application/json", Body: body,
		})
	}
	chance := rand.New(rand.NewPCG(c.seed, 0))
	chance.Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
	messages = append(messages, messages[:int(float64(c.orders)*c.duplicates)]...)
	chance.Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
	return messages, nil
}
