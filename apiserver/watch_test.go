package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// frame is one event of a watch in JSON.
type frame struct {
	Type   string
	Object struct {
		Kind     string
		Metadata metav1.ObjectMeta
		Code     int32
		Reason   string
		Message  string
	}
}

// inBubble runs a server with a short history inside a synctest bubble.
func inBubble(t *testing.T, history int, test func(t *testing.T, transport http.RoundTripper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		reg, err := registry.New(memory.New(memory.Options{}), core.Kinds(core.Options{}), registry.Options{Identifiers: registry.Seeded(1), History: history})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- reg.Run(ctx) }()
		if err := reg.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		transport := apiserver.NewTransport(apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()}), nil)
		test(t, transport)
		transport.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// open begins a watch; next returns its events, nil at the end.
func open(t *testing.T, transport http.RoundTripper, query string) (next func() *frame, stop func()) {
	t.Helper()
	response, err := get(t.Context(), t, transport, "http://in.process/api/v1/namespaces/n/configmaps?watch=1&"+query)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("watch: %s", response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 4<<20)
	return func() *frame {
		if !lines.Scan() {
			return nil
		}
		f := &frame{}
		if err := json.Unmarshal(lines.Bytes(), f); err != nil {
			t.Fatalf("%q: %v", lines.Bytes(), err)
		}
		return f
	}, func() { response.Body.Close() }
}

