package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// print prints v as JSON, or calls text to print it for people.
func (c *cli) print(cmd *cobra.Command, v any, text func(w io.Writer)) error {
	out := cmd.OutOrStdout()
	if c.json {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(v)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	text(w)
	return w.Flush()
}

// printable is text as it is, or quoted if it has something in it that would disturb a table or a terminal.
func printable(text string) string {
	strange := func(r rune) bool { return !strconv.IsPrint(r) }
	if text == "" || strings.TrimSpace(text) != text || strings.ContainsFunc(text, strange) {
		return strconv.Quote(text)
	}
	return text
}

// counted is a number of things, in the singular if it is one.
func counted(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// roughly is a duration for people: two units of it are enough.
func roughly(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + roughly(-d)
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return short(d.Round(time.Second))
	case d < 48*time.Hour:
		return short(d.Round(time.Minute))
	}
	return fmt.Sprintf("%.1f days", d.Hours()/24)
}

// short leaves out the units at the end that are zero.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// seconds is a duration in JSON.
func seconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }

// size is a number of bytes for people.
func size(bytes int64) string {
	const unit = 1024
	n, units := float64(bytes), []string{"B", "kB", "MB", "GB", "TB"}
	i := 0
	for n >= unit && i < len(units)-1 {
		n, i = n/unit, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", n, units[i])
}
