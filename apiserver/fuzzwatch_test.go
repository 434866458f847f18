package apiserver_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
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

// FuzzSelectors: a selector is refused, or selects the same by an index, by a page and by a watch.
func FuzzSelectors(f *testing.F) {
	config := serve(f)
	for n := range 12 {
		body := `{"metadata":{"name":"c` + strconv.Itoa(n) + `","labels":{"a":"` + strconv.Itoa(n%3) + `","b":"x"}}}`
		if code, answer := postTo(f, config.Transport, "/api/v1/namespaces/default/configmaps", body); code != http.StatusCreated {
			f.Fatal(answer)
		}
	}
	for _, s := range [][2]string{
		{"a=1", ""}, {"a in (1,2),b", "metadata.name=c1"}, {"!a", "metadata.name!=c1"}, {"a notin (1)", "metadata.namespace=default"}, {"a>0", "metadata.name=c1,metadata.name=c2"},
		{"a in ()", `metadata.name=a\,b`}, {"a==1,a=2", "x=y"}, {",", ","}, {"a in (1", "="}, {"a=1,b=x", ""},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, labels, fields string) {
		query := url.Values{"labelSelector": {labels}, "fieldSelector": {fields}}
		const path = "/api/v1/namespaces/default/configmaps"
		code, body := fuzzed(t, config.Transport, path, query)
		if code != http.StatusOK {
			return
		}
		want := names(t, body)
		var paged []string
		query.Set("limit", "2")
		for {
			_, body := fuzzed(t, config.Transport, path, query)
			paged = append(paged, names(t, body)...)
			var l metav1.PartialObjectMetadataList
			if err := json.Unmarshal(body, &l); err != nil {
				t.Fatal(err)
			}
			if l.Continue == "" {
				break
			}
			query.Set("continue", l.Continue)
		}
		if !slices.Equal(paged, want) {
			t.Errorf("%q %q: pages have %v, the list %v", labels, fields, paged, want)
		}
	})
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

// FuzzWatchResume: a watch from any version, with any parameters, is refused, ends with an error that is a Status,
// or tells exactly what happened after that version.
func FuzzWatchResume(f *testing.F) {
	for _, version := range []string{"", "0", "1", "-1", "x", "5", "007", "13", "18446744073709551616"} {
		f.Add(version, "true", "NotOlderThan", "true", "")
		f.Add(version, "", "", "false", "")
		f.Add(version, "false", "Exact", "1", "7")
		f.Add(version, "x", "x", "x", "x")
	}
	f.Fuzz(func(t *testing.T, version, initial, match, bookmarks, limit string) {
		inBubble(t, 0, func(t *testing.T, transport http.RoundTripper) {
			var versions []int64 // of the changes that there were
			for n := range 12 {
				versions = append(versions, putConfigMap(t, transport, "w", "c"+strconv.Itoa(n)))
			}
			resume(t, transport, versions, []string{version, initial, match, bookmarks, limit})
		})
	})
}

// resume watches, and compares with the versions that there were.
func resume(t *testing.T, transport http.RoundTripper, versions []int64, parameters []string) {
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
	var got []int64
	for line := range strings.Lines(string(body)) {
		var e frame
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %q: %v", query, line, err)
		}
		switch e.Type {
		case "ERROR":
			if e.Object.Kind != "Status" || e.Object.Code < 400 {
				t.Errorf("%v: %s", query, line)
			}
			return
		case "ADDED":
			n, err := strconv.ParseInt(e.Object.Metadata.ResourceVersion, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, n)
		case "BOOKMARK":
		default:
			t.Errorf("%v: %s", query, line)
		}
	}
	slices.Sort(got) // the state that a watch begins with is in the order of names
	after, _ := strconv.ParseInt(version, 10, 64)
	var want []int64
	state := version == "" || after == 0
	for _, v := range versions {
		if state || initial == "true" || v > after {
			want = append(want, v)
		}
	}
	if send, err := strconv.ParseBool(initial); err == nil && !send && state {
		want = nil
	} else if err == nil && send {
		want = versions
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v: told of %v, want %v", query, got, want)
	}
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
