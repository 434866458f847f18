package publish_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/events/publish"
)

// server keeps events as JSON and patches them by merging.
type server struct {
	mu      sync.Mutex
	events  map[string]map[string]any
	order   []string
	log     []string
	fail    []error // answers to the next requests; nil lets one pass
	removed bool    // forget everything before the next patch
}

func newServer() *server { return &server{events: map[string]map[string]any{}} }

func (s *server) begin(verb string, t client.Target) error {
	s.log = append(s.log, verb+" "+t.Resource.Group+" "+t.Namespace)
	if len(s.fail) == 0 {
		return nil
	}
	err := s.fail[0]
	s.fail = s.fail[1:]
	return err
}

func (s *server) Create(_ context.Context, t client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin("create", t); err != nil {
		return nil, err
	}
	at := t.Namespace + "/" + t.Name
	if _, there := s.events[at]; there {
		return nil, apierrors.NewAlreadyExists(t.Resource.GroupResource(), t.Name)
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	s.order = append(s.order, at)
	s.events[at] = fields
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	s.events[at] = fields
	return obj, nil
}

func (s *server) Patch(_ context.Context, t client.Target, p client.Patch, _ metav1.PatchOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin("patch", t); err != nil {
		return nil, err
	}
	if s.removed {
		s.removed = false
		clear(s.events)
		s.order = nil
	}
	e, there := s.events[t.Namespace+"/"+t.Name]
	if !there {
		return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
	}
	var fields map[string]any
	if err := json.Unmarshal(p.Data, &fields); err != nil || p.Type != types.StrategicMergePatchType {
		return nil, fmt.Errorf("patch %s: %w", p.Type, err)
	}
	maps.Copy(e, fields)
	return nil, nil
}

// stored returns the events in the order of their creation.
func stored[T any](t *testing.T, s *server) []T {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []T
	for _, at := range s.order {
		data, err := json.Marshal(s.events[at])
		if err != nil {
			t.Fatal(err)
		}
		var e T
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// requests returns what the server was asked since the last call.
func (s *server) requests() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

func about(name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}
}

func event(name, reason, message string) events.Event {
	return events.Event{Regarding: about(name), Type: corev1.EventTypeNormal, Reason: reason, Message: message}
}

// inBubble runs a publisher in virtual time.
func inBubble(t *testing.T, series bool, options publish.Options, test func(*testing.T, *server, *publish.Publisher, func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := publish.New(s, options)
		if series {
			p = publish.NewSeries(s, options)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		stop := sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
		defer stop()
		test(t, s, p, stop)
	})
}

var kubelet = publish.Options{Component: "kubelet", Host: "node-1"}

func TestCounts(t *testing.T) {
	inBubble(t, false, kubelet, func(t *testing.T, s *server, p *publish.Publisher, _ func()) {
		first := time.Now()
		p.Record(event("p", "Started", "Started container c"))
		time.Sleep(time.Minute)
		p.Record(event("p", "Started", "Started container c"))
		p.Record(event("p", "Started", "Started container d"))
		p.Record(event("q", "Started", "Started container c"))
		time.Sleep(time.Minute)
		p.Record(event("p", "Started", "Started container c"))
		got := stored[corev1.Event](t, s)
		if len(got) != 3 {
			t.Fatalf("%d events", len(got))
		}
		e := got[0]
		if !strings.HasPrefix(e.Name, "p.") || e.Namespace != "ns" || e.InvolvedObject != about("p") {
			t.Errorf("%+v", e)
		}
		if e.Count != 3 || !e.FirstTimestamp.Equal(&metav1.Time{Time: first}) || !e.LastTimestamp.Equal(&metav1.Time{Time: first.Add(2 * time.Minute)}) {
			t.Errorf("count %d from %v to %v", e.Count, e.FirstTimestamp, e.LastTimestamp)
		}
		if e.Source != (corev1.EventSource{Component: "kubelet", Host: "node-1"}) || e.ReportingController != "kubelet" || e.ReportingInstance != "node-1" {
			t.Errorf("source %+v", e)
		}
		if e.Type != "Normal" || e.Reason != "Started" || e.Message != "Started container c" || !e.EventTime.IsZero() {
			t.Errorf("%+v", e)
		}
		if got[1].Count != 1 || got[2].Count != 1 || p.Dropped() != 0 {
			t.Errorf("counts %d, %d; %d dropped", got[1].Count, got[2].Count, p.Dropped())
		}
		want := []string{"create  ns", "patch  ns", "create  ns", "create  ns", "patch  ns"}
		if log := s.requests(); !slices.Equal(log, want) {
			t.Errorf("requests %q", log)
		}
	})
}

// An event whose time on the server was up is made again, with its count.
func TestRemovedEvent(t *testing.T) {
	inBubble(t, false, kubelet, func(t *testing.T, s *server, p *publish.Publisher, _ func()) {
		p.Record(event("p", "R", "m"))
		name := stored[corev1.Event](t, s)[0].Name
		s.removed = true
		p.Record(event("p", "R", "m"))
		got := stored[corev1.Event](t, s)
		if len(got) != 1 || got[0].Count != 2 || got[0].Name != name {
			t.Errorf("%+v", got)
		}
	})
}

func TestSimilarEventsAreCombined(t *testing.T) {
	inBubble(t, false, kubelet, func(t *testing.T, s *server, p *publish.Publisher, _ func()) {
		for n := range 15 {
			p.Record(event("p", "Failed", fmt.Sprint("attempt ", n)))
			time.Sleep(10 * time.Second)
		}
		p.Record(event("p", "Failed", "attempt 3"))
		got := stored[corev1.Event](t, s)
		if len(got) != 10 {
			t.Fatalf("%d events", len(got))
		}
		if got[9].Message != "(combined from similar events): attempt 14" || got[9].Count != 6 {
			t.Errorf("combined: %s ×%d", got[9].Message, got[9].Count)
		}
		if got[3].Count != 2 {
			t.Errorf("an event of its own has count %d", got[3].Count)
		}
		time.Sleep(11 * time.Minute)
		p.Record(event("p", "Failed", "attempt 99"))
		if got := stored[corev1.Event](t, s); len(got) != 11 || got[10].Message != "attempt 99" {
			t.Errorf("after a silence: %d events", len(got))
		}
	})
}

func TestSpam(t *testing.T) {
	inBubble(t, false, kubelet, func(t *testing.T, s *server, p *publish.Publisher, _ func()) {
		for range 40 {
			p.Record(event("p", "R", "m"))
		}
		p.Record(event("q", "R", "m"))
		if log := s.requests(); len(log) != 26 {
			t.Errorf("%d requests at once", len(log))
		}
		time.Sleep(5 * time.Minute)
		p.Record(event("p", "R", "m"))
		p.Record(event("p", "R", "m"))
		if got := stored[corev1.Event](t, s); got[0].Count != 41 {
			t.Errorf("count %d", got[0].Count)
		}
		if log := s.requests(); len(log) != 1 {
			t.Errorf("%d requests after five minutes", len(log))
		}
	})
}

func TestSeries(t *testing.T) {
	options := publish.Options{Component: "default-scheduler", Host: "host"}
	inBubble(t, true, options, func(t *testing.T, s *server, p *publish.Publisher, _ func()) {
		start := time.Now()
		node := corev1.ObjectReference{Kind: "Node", Name: "n"}
		e := events.Event{Regarding: about("p"), Related: &node, Type: "Warning", Reason: "FailedScheduling", Action: "Scheduling", Message: "no nodes"}
		p.Record(e)
		synctest.Wait()
		got := stored[eventsv1.Event](t, s)
		if len(got) != 1 {
			t.Fatalf("%d events", len(got))
		}
		g := got[0]
		if !strings.HasPrefix(g.Name, "p.") || g.Namespace != "ns" || g.Regarding != about("p") || *g.Related != node || g.Series != nil || !g.EventTime.Equal(&metav1.MicroTime{Time: start}) {
			t.Errorf("%+v", g)
		}
		if g.ReportingController != "default-scheduler" || g.ReportingInstance != "default-scheduler-host" || g.Action != "Scheduling" || g.Note != "no nodes" || g.Reason != "FailedScheduling" || g.Type != "Warning" {
			t.Errorf("%+v", g)
		}
		for n := range 60 { // for an hour
			time.Sleep(time.Minute)
			e.Message = fmt.Sprint("still none ", n)
			p.Record(e)
		}
		synctest.Wait()
		series := stored[eventsv1.Event](t, s)[0].Series
		if series == nil || series.Count < 30 || series.Count == 61 {
			t.Errorf("refreshed series %+v", series)
		}
		time.Sleep(13 * time.Minute)
		series = stored[eventsv1.Event](t, s)[0].Series
		if series == nil || series.Count != 61 || !series.LastObservedTime.Equal(&metav1.MicroTime{Time: start.Add(time.Hour)}) {
			t.Errorf("finished series %+v", series)
		}
		// When it starts, after half an hour twice, and in the end.
		want := append([]string{"create events.k8s.io ns"}, slices.Repeat([]string{"patch events.k8s.io ns"}, 4)...)
		if log := s.requests(); !slices.Equal(log, want) {
			t.Errorf("requests %q", log)
		}
		p.Record(e)
		if got := stored[eventsv1.Event](t, s); len(got) != 2 || got[1].Note != "still none 59" {
			t.Errorf("after the series: %+v", got)
		}
	})
}

// TestReporter: an event may name who reports it.
func TestReporter(t *testing.T) {
	for _, series := range []bool{false, true} {
		inBubble(t, series, publish.Options{Component: "first", Host: "h"}, func(t *testing.T, s *server, p *publish.Publisher, _ func()) {
			for _, reporter := range []string{"", "second"} {
				p.Record(events.Event{Regarding: about("p"), Type: "Normal", Reason: "R", Message: "m", Reporter: reporter})
				time.Sleep(time.Second)
			}
			var got []string
			if series {
				for _, e := range stored[eventsv1.Event](t, s) {
					got = append(got, e.ReportingController+" "+e.ReportingInstance)
				}
			} else {
				for _, e := range stored[corev1.Event](t, s) {
					got = append(got, e.Source.Component+" "+e.ReportingController+"-"+e.Source.Host)
				}
			}
			if want := []string{"first first-h", "second second-h"}; !slices.Equal(got, want) {
				t.Errorf("series %t: %q", series, got)
			}
		})
	}
}

func TestSeriesAreWrittenInOrder(t *testing.T) {
	inBubble(t, true, publish.Options{}, func(t *testing.T, s *server, p *publish.Publisher, _ func()) {
		for range 3 {
			for n := range 20 {
				p.Record(event(fmt.Sprint("p", n), "R", "m"))
			}
			time.Sleep(time.Second)
		}
		s.requests()
		s.mu.Lock()
		clear(s.events) // so that each is created again
		s.order = nil
		s.mu.Unlock()
		time.Sleep(13 * time.Minute)
		synctest.Wait()
		if len(s.order) != 20 || !slices.IsSorted(s.order) {
			t.Errorf("written as %q", s.order)
		}
	})
}

func TestNames(t *testing.T) {
	made := func() (names []string) {
		inBubble(t, false, publish.Options{Component: "c"}, func(t *testing.T, s *server, p *publish.Publisher, _ func()) {
			p.Record(event("p", "One", "m"))
			p.Record(event("p", "Two", "m")) // in the same nanosecond
			p.Record(events.Event{Regarding: corev1.ObjectReference{Kind: "ClusterRole", Name: "system:node"}, Type: "Normal", Reason: "R"})
			for _, e := range stored[corev1.Event](t, s) {
				names = append(names, e.Namespace+"/"+e.Name)
			}
		})
		return names
	}
	first, second := made(), made()
	if len(first) != 3 || !slices.Equal(first, second) {
		t.Errorf("names %q, then %q", first, second)
	}
	if !strings.HasPrefix(first[2], "default/") || strings.Contains(first[2], ":") {
		t.Errorf("a cluster-scoped object with a strange name has its event at %q", first[2])
	}
}

func TestUnreachableServer(t *testing.T) {
	down := errors.New("no connection")
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", down)
	for name, test := range map[string]struct {
		fail     []error
		requests int
		after    time.Duration
		dropped  int64
	}{
		"comes back":    {[]error{down, down, nil}, 3, 20 * time.Second, 0},
		"stays away":    {slices.Repeat([]error{down}, 12), 12, 110 * time.Second, 1},
		"refuses":       {[]error{refused}, 1, 0, 1},
		"is too busy":   {[]error{apierrors.NewTooManyRequests("", 1)}, 1, 0, 1},
		"has it by now": {[]error{apierrors.NewAlreadyExists(schema.GroupResource{}, "x")}, 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, false, kubelet, func(t *testing.T, s *server, p *publish.Publisher, _ func()) {
				s.fail = test.fail
				p.Record(event("p", "R", "m"))
				time.Sleep(test.after)
				if log := s.requests(); len(log) != test.requests {
					t.Errorf("%d requests", len(log))
				}
				p.Record(event("other", "R", "m"))
				if log := s.requests(); len(log) != 1 {
					t.Errorf("%d requests for the next event", len(log))
				}
				if p.Dropped() != test.dropped {
					t.Errorf("%d dropped", p.Dropped())
				}
			})
		})
	}
}

