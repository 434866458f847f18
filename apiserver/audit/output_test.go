package audit_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver/audit"
)

// reporter is a sink that fails and counts that by itself.
type reporter struct{ audit.Sink }

func (reporter) Failures() map[string]int64 { return map[string]int64{"webhook": 3, "buffered": 4} }

// TestAlso: all sinks get all events, and those that are strict make requests fail.
func TestAlso(t *testing.T) {
	full := audit.SinkFunc(func(*auditv1.Event) error { return errors.New("disk full") })
	for name, c := range map[string]struct {
		first    audit.Sink
		strict   bool
		also     []audit.Output
		refused  bool
		failures int64
		plugins  map[string]int64
		lines    int
	}{
		"none fails":           {first: &audit.Memory{}, strict: true, also: []audit.Output{{Sink: &audit.Memory{}, Strict: true}}},
		"first":                {first: full, also: []audit.Output{{Sink: &audit.Memory{}, Strict: true}}, failures: 1, lines: 1},
		"first, strict":        {first: full, strict: true, also: []audit.Output{{Sink: &audit.Memory{}}}, refused: true, failures: 1, lines: 1},
		"second":               {first: &audit.Memory{}, strict: true, also: []audit.Output{{Sink: full}}, failures: 1, lines: 1},
		"second, strict":       {first: &audit.Memory{}, also: []audit.Output{{Sink: full, Strict: true}}, refused: true, failures: 1, lines: 1},
		"both":                 {first: full, strict: true, also: []audit.Output{{Sink: full}}, refused: true, failures: 2, lines: 2},
		"it reports":           {first: &audit.Memory{}, also: []audit.Output{{Sink: reporter{full}}}, plugins: map[string]int64{"webhook": 3, "buffered": 4}},
		"it reports, strict":   {first: reporter{full}, strict: true, refused: true, plugins: map[string]int64{"webhook": 3, "buffered": 4}},
		"two report":           {first: reporter{full}, also: []audit.Output{{Sink: reporter{full}}}, plugins: map[string]int64{"webhook": 6, "buffered": 8}},
		"one reports of three": {first: &audit.Memory{}, also: []audit.Output{{Sink: reporter{full}}, {Sink: full}}, failures: 1, lines: 1, plugins: map[string]int64{"webhook": 3, "buffered": 4}},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			l := audit.New(audit.Everything(auditv1.LevelMetadata), c.first, audit.Options{Strict: c.strict, Also: c.also, Logger: slog.New(slog.NewTextHandler(&text, nil))})
			r := l.Open()
			r.Begin(request("/"))
			if err := r.Received(); errors.Is(err, audit.ErrNotStored) != c.refused || (err != nil) != c.refused {
				t.Error(err)
			}
			stats := l.Stats()
			if diff := cmp.Diff(c.plugins, stats.Plugins); diff != "" || stats.Events != 1 || stats.Failures != c.failures || (stats.Rejected == 1) != c.refused {
				t.Errorf("%+v", stats)
			}
			if got := strings.Count(text.String(), "\n"); got != c.lines {
				t.Errorf("the log has %d lines:\n%s", got, text.String())
			}
			for _, o := range append(c.also, audit.Output{Sink: c.first}) {
				if m, ok := o.Sink.(*audit.Memory); ok && len(m.Events()) != 1 {
					t.Errorf("%d events", len(m.Events()))
				}
			}
		})
	}
}

// TestUse: requests are recorded by the policy of when they began.
func TestUse(t *testing.T) {
	sink := &audit.Memory{}
	l := audit.New(audit.Everything(auditv1.LevelMetadata), sink, audit.Options{})
	before := l.Open()
	before.Begin(request("/before"))
	l.Use(audit.Everything(auditv1.LevelNone))
	between := l.Open()
	if between.Begin(request("/between")) {
		t.Error("recorded by a policy that is no longer in force")
	}
	before.Completed()
	between.Completed()
	l.Use(audit.Everything(auditv1.LevelRequest))
	after := l.Open()
	after.Begin(request("/after"))
	after.Completed()
	events := sink.Events()
	if len(events) != 2 || events[0].RequestURI != "/before" || events[0].Level != auditv1.LevelMetadata || events[1].Level != auditv1.LevelRequest {
		t.Errorf("%+v", events)
	}
}

// TestFlushReported: what a sink reports by itself is no error of Flush.
func TestFlushReported(t *testing.T) {
	full := audit.SinkFunc(func(e *auditv1.Event) error {
		if e.Annotations["audit.keelson.dev/left-out"] == "" {
			return nil
		}
		return errors.New("disk full")
	})
	for _, sink := range []audit.Sink{full, reporter{full}} {
		l := audit.New(audit.Everything(auditv1.LevelMetadata), sink, audit.Options{Strangers: audit.Budget{Bytes: 1}})
		for range 2 {
			q := request("/")
			q.Attributes.User = nil
			r := l.Open()
			r.Begin(q)
			r.Completed()
		}
		_, reports := sink.(audit.Reporter)
		if err := l.Flush(); (err == nil) != reports {
			t.Errorf("%T: %v", sink, err)
		}
	}
}
