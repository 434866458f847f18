package apiserver_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

// fuzzDeadline is when an answer is taken for one that never comes.
const fuzzDeadline = time.Minute

// fuzzed makes a request and returns the answer, which must be there in time, be no panic, and if it is an error a
// Status.
func fuzzed(t *testing.T, transport http.RoundTripper, path string, query url.Values) (code int, body []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fuzzDeadline)
	defer cancel()
	resp, err := get(ctx, t, transport, "http://in.process"+path+"?"+query.Encode())
	if err != nil {
		t.Fatalf("%s %v: %v", path, query, err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		body = append(body, line...)
		if err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		t.Fatalf("%s %v: no end", path, query)
	}
	if string(body) == panicked {
		t.Fatalf("%s %v: panicked", path, query)
	}
	if resp.StatusCode >= 400 {
		checkStatus(t, body, resp.StatusCode)
	}
	return resp.StatusCode, body
}

func checkStatus(t *testing.T, body []byte, code int) {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal(body, &s); err != nil || s.Kind != "Status" || s.Status != metav1.StatusFailure || int(s.Code) != code || s.Message == "" {
		t.Fatalf("%d with %s", code, body)
	}
}

// FuzzContinue: a token that nobody gave out is refused or continues within what is listed, in order.
func FuzzContinue(f *testing.F) {
	config := serve(f)
	for n := range 20 {
		putConfigMap(f, config.Transport, "ns"+strconv.Itoa(n%3), "c"+strconv.Itoa(n))
	}
	token := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, text := range []string{
		`{"v":"meta.k8s.io/v1","rv":-1,"start":"ns1/c1\u0000"}`, `{"v":"meta.k8s.io/v1","rv":5,"start":"ns1/c1"}`, `{"v":"meta.k8s.io/v1","rv":1,"start":"/../.."}`,
		`{"v":"meta.k8s.io/v1","rv":9223372036854775807,"start":"a"}`, `{"v":"v2","rv":5,"start":"a"}`, `{"v":"meta.k8s.io/v1","rv":-9,"start":"ns2/"}`, `null`, `7`, ``,
	} {
		f.Add(token(text), int64(3), true)
		f.Add(text, int64(0), false)
	}
	f.Fuzz(func(t *testing.T, token string, limit int64, one bool) {
		if _, revision, err := registry.DecodeContinue(token); err == nil && revision > 1000 {
			return // would wait for it
		}
		path := "/api/v1/configmaps"
		if one {
			path = "/api/v1/namespaces/ns1/configmaps"
		}
		code, body := fuzzed(t, config.Transport, path, url.Values{"continue": {token}, "limit": {strconv.FormatInt(limit, 10)}})
		if code != http.StatusOK {
			return
		}
		var l metav1.PartialObjectMetadataList
		if err := json.Unmarshal(body, &l); err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, i := range l.Items {
			if one && i.Namespace != "ns1" {
				t.Errorf("%q led to %s/%s", token, i.Namespace, i.Name)
			}
			keys = append(keys, i.Namespace+"/"+i.Name)
		}
		if !slices.IsSorted(keys) || limit > 0 && int64(len(keys)) > limit {
			t.Errorf("%q, limit %d: %v", token, limit, keys)
		}
	})
}

// FuzzSelectors: a selector is refused, or selects the same by an index, by pages, and by watches of what happened and
// of the state, also of objects that began or ceased to match.
func FuzzSelectors(f *testing.F) {
	for _, s := range [][2]string{
		{"a=1", ""}, {"a in (1,2),b", "metadata.name=c1"}, {"!a", "metadata.name!=c1"}, {"a notin (1)", "metadata.namespace=default"}, {"a>0", "metadata.name=c1,metadata.name=c2"},
		{"a in ()", `metadata.name=a\,b`}, {"a==1,a=2", "x=y"}, {",", ","}, {"a in (1", "="}, {"a=1,b=x", ""},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, labels, fields string) {
		inBubble(t, 0, func(t *testing.T, transport http.RoundTripper) {
			const path = "/api/v1/namespaces/default/configmaps"
			before := putConfigMap(t, transport, "elsewhere", "c")
			for n := range 16 {
				method, to, name := http.MethodPost, path, "c"+strconv.Itoa(n%12)
				if n >= 12 { // others than before match
					method, to = http.MethodPut, path+"/"+name
				}
				write(t, transport, method, to, `{"metadata":{"name":"`+name+`","labels":{"a":"`+strconv.Itoa(n%5)+`","b":"x"}}}`)
			}
			write(t, transport, http.MethodDelete, path+"/c7", "")
			query := url.Values{"labelSelector": {labels}, "fieldSelector": {fields}}
			code, body := fuzzed(t, transport, path, query)
			if code != http.StatusOK {
				return
			}
			want := names(t, body)
			if got := pages(t, transport, path, query); !slices.Equal(got, want) {
				t.Errorf("%q %q: pages have %v, the list %v", labels, fields, got, want)
			}
			for _, version := range []string{"", strconv.FormatInt(before, 10)} {
				query := url.Values{"labelSelector": {labels}, "fieldSelector": {fields}, "watch": {"1"}, "timeoutSeconds": {"1"}, "resourceVersion": {version}}
				if got := replayed(t, transport, path, query); !slices.Equal(got, want) {
					t.Errorf("%q %q: what a watch from %q told comes to %v, the list is %v", labels, fields, version, got, want)
				}
			}
		})
	})
}