func TestNeverBlocks(t *testing.T) {
	s := newServer()
	p := publish.New(s, publish.Options{Queue: 3})
	for range 5 {
		p.Record(event("p", "R", "m")) // nobody runs it
	}
	p.Record(events.Event{Regarding: about("p"), Type: "Strange"})
	if p.Dropped() != 3 {
		t.Errorf("%d dropped", p.Dropped())
	}
}

func TestShutdown(t *testing.T) {
	down := errors.New("no connection")
	for name, test := range map[string]struct {
		grace          time.Duration
		written, count int
	}{
		"flushes": {0, 3, 0}, "drops": {-1, 0, 4},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, false, publish.Options{Grace: test.grace}, func(t *testing.T, s *server, p *publish.Publisher, stop func()) {
				s.fail = []error{down} // the publisher waits to try again
				for n := range 4 {
					p.Record(event(fmt.Sprint("p", n), "R", "m"))
				}
				synctest.Wait()
				start := time.Now()
				stop()
				if got := stored[corev1.Event](t, s); len(got) != test.written || time.Since(start) > 0 {
					t.Errorf("%d events after %v", len(got), time.Since(start))
				}
				if want := int64(4 - test.written); p.Dropped() != want {
					t.Errorf("%d dropped, want %d", p.Dropped(), want)
				}
			})
		})
	}
}

