package text_test

import (
	"math"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/kubelet/stats/internal/text"
)

func TestWriter(t *testing.T) {
	var w text.Writer
	w.Metric("load", text.Gauge, "How much.")
	w.Sample(1.5)
	w.Sample(2, "pod", "a")
	w.Sample(3, "pod", "b", "path", "C:\\x\n\"y\"")
	w.Sample(4, "a name without a value")
	w.Sample(5, "pod", "c", "a name without a value")
	w.SampleAt(time.UnixMilli(1700000000123), -1, "pod", "a")
	w.SampleAt(time.Time{}, 6)
	w.Metric("took", text.Histogram, "How long.")
	w.Part("_bucket", 2, "le", "+Inf")
	w.Part("_sum", math.Inf(1))
	w.Part("_sum", math.Inf(-1))
	want := `# HELP load How much.
# TYPE load gauge
load 1.5
load{pod="a"} 2
load{pod="b",path="C:\\x\n\"y\""} 3
load 4
load{pod="c"} 5
load{pod="a"} -1 1700000000123
load 6
# HELP took How long.
# TYPE took histogram
took_bucket{le="+Inf"} 2
took_sum +Inf
took_sum -Inf
`
	if got := string(w.Bytes()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", 0.005: "0.005", 1e21: "1e+21", 123456789: "1.23456789e+08", math.Inf(1): "+Inf", math.Inf(-1): "-Inf", math.MaxFloat64: "1.7976931348623157e+308",
	} {
		if got := text.Number(value); got != want {
			t.Errorf("%v is %s", value, got)
		}
	}
	if got := text.Number(math.NaN()); got != "NaN" {
		t.Errorf("no number is %s", got)
	}
}