// put writes a config map with a label and returns its resource version.
func put(t *testing.T, transport http.RoundTripper, name, label string) string {
	t.Helper()
	body := fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"l":%q}}}`, name, label)
	const collection = "http://in.process/api/v1/namespaces/n/configmaps"
	for method, url := range map[string]string{http.MethodPost: collection, http.MethodPut: collection + "/" + name} {
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		var f struct{ Metadata metav1.ObjectMeta }
		if err := json.NewDecoder(response.Body).Decode(&f); err != nil {
			t.Fatal(err)
		}
		if response.StatusCode < 300 {
			return f.Metadata.ResourceVersion
		}
	}
	t.Fatalf("%s was not written", name)
	return ""
}

func TestWatchBookmarks(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, transport http.RoundTripper) {
		begin := time.Now()
		first := put(t, transport, "a", "x")
		next, stop := open(t, transport, "allowWatchBookmarks=true&labelSelector=l%3Dx&resourceVersion="+first)
		defer stop()
		other := put(t, transport, "b", "y") // not selected: only a bookmark tells of it
		f := next()
		if f == nil || f.Type != "BOOKMARK" || f.Object.Metadata.ResourceVersion != other || f.Object.Kind != "ConfigMap" {
			t.Fatalf("got %+v, want a bookmark at %s", f, other)
		}
		if after := time.Since(begin); after != time.Minute {
			t.Errorf("the bookmark came after %v", after)
		}
		last := put(t, transport, "c", "x")
		if f := next(); f == nil || f.Type != "ADDED" || f.Object.Metadata.ResourceVersion != last {
			t.Errorf("got %+v, want the creation of c", f)
		}
	})
}

func TestWatchInitialEvents(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, transport http.RoundTripper) {
		put(t, transport, "a", "x")
		last := put(t, transport, "b", "x")
		next, stop := open(t, transport, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		defer stop()
		for _, want := range []string{"a", "b"} {
			if f := next(); f == nil || f.Type != "ADDED" || f.Object.Metadata.Name != want {
				t.Fatalf("got %+v, want %s", f, want)
			}
		}
		f := next()
		if f == nil || f.Type != "BOOKMARK" || f.Object.Metadata.ResourceVersion != last || f.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
			t.Fatalf("got %+v, want the end of the initial events at %s", f, last)
		}
		put(t, transport, "c", "x")
		if f := next(); f == nil || f.Type != "ADDED" || f.Object.Metadata.Name != "c" {
			t.Errorf("got %+v", f)
		}
	})
}

func TestWatchSelectorTransitions(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, transport http.RoundTripper) {
		first := put(t, transport, "a", "out")
		next, stop := open(t, transport, "labelSelector=l%3Din&resourceVersion="+first)
		defer stop()
		for _, step := range []struct{ label, event, shown string }{
			{"in", "ADDED", "in"}, {"out", "DELETED", "in"}, {"in", "ADDED", "in"},
		} {
			version := put(t, transport, "a", step.label)
			f := next()
			if f == nil || f.Type != step.event || f.Object.Metadata.Labels["l"] != step.shown || f.Object.Metadata.ResourceVersion != version {
				t.Fatalf("after %s: got %+v, want %s at %s", step.label, f, step.event, version)
			}
		}
	})
}

func TestWatchTooOld(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, transport http.RoundTripper) {
		first := put(t, transport, "a", "0")
		for i := range 10 {
			put(t, transport, "a", fmt.Sprint(i+1))
		}
		next, stop := open(t, transport, "resourceVersion="+first)
		defer stop()
		f := next()
		if f == nil || f.Type != "ERROR" || f.Object.Code != http.StatusGone || f.Object.Reason != string(metav1.StatusReasonExpired) || f.Object.Kind != "Status" {
			t.Fatalf("got %+v, want 410 Expired", f)
		}
		if f := next(); f != nil {
			t.Errorf("after the error: %+v", f)
		}
	})
}

// A reader that falls behind the history is told so and cut off; the writers do not wait for it.
func TestWatchSlowReader(t *testing.T) {
	inBubble(t, 16, func(t *testing.T, transport http.RoundTripper) {
		first := put(t, transport, "a", "0")
		next, stop := open(t, transport, "resourceVersion="+first)
		defer stop()
		big := strings.Repeat("x", 512<<10)
		for i := range 40 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://in.process/api/v1/namespaces/n/configmaps/a",
				strings.NewReader(fmt.Sprintf(`{"metadata":{"name":"a","labels":{"l":"%d"}},"data":{"k":%q}}`, i, big)))
			if err != nil {
				t.Fatal(err)
			}
			if response, err := transport.RoundTrip(r); err != nil || response.StatusCode != http.StatusOK {
				t.Fatalf("write %d: %v %v", i, response, err)
			}
			synctest.Wait()
		}
		last, events := (*frame)(nil), 0
		for f := next(); f != nil; f = next() {
			last = f
			events++
		}
		if last == nil || last.Type != "ERROR" || last.Object.Code != http.StatusGone || events > 30 {
			t.Errorf("after %d events: %+v, want 410", events, last)
		}
	})
}

func TestWatchTimeout(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, transport http.RoundTripper) {
		for query, want := range map[string]time.Duration{"timeoutSeconds=7": 7 * time.Second, "": 45 * time.Minute} {
			begin := time.Now()
			next, stop := open(t, transport, query)
			if f := next(); f != nil {
				t.Errorf("%q: got %+v", query, f)
			}
			stop()
			if took := time.Since(begin); took != want {
				t.Errorf("%q ended after %v, want %v", query, took, want)
			}
		}
	})
}

// A list that waits for a version that does not come is told to try again.
func TestFutureVersion(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, transport http.RoundTripper) {
		begin := time.Now()
		response, err := get(t.Context(), t, transport, "http://in.process/api/v1/namespaces/n/configmaps?resourceVersion=1000000")
		if err != nil {
			t.Fatal(err)
		}
		var status metav1.Status
		if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
			t.Fatal(err)
		}
		if status.Code != http.StatusGatewayTimeout || status.Reason != metav1.StatusReasonTimeout || status.Details.RetryAfterSeconds != 1 ||
			len(status.Details.Causes) != 1 || status.Details.Causes[0].Type != metav1.CauseTypeResourceVersionTooLarge {
			t.Errorf("got %+v", status)
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}

// A watch that waits for such a version is told in its stream, as of one that is too old: an answer of 504 with
// Retry-After would be tried ten times over by client-go before its user hears of it.
func TestWatchFutureVersion(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, transport http.RoundTripper) {
		put(t, transport, "a", "x")
		for _, query := range []string{"", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"} {
			begin := time.Now()
			next, stop := open(t, transport, "resourceVersion=1000000"+query)
			if f := next(); f == nil || f.Type != "ERROR" || f.Object.Code != http.StatusGatewayTimeout || f.Object.Reason != string(metav1.StatusReasonTimeout) {
				t.Errorf("%q: got %+v", query, f)
			}
			if f := next(); f != nil {
				t.Errorf("%q: after the error: %+v", query, f)
			}
			stop()
			if took := time.Since(begin); took != 3*time.Second {
				t.Errorf("%q: answered after %v", query, took)
			}
		}
	})
}