// TestLog: what nobody can help is no warning: events of a namespace that ends, those that are there, and the last
// words before the end.
func TestLog(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	exists := apierrors.NewAlreadyExists(schema.GroupResource{}, "x")
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))
	down := errors.New("no connection")
	for name, test := range map[string]struct {
		fail []error
		end  bool
		want string // the messages
	}{
		"refused":            {fail: []error{refused}, want: "event dropped"},
		"down":               {fail: []error{down}, want: "event not written, trying again"},
		"namespace ends":     {fail: []error{terminating}},
		"there":              {fail: []error{exists}},
		"the publisher ends": {end: true},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			o := publish.Options{Grace: -1, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
				Level: slog.LevelInfo,
				ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == slog.MessageKey {
						return a
					}
					return slog.Attr{}
				},
			}))}
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.fail = test.fail
				p := publish.New(s, o)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				p.Record(event("p", "R", "m"))
				if test.end {
					cancel()
				}
				go func() { done <- p.Run(ctx) }()
				synctest.Wait()
				if got := strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(log.String(), "msg=", ""), `"`, "")); got != test.want {
					t.Errorf("the log says %q, want %q", got, test.want)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func Example() {
	s := newServer() // in a program, a client of package client/rest
	recorder := publish.New(s, publish.Options{Component: "my-controller"})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	recorder.Record(events.Event{
		Regarding: events.About(corev1.SchemeGroupVersion.WithKind("Pod"), pod),
		Type:      corev1.EventTypeNormal, Reason: "Noticed", Message: "a pod appeared",
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // what is recorded already is still written
	fmt.Println(recorder.Run(ctx))
	fmt.Println(s.log)
	// Output:
	// <nil>
	// [create  ns]
}
