// Package text writes metrics in the text format of Prometheus.
package text

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
)

// ContentType is the content type of the format.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// The types of metrics.
const (
	Counter   = "counter"
	Gauge     = "gauge"
	Histogram = "histogram"
)

// Writer collects metrics. All samples of one metric must be written in a row.
type Writer struct {
	buffer bytes.Buffer
	name   string
}

// Metric begins a metric; its samples follow. The help text is one line without backslashes.
func (w *Writer) Metric(name, kind, help string) {
	w.name = name
	w.buffer.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

// Sample writes a value of the metric. The labels are alternating names and values.
func (w *Writer) Sample(value float64, labels ...string) { w.write("", value, time.Time{}, labels) }

// SampleAt writes a value with a timestamp.
func (w *Writer) SampleAt(at time.Time, value float64, labels ...string) {
	w.write("", value, at, labels)
}

// Part writes a value of a part of the metric, such as _sum of a histogram.
func (w *Writer) Part(suffix string, value float64, labels ...string) {
	w.write(suffix, value, time.Time{}, labels)
}

func escape(value string) string {
	if !strings.ContainsAny(value, "\\\n\"") {
		return value
	}
	return strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`).Replace(value)
}

func (w *Writer) write(suffix string, value float64, at time.Time, labels []string) {
	w.buffer.WriteString(w.name + suffix)
	for i := 0; i+1 < len(labels); i += 2 {
		before := ","
		if i == 0 {
			before = "{"
		}
		w.buffer.WriteString(before + labels[i] + `="` + escape(labels[i+1]) + `"`)
	}
	if len(labels) > 1 {
		w.buffer.WriteByte('}')
	}
	w.buffer.WriteString(" " + Number(value))
	if !at.IsZero() {
		w.buffer.WriteString(" " + strconv.FormatInt(at.UnixMilli(), 10))
	}
	w.buffer.WriteByte('\n')
}

// Bytes returns what has been written.
func (w *Writer) Bytes() []byte { return w.buffer.Bytes() }

// Number formats a number.
func Number(value float64) string {
	switch {
	case math.IsInf(value, 1):
		return "+Inf"
	case math.IsInf(value, -1):
		return "-Inf"
	default:
		return strconv.FormatFloat(value, 'g', -1, 64)
	}
}