// pages lists by twos.
func pages(t *testing.T, transport http.RoundTripper, path string, query url.Values) (all []string) {
	t.Helper()
	query.Set("limit", "2")
	for {
		_, body := fuzzed(t, transport, path, query)
		all = append(all, names(t, body)...)
		var l metav1.PartialObjectMetadataList
		if err := json.Unmarshal(body, &l); err != nil {
			t.Fatal(err)
		}
		if l.Continue == "" {
			return all
		}
		query.Set("continue", l.Continue)
	}
}

// replayed is which objects there are in the end, by what a watch tells.
func replayed(t *testing.T, transport http.RoundTripper, path string, query url.Values) []string {
	t.Helper()
	code, body := fuzzed(t, transport, path, query)
	if code != http.StatusOK {
		t.Fatalf("%v: %d %s", query, code, body)
	}
	there := map[string]bool{}
	for line := range strings.Lines(string(body)) {
		var e frame
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %q: %v", query, line, err)
		}
		name := e.Object.Metadata.Name
		if known := e.Type == "ADDED" || e.Type == "MODIFIED" || e.Type == "DELETED"; !known || there[name] != (e.Type != "ADDED") {
			t.Fatalf("%v: %s, and there was %v", query, line, there)
		}
		if there[name] = true; e.Type == "DELETED" {
			delete(there, name)
		}
	}
	return slices.Sorted(maps.Keys(there))
}

func names(t *testing.T, body []byte) (names []string) {
	t.Helper()
	var l metav1.PartialObjectMetadataList
	if err := json.Unmarshal(body, &l); err != nil {
		t.Fatal(err)
	}
	for _, i := range l.Items {
		names = append(names, i.Name)
	}
	return names
}

// happened is a change: its type and the object's name.
type happened struct {
	version int64
	what    string
}

// shortHistory is how many changes are kept at least where it is to be too short.
const shortHistory = 4

// FuzzWatchResume: a watch from any version, with any parameters, is refused, ends with an error that is a Status,
// or tells exactly what happened after that version. That it is too old is told only when it is.
func FuzzWatchResume(f *testing.F) {
	for _, version := range []string{"", "0", "1", "-1", "x", "5", "007", "13", "18446744073709551616"} {
		f.Add(version, "true", "NotOlderThan", "true", "", false)
		f.Add(version, "", "", "false", "", true)
		f.Add(version, "false", "Exact", "1", "7", true)
		f.Add(version, "x", "x", "x", "x", false)
		f.Add(version, "", "", "", "", false)
	}
	f.Fuzz(func(t *testing.T, version, initial, match, bookmarks, limit string, short bool) {
		history := 0
		if short {
			history = shortHistory
		}
		inBubble(t, history, func(t *testing.T, transport http.RoundTripper) {
			resume(t, transport, live(t, transport), []string{version, initial, match, bookmarks, limit}, short)
		})
	})
}

