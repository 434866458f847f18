package decisions_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/decisions"
)

const path = "/debug/decisions"

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"}}
}

// about returns a decision with some verdicts.
func about(name string, verdicts int) scheduler.Decision {
	return scheduler.Decision{Pod: pod(name), Node: "n", Verdicts: make([]scheduler.Verdict, verdicts)}
}

func names(l *decisions.Log) string {
	var all []string
	for _, e := range l.All() {
		all = append(all, e.Pod.Name)
	}
	return strings.Join(all, " ")
}

func TestBounds(t *testing.T) {
	l := decisions.New(decisions.Options{Pods: 3, Verdicts: 10})
	for i, step := range []struct {
		name     string
		verdicts int
		want     string
	}{
		{"a", 1, "a"}, {"b", 1, "b a"}, {"c", 1, "c b a"}, {"d", 1, "d c b"}, {"b", 2, "b d c"}, {"e", 8, "e b"}, {"f", 50, "f"}, {"g", 2, "g"}, {"h", 8, "h g"},
	} {
		l.Record(about(step.name, step.verdicts))
		if got := names(l); got != step.want {
			t.Errorf("after %d: %s, want %s", i, got, step.want)
		}
	}
	if _, ok := l.Last("ns", "a"); ok {
		t.Error("a forgotten decision is kept")
	}
	if e, ok := l.Last("ns", "h"); !ok || len(e.Verdicts) != 8 {
		t.Errorf("%v, %t", e, ok)
	}
	l.Record(about("g", 1))
	if got := names(l); got != "g h" {
		t.Errorf("of one pod twice: %s", got)
	}
	if e, ok := l.Last("ns", "g"); !ok || len(e.Verdicts) != 1 {
		t.Errorf("of one pod twice: %v, %t", e, ok)
	}
	l.Record(scheduler.Decision{})
	if got := names(decisions.New(decisions.Options{})); got != "" {
		t.Errorf("a new log has %s", got)
	}
}

// TestDefaults: how much is kept unless one says so.
func TestDefaults(t *testing.T) {
	l := decisions.New(decisions.Options{})
	for i := range 1001 {
		l.Record(about(fmt.Sprint(i), 0))
	}
	if n := len(l.All()); n != 1000 {
		t.Errorf("%d decisions", n)
	}
	l = decisions.New(decisions.Options{})
	for _, step := range []struct {
		name     string
		verdicts int
		want     string
	}{{"a", 10000, "a"}, {"b", 10000, "b a"}, {"c", 1, "c b"}} {
		l.Record(about(step.name, step.verdicts))
		if got := names(l); got != step.want {
			t.Errorf("%s, want %s", got, step.want)
		}
	}
}

// filled returns a log of two decisions, a minute apart.
func filled() *decisions.Log {
	l := decisions.New(decisions.Options{})
	l.Record(scheduler.Decision{Pod: pod("placed"), Node: "b", Verdicts: []scheduler.Verdict{
		{Node: "a", Total: 30, Scores: []scheduler.Score{{Priority: "P", Weight: 3, Raw: 5, Normalized: 10, Weighted: 30}, {Priority: "Q", Weight: 1, Skipped: true}}},
		{Node: "b", Total: 60, Scores: []scheduler.Score{{Priority: "P", Weight: 3, Raw: 10, Normalized: 20, Weighted: 60}, {Priority: "Q", Weight: 1, Skipped: true}}},
	}})
	time.Sleep(time.Minute)
	l.Record(scheduler.Decision{
		Pod: pod("pending"), Err: errors.New("0/2 nodes\nare available"), Preemption: &scheduler.Nomination{Node: "a", Victims: []*corev1.Pod{pod("v")}},
		Verdicts: []scheduler.Verdict{
			{Node: "a", RefusedBy: "F", Refusal: scheduler.Refuse("x", "y")},
			{Node: "b", RefusedBy: "F", Refusal: &scheduler.Refusal{Unresolvable: true, Err: errors.New("broken")}},
		},
	})
	return l
}

func get(t *testing.T, l *decisions.Log, at, accept string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	r.Header.Set("Accept", accept)
	l.Handler(path).ServeHTTP(w, r)
	return w
}

func TestTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := filled()
		const all = "TIME                  POD         NODE  MESSAGE\n" +
			"2000-01-01T00:01:00Z  ns/pending  (a)   0/2 nodes are available\n" +
			"2000-01-01T00:00:00Z  ns/placed   b     \n"
		for _, at := range []string{path, path + "/"} {
			if w := get(t, l, at, "*/*"); w.Code != 200 || w.Body.String() != all || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
				t.Errorf("%s: %d %s", at, w.Code, cmp.Diff(all, w.Body.String()))
			}
		}
		e, _ := l.Last("ns", "pending")
		if w := get(t, l, path+"/ns/pending", ""); w.Body.String() != "2000-01-01T00:01:00Z "+e.String() || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || w.Header().Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(w.Body.String(), "preempts ns/v") {
			t.Errorf("%s", w.Body)
		}
	})
}

func TestJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := filled()
		start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		placed := decisions.Document{Time: start, Namespace: "ns", Pod: "placed", UID: "u", Node: "b"}
		pending := decisions.Document{
			Time: start.Add(time.Minute), Namespace: "ns", Pod: "pending", UID: "u", Message: "0/2 nodes\nare available",
			Nominated: "a", Victims: []decisions.Victim{{Namespace: "ns", Pod: "v", UID: "u"}},
		}
		var list struct{ Decisions []decisions.Document }
		if w := get(t, l, path, "application/json"); json.Unmarshal(w.Body.Bytes(), &list) != nil || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%v", w)
		}
		if w := get(t, l, path, "application/json"); !strings.HasPrefix(w.Body.String(), "{\n  \"decisions\": [\n") {
			t.Errorf("%s", w.Body)
		}
		if diff := cmp.Diff([]decisions.Document{pending, placed}, list.Decisions); diff != "" {
			t.Errorf("all (-want +got)\n%s", diff)
		}
		score := func(raw int64) []decisions.Score {
			return []decisions.Score{{Plugin: "P", Weight: 3, Raw: raw, Normalized: 2 * raw, Weighted: 6 * raw}, {Plugin: "Q", Weight: 1, Skipped: true}}
		}
		placed.Nodes = []decisions.Node{{Name: "a", Total: 30, Scores: score(5)}, {Name: "b", Total: 60, Scores: score(10)}}
		pending.Nodes = []decisions.Node{
			{Name: "a", RefusedBy: "F", Reasons: []string{"x", "y"}}, {Name: "b", RefusedBy: "F", Reasons: []string{"broken"}, Hopeless: true},
		}
		for _, want := range []decisions.Document{placed, pending} {
			var got decisions.Document
			if w := get(t, l, path+"/ns/"+want.Pod, "application/json"); json.Unmarshal(w.Body.Bytes(), &got) != nil {
				t.Errorf("%s", w.Body)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}
	})
}

// TestFormats: the query counts more than the header.
func TestFormats(t *testing.T) {
	l := decisions.New(decisions.Options{})
	l.Record(about("p", 1))
	for _, c := range []struct{ query, accept, want string }{
		{"", "application/json, */*", "{"}, {"?format=table", "application/json, */*", "TIME"}, {"?format=json", "text/plain", "{"}, {"", "text/plain", "TIME"},
	} {
		if w := get(t, l, path+c.query, c.accept); !strings.HasPrefix(w.Body.String(), c.want) {
			t.Errorf("%+v: %s", c, w.Body)
		}
	}
}

func TestRequests(t *testing.T) {
	l := decisions.New(decisions.Options{})
	l.Record(about("p", 1))
	for at, want := range map[string]int{"/ns/p": 200, "/ns/q": 404, "/p": 404, "/ns/p/q": 404, "/other/p": 404, "": 200} {
		if w := get(t, l, path+at, ""); w.Code != want {
			t.Errorf("%s: %d, want %d", at, w.Code, want)
		}
	}
	head := httptest.NewRecorder()
	l.Handler(path).ServeHTTP(head, httptest.NewRequestWithContext(t.Context(), http.MethodHead, path, nil))
	if head.Code != http.StatusOK {
		t.Errorf("HEAD: %v", head)
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodPut} {
		w := httptest.NewRecorder()
		l.Handler(path).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" || w.Body.String() != "decisions can only be read\n" {
			t.Errorf("%s: %v", method, w)
		}
	}
}

// TestPlainText: a table is text whatever a plugin says, so that no client makes anything else of it.
func TestPlainText(t *testing.T) {
	l := decisions.New(decisions.Options{})
	l.Record(scheduler.Decision{Pod: pod("p"), Err: errors.New("<script>\x01\x02")})
	server := httptest.NewServer(l.Handler(path)) // which makes out what an answer is that does not say it
	defer server.Close()
	for _, at := range []string{path, path + "/ns/p"} {
		r, err := server.Client().Get(server.URL + at)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(string(text), "<script>\x01") {
			t.Errorf("%s: %v: %q, %v", at, r.Header, text, err)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	l := decisions.New(decisions.Options{Pods: 5})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 100 {
				l.Record(about(fmt.Sprint(i, j), 3))
				l.Last("ns", "00")
				_ = get(t, l, path, "application/json")
			}
		})
	}
	all.Wait()
	if n := len(l.All()); n != 5 {
		t.Errorf("%d decisions", n)
	}
}

func Example() {
	log := decisions.New(decisions.Options{Pods: 100})
	profile := scheduler.Profile{}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	// A Scheduler does this with log.Record as Options.OnDecision.
	log.Record(profile.Schedule(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}, scheduler.NewSnapshot([]*corev1.Node{node}, nil)))
	entry, _ := log.Last("default", "web")
	fmt.Print(entry.Decision)
	// Output:
	// default/web goes to node-1: 1/1 nodes are available
	//   node-1 passes and was not scored
}
