package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/firsttime-go/firsttime/store"
)

// payment is a message of the demo. Its id is the key: one charge for each id.
type payment struct {
	ID          string `json:"id"`
	OrderID     string `json:"order_id"`
	AmountCents int64  `json:"amount_cents"`
}

func (o demoOptions) payments() ([]payment, error) {
	if o.input != "" {
		return readPayments(o.input)
	}
	if o.messages < 1 || o.messages > 1_000_000 {
		return nil, fmt.Errorf("--messages %d: give 1 to 1000000", o.messages)
	}
	list := make([]payment, o.messages)
	for i := range list {
		list[i] = payment{
			ID: fmt.Sprintf("payment-%06d", i+1), OrderID: fmt.Sprintf("order-%06d", i+1), AmountCents: int64(100 + i*37%9900),
		}
	}
	return list, nil
}

// readPayments reads a file of JSON lines. A line that repeats an earlier one is one message; empty lines
// do not count.
func readPayments(path string) ([]payment, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--input: %w", err)
	}
	var list []payment
	seen := make(map[string]payment)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		p, err := parsePayment(line)
		if err != nil {
			return nil, fmt.Errorf("--input: line %d: %w", n, err)
		}
		former, known := seen[p.ID]
		if known && former != p {
			return nil, fmt.Errorf("--input: line %d: id %q stands for another payment before", n, p.ID)
		}
		if !known {
			seen[p.ID] = p
			list = append(list, p)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--input: %w", err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("--input: %s holds no payments: write one JSON object a line", path)
	}
	return list, nil
}

func parsePayment(line []byte) (p payment, err error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return p, fmt.Errorf("not a JSON object with id, order_id and amount_cents: %w", err)
	}
	if decoder.More() {
		return p, errors.New("more than one JSON object")
	}
	if err := store.ValidateKey(p.ID); err != nil {
		return p, fmt.Errorf("id: %w", err)
	}
	if err := store.ValidateKey(p.OrderID); err != nil {
		return p, fmt.Errorf("order_id: %w", err)
	}
	if p.AmountCents < 1 {
		return p, fmt.Errorf("amount_cents is %d, it must be at least 1", p.AmountCents)
	}
	return p, nil
}