// live makes changes of all types.
func live(t *testing.T, transport http.RoundTripper) (changes []happened) {
	t.Helper()
	const path = "/api/v1/namespaces/w/configmaps"
	for n, name := range strings.Fields("a b c d a b -a c a -d e -b f e") {
		name, deleted := strings.CutPrefix(name, "-")
		what, method, to := "MODIFIED", http.MethodPut, path+"/"+name
		switch code, _ := fuzzed(t, transport, to, nil); {
		case deleted:
			what, method = "DELETED", http.MethodDelete
		case code == http.StatusNotFound:
			what, method, to = "ADDED", http.MethodPost, path
		}
		write(t, transport, method, to, `{"metadata":{"name":"`+name+`"},"data":{"n":"`+strconv.Itoa(n)+`"}}`)
		_, body := fuzzed(t, transport, path, nil)
		var l metav1.PartialObjectMetadataList
		if err := json.Unmarshal(body, &l); err != nil {
			t.Fatal(err)
		}
		version, err := strconv.ParseInt(l.ResourceVersion, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, happened{version, what + " " + name})
	}
	return changes
}

// write makes a change, without a body if it deletes.
func write(t *testing.T, transport http.RoundTripper, method, path, body string) {
	t.Helper()
	if method == http.MethodDelete {
		body = ""
	}
	r := httptest.NewRequestWithContext(t.Context(), method, "http://in.process"+path, nil)
	if code, _, answer := send(t, transport, r, "application/json", body); code >= 300 {
		t.Fatalf("%s %s: %s", method, path, answer)
	}
}

// stateAfter is what changes have come to, as additions by name.
func stateAfter(changes []happened) (state []happened) {
	last := map[string]happened{}
	for _, c := range changes {
		what, name, _ := strings.Cut(c.what, " ")
		last[name] = happened{c.version, "ADDED " + name}
		if what == "DELETED" {
			delete(last, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		state = append(state, last[name])
	}
	return state
}

// resume watches, and compares with the changes that there were.
func resume(t *testing.T, transport http.RoundTripper, changes []happened, parameters []string, short bool) {
	t.Helper()
	version, initial := parameters[0], parameters[1]
	query := url.Values{"watch": {"1"}, "timeoutSeconds": {"1"}, "resourceVersion": {version}}
	for name, value := range map[string]string{"sendInitialEvents": initial, "resourceVersionMatch": parameters[2], "allowWatchBookmarks": parameters[3], "limit": parameters[4]} {
		if value != "" {
			query.Set(name, value)
		}
	}
	code, body := fuzzed(t, transport, "/api/v1/namespaces/w/configmaps", query)
	if code != http.StatusOK {
		return
	}
	after, _ := strconv.ParseInt(version, 10, 64)
	var want []happened
	for _, c := range changes {
		if c.version > after {
			want = append(want, c)
		}
	}
	no := initial == "0" || strings.EqualFold(initial, "false") // whatever else there is, means yes
	switch fromState := version == "" || after == 0; {
	case no && fromState:
		want = nil
	case initial != "" && !no, fromState:
		want = stateAfter(changes)
	}
	got, failed := told(t, body)
	switch {
	case failed == http.StatusGone && (!short || len(want) <= shortHistory):
		t.Errorf("%v: too old, of %d changes", query, len(want))
	case failed == 0 && !slices.Equal(got, want):
		t.Errorf("%v: told of %v, want %v", query, got, want)
	}
}

// told is what a stream says that happened, and the code of the error that it ends with.
func told(t *testing.T, stream []byte) (got []happened, failed int32) {
	t.Helper()
	for line := range strings.Lines(string(stream)) {
		var e frame
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch e.Type {
		case "ERROR":
			if e.Object.Kind != "Status" || e.Object.Code < 400 {
				t.Errorf("no Status: %s", line)
			}
			return got, e.Object.Code
		case "ADDED", "MODIFIED", "DELETED":
			n, err := strconv.ParseInt(e.Object.Metadata.ResourceVersion, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, happened{n, e.Type + " " + e.Object.Metadata.Name})
		case "BOOKMARK":
		default:
			t.Errorf("what is %s", line)
		}
	}
	return got, 0
}

// putConfigMap creates one and returns its version.
func putConfigMap(t testing.TB, transport http.RoundTripper, namespace, name string) int64 {
	t.Helper()
	code, body := postTo(t, transport, "/api/v1/namespaces/"+namespace+"/configmaps", `{"metadata":{"name":"`+name+`"}}`)
	if code != http.StatusCreated {
		t.Fatal(body)
	}
	var m metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(m.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func postTo(t testing.TB, transport http.RoundTripper, path, body string) (int, string) {
	t.Helper()
	code, _, answer := send(t, transport, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://in.process"+path, nil), "application/json", body)
	return code, answer
}
