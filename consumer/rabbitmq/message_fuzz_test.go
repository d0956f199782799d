package rabbitmq

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Whatever is in the headers of a message, it can be published again, and comes back as it was.
func FuzzHeaders(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte, exchange, routingKey, user, expiration string) {
		source := &source{data}
		d := amqp.Delivery{
			Headers: source.table(0), Exchange: exchange, RoutingKey: routingKey, UserId: user, Expiration: expiration,
			MessageId: "A-1", Body: []byte("body"),
		}
		before := fmt.Sprint(d)
		if Key(d) == "" {
			t.Errorf("no key: %v", d.Headers)
		}
		if n := attemptsOf(d); n < 0 || n+1 < 1 {
			t.Errorf("%d attempts", n)
		}
		atFirst, published := restore(d), republished(d)
		writable(t, published.Headers)

		back := onTheWayBack(published)
		again := restore(back)
		if foreign(d.Headers) && fmt.Sprint(handled(again)) != fmt.Sprint(handled(atFirst)) {
			t.Errorf("the handler gets\n%v\nand after a retry\n%v", handled(atFirst), handled(again))
		}
		if second := republished(back); fmt.Sprint(second.Headers) != fmt.Sprint(published.Headers) {
			t.Errorf("the headers change with every retry:\n%v\n%v", published.Headers, second.Headers)
		}

		published.Headers[HeaderReason], published.Headers[HeaderError] = "rejected", strings.Repeat("e", 4096)
		shrink(published.Headers)
		if size := sizeOf(published.Headers); size > maxHeaders {
			t.Errorf("the headers of a dead letter take %d bytes", size)
		}
		if after := fmt.Sprint(d); after != before {
			t.Errorf("the delivery was\n%s\nand is\n%s", before, after)
		}
	})
}

// writable fails if the client library cannot write headers.
func writable(t *testing.T, headers amqp.Table) {
	t.Helper()
	if err := headers.Validate(); err != nil {
		t.Error(err)
	}
	for name := range headers {
		if len(name) > maxShort {
			t.Errorf("the name %.60q of a header has %d bytes", name, len(name))
		}
	}
}

// onTheWayBack is a message as the broker delivers it from a rung on which it expired.
func onTheWayBack(p amqp.Publishing) amqp.Delivery {
	headers := maps.Clone(p.Headers)
	headers["x-death"] = []any{amqp.Table{"queue": "q.retry.100", "reason": "expired", "count": int64(1)}}
	headers["x-first-death-queue"], headers["x-delivery-count"] = "q.retry.100", int64(1)
	return amqp.Delivery{
		Headers: headers, RoutingKey: "q", Expiration: p.Expiration, UserId: p.UserId, MessageId: p.MessageId, Body: p.Body,
	}
}

// foreign reports whether there is nothing of ours in headers, so that what happens to them is promised.
func foreign(headers amqp.Table) bool {
	for name := range headers {
		if strings.HasPrefix(name, headerPrefix) {
			return false
		}
	}
	return true
}

// handled is what a handler sees of a delivery, without the broker's counts.
func handled(d amqp.Delivery) []any {
	headers := maps.Clone(d.Headers)
	maps.DeleteFunc(headers, func(name string, _ any) bool { return isCount(name) })
	return []any{headers, d.Exchange, d.RoutingKey, d.UserId, d.Expiration, d.MessageId, string(d.Body)}
}

// source makes headers of bytes.
type source struct{ data []byte }

func (s *source) byte() byte {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return b
}

func (s *source) text() string {
	n := min(int(s.byte()), len(s.data))
	text := string(s.data[:n])
	s.data = s.data[n:]
	return text
}

func (s *source) number() int64 {
	var b [8]byte
	s.data = s.data[copy(b[:], s.data):]
	return int64(binary.BigEndian.Uint64(b[:]))
}

// table has up to seven headers. Their names are at most as long as AMQP allows.
func (s *source) table(depth int) amqp.Table {
	names := []string{
		KeyHeader, cc, "BCC", "x-death", "x-first-death-queue", "x-last-death-reason", "x-delivery-count", "x-acquired-count",
		headerAttempts, headerExchange, headerRoutingKey, headerCC, headerUserID, headerExpiration, HeaderReason, HeaderError,
	}
	prefixes := []string{"", "", "x-first-death-", "x-last-death-", headerPrefix, headerKept}
	t := amqp.Table{}
	for range s.byte() % 8 {
		i := int(s.byte())
		name := names[i%len(names)]
		if i >= 128 {
			name = prefixes[i%len(prefixes)] + s.text()
		}
		if long := s.byte(); long > 240 {
			name += strings.Repeat("n", int(long))
		}
		t[name[:min(len(name), maxShort)]] = s.value(depth)
	}
	return t
}

// value is of any type that the client library reads, at times a large one.
func (s *source) value(depth int) any {
	switch kind := s.byte() % 18; kind {
	case 0:
		return s.number()
	case 1:
		return s.text()
	case 2:
		return []byte(s.text())
	case 3:
		return strings.Repeat(s.text(), 1+16*int(s.byte()))
	case 4:
		return s.byte() > 0
	case 5:
		return s.byte()
	case 6:
		return int8(s.byte())
	case 7:
		return int16(s.number())
	case 8:
		return int32(s.number())
	case 9:
		return uint16(s.number())
	case 10:
		return uint32(s.number())
	case 11:
		return math.Float32frombits(uint32(s.number()))
	case 12:
		return math.Float64frombits(uint64(s.number()))
	case 13:
		return amqp.Decimal{Scale: s.byte(), Value: int32(s.number())}
	case 14:
		return time.Unix(s.number()%(1<<40), 0)
	case 15, 16:
		if depth > 4 {
			return nil
		}
		if kind == 15 {
			return s.table(depth + 1)
		}
		list := []any{}
		for range s.byte() % 8 {
			list = append(list, s.value(depth+1))
		}
		return list
	}
	return nil
}
