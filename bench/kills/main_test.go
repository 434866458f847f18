package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// TestKills is a short form of the proof; make kills is the long one.
func TestKills(t *testing.T) {
	kills := 8
	if testing.Short() {
		kills = 2
	}
	seed := uint64(time.Now().UnixNano())
	count, err := run(t.Context(), t.TempDir(), kills, seed, t.Output())
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if count.kills != kills || count.acknowledged == 0 || count.compared == 0 || count.events == 0 || count.resumed < 3*kills {
		t.Errorf("seed %d: too little happened to prove anything: %+v", seed, count)
	}
}

// All violations are counted, and make the result a failure.
func TestViolationsAreCounted(t *testing.T) {
	w := newWriter(nil, 0, 1)
	w.objects[0].is = state{exists: true, value: "acknowledged"}
	w.objects[1].is, w.objects[1].pending = state{exists: true, value: "old"}, &state{exists: true, value: "new"}
	w.objects[2].is = state{exists: true, value: "kept"}
	err := w.check(map[string]*corev1.ConfigMap{
		w.objects[1].name: {Data: map[string]string{"value": "other"}},
		w.objects[2].name: {Data: map[string]string{"value": "kept"}},
	})
	follower := newWatcher(source{})
	follower.known, follower.revision = map[string]string{"a": "5"}, 7
	for _, e := range []watch.Event{
		{Type: watch.Modified, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}}},
		{Type: watch.Added, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "8"}}},
		{Type: watch.Deleted, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: "9"}}},
	} {
		err = errors.Join(err, fmt.Errorf("a watcher: %w", follower.take(e)))
	}
	if n := violations(err); n != 5 {
		t.Fatalf("%d violations, want 2 of writes and 3 of watches: %v", n, err)
	}
	dir := t.TempDir()
	begun, beginning := evidence.Begin(dir, "kills")
	if beginning != nil {
		t.Fatal(beginning)
	}
	if ended := begun.End(evidence.Result{Figures: counts{}.figures(err)}, err); !errors.Is(ended, errViolated) {
		t.Errorf("End: %v", ended)
	}
	r, err := evidence.Read(dir, "kills")
	if err != nil {
		t.Fatal(err)
	}
	if r.Passed || len(r.Failures) != 5 || r.Figures[1].Value != 5 {
		t.Errorf("%+v", r)
	}
}

// A watcher that is stopped and a lost connection are not violations; a watch that the server ends with an error, or an
// undecodable event, is.
func TestEndOfAWatcher(t *testing.T) {
	const lost = "unable to decode an event from the watch stream: http2: client connection force closed via ClientConn.Close"
	const garbage = "unable to decode an event from the watch stream: unexpected end of JSON input"
	for name, c := range map[string]struct {
		ended  bool
		status runtime.Object
		want   int
	}{
		"told to end":     {true, inClient(garbage), 0},
		"connection lost": {false, inClient(lost), 0},
		"not an event":    {false, inClient(garbage), 1},
		"refused":         {false, &apierrors.NewInternalError(errors.New(lost)).ErrStatus, 1},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if c.ended {
			cancel()
		}
		stream := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
		stream.Error(c.status)
		stream.Stop()
		if err := newWatcher(source{}).follow(ctx, stream); violations(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// inClient returns client-go's error for a stream that it cannot read.
func inClient(message string) runtime.Object {
	return apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "ClientWatchDecoding").AsObject(errors.New(message))
}

// An error of a worker is kept until somebody asks for it.
func TestWorkersFailures(t *testing.T) {
	l := &load{failed: make(chan struct{}), stopWriters: func() {}, stopWatchers: func() {}}
	for range 3 {
		l.spawn(&l.watching, func() error { return errViolated })
	}
	if n := violations(l.close()); n != 3 {
		t.Errorf("%d of 3 are told", n)
	}
}
