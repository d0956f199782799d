package main

import (
	"bytes"
	"strconv"
	"strings"
)

// expositionType is the media type of an exposition.
const expositionType = "text/plain; version=0.0.4; charset=utf-8"

// exposition is metrics in the text format of Prometheus: families, each followed by its samples.
type exposition struct {
	text bytes.Buffer
	name string // of the family
}

// metricType is the type of a family.
type metricType string

const (
	counter metricType = "counter"
	gauge   metricType = "gauge"
)

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// family begins a family.
func (e *exposition) family(name string, of metricType, help string) {
	e.name = name
	e.text.WriteString("# HELP " + name + " " + escapeHelp.Replace(help) + "\n")
	e.text.WriteString("# TYPE " + name + " " + string(of) + "\n")
}

// sample adds a sample to the family. Labels are pairs of a name and a value. What is not UTF-8 in a value is
// replaced: it would make the whole scrape invalid.
func (e *exposition) sample(value float64, labels ...string) {
	e.text.WriteString(e.name)
	for i := 0; i+1 < len(labels); i += 2 {
		open := ","
		if i == 0 {
			open = "{"
		}
		e.text.WriteString(open + labels[i] + `="` + escapeLabel.Replace(strings.ToValidUTF8(labels[i+1], "\uFFFD")) + `"`)
	}
	if len(labels) > 0 {
		e.text.WriteByte('}')
	}
	e.text.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
}
