package aggregator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"

	"github.com/keelson-dev/keelson/apiserver/aggregator"
	"github.com/keelson-dev/keelson/authn"
)

const (
	ownSwagger = `{"swagger":"2.0","info":{"title":"own","version":"1"},"paths":{"/apis/apps/v1/":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Thing"}}}}}},"definitions":{"Thing":{"type":"string"}}}`
	// The server's document is also of a version that is not its APIService's, and names another definition Thing.
	otherSwagger = `{"swagger":"2.0","info":{"title":"other","version":"2"},"paths":{` +
		`"/apis/example.com/v1/":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Thing"}}}}},` +
		`"/apis/apps/v1/":{"get":{"responses":{"200":{"description":"evil"}}}},"/apis/example.com/v10/":{"get":{"responses":{"200":{"description":"evil","schema":{"$ref":"#/definitions/Unused"}}}}}},` +
		`"definitions":{"Thing":{"type":"integer"},"Unused":{"type":"string"}}}`
)

// server answers for another server: its document of OpenAPI v2, which has an entity tag, and nothing in discovery.
type server struct {
	document, etag string
	code           int
	err            error
	asked          []string // If-None-Match, and who
}

func (s *server) answer(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Path == "/apis":
		return answer(200, aggregated, strings.NewReader("{}")), nil
	case r.URL.Path != "/openapi/v2":
		return answer(404, "text/plain", strings.NewReader("")), nil
	case s.err != nil:
		return nil, s.err
	}
	s.asked = append(s.asked, r.Header.Get("If-None-Match")+" "+r.Header.Get("X-Remote-User")+" "+r.Header.Get("Accept"))
	code := s.code
	if s.etag != "" && r.Header.Get("If-None-Match") == s.etag {
		code = http.StatusNotModified
	}
	a := answer(code, "application/json", strings.NewReader(s.document))
	a.Header.Set("Etag", s.etag)
	return a, nil
}

// TestSwagger: the document of OpenAPI v2 has what other servers say of their versions, and is made anew when that changes.
func TestSwagger(t *testing.T) {
	remote := &server{document: otherSwagger, etag: `"1"`, code: 200}
	a := withLocal(service(), remote.answer)
	made := 0
	paths := map[string]http.Handler{"/openapi/v2": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if w.Header().Set("Etag", `"own"`); r.Header.Get("If-None-Match") == `"own"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		made++
		_, _ = io.WriteString(w, ownSwagger)
	})}
	a.OpenAPI(paths)
	get := func(header ...string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/openapi/v2", nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		paths["/openapi/v2"].ServeHTTP(w, r.WithContext(authn.NewContext(r.Context(), &authn.Identity{Name: "ann"})))
		return w
	}
	expect := func(what string, w *httptest.ResponseRecorder, want ...string) {
		t.Helper()
		var d struct {
			Info        struct{ Title string }
			Paths       map[string]any
			Definitions map[string]struct{ Type string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
			t.Fatalf("%s: %d %s: %v", what, w.Code, w.Body, err)
		}
		got := []string{d.Info.Title}
		for path, item := range d.Paths {
			text := fmt.Sprint(item)
			_, ref, _ := strings.Cut(text, "#/definitions/")
			ref, _, _ = strings.Cut(ref, "]")
			got = append(got, path+" "+ref)
		}
		for name, d := range d.Definitions {
			got = append(got, name+" "+d.Type)
		}
		slices.Sort(got[1:])
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	refresh := func() {
		t.Helper()
		if err := a.Refresh(t.Context(), "v1.example.com"); err != nil {
			t.Fatal(err)
		}
	}
	own := []string{"own", "/apis/apps/v1/ Thing", "Thing string"}
	both := []string{"own", "/apis/apps/v1/ Thing", "/apis/example.com/v1/ Thing_v2", "Thing string", "Thing_v2 integer"}
	if w := get(); w.Body.String() != ownSwagger {
		t.Errorf("without others: %s", w.Body)
	}
	refresh()
	first := get()
	expect("with another", first, both...)
	if !slices.Equal(remote.asked, []string{" system:aggregator application/json"}) {
		t.Errorf("asked %q", remote.asked)
	}
	refresh()
	again := get("If-None-Match", first.Header().Get("Etag"))
	if again.Code != http.StatusNotModified || made != 2 || !strings.HasPrefix(remote.asked[1], `"1" `) {
		t.Errorf("unchanged: %d, made %d times, asked %q", again.Code, made, remote.asked)
	}
	compressed := get("Accept-Encoding", "gzip", "Accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
	if compressed.Header().Get("Content-Encoding") != "gzip" || made != 2 {
		t.Errorf("compressed: %v, made %d times", compressed.Header(), made)
	}
	message, document := get("Accept", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"), &openapi_v2.Document{}
	if err := proto.Unmarshal(message.Body.Bytes(), document); err != nil || len(document.GetPaths().GetPath()) != 2 {
		t.Errorf("protobuf: %v, %v", err, document)
	}

	remote.document, remote.etag = strings.ReplaceAll(otherSwagger, `"integer"`, `"string"`), `"2"`
	refresh()
	changed := get()
	expect("changed", changed, "own", "/apis/apps/v1/ Thing", "/apis/example.com/v1/ Thing", "Thing string")
	if changed.Header().Get("Etag") == first.Header().Get("Etag") {
		t.Error("it is another document with the same tag")
	}
	remote.err = errors.New("mute")
	refresh()
	expect("mute", get(), "own", "/apis/apps/v1/ Thing", "/apis/example.com/v1/ Thing", "Thing string")
	remote.err = nil
	for name, bad := range map[string]server{
		"gone":      {code: 404},
		"malformed": {code: 200, document: "{"},
		"no paths":  {code: 200, document: `{"definitions":{"Thing":{"type":"integer"}}}`},
		"large":     {code: 200, document: strings.Repeat(" ", 9<<20)},
	} {
		remote.document, remote.etag, remote.code = bad.document, "", bad.code
		refresh()
		if name != "large" { // it is a failure like any other: what was known stays
			expect(name, get(), own...)
		}
		remote.document, remote.etag, remote.code = otherSwagger, `"3"`, 200
		refresh()
		expect("after "+name, get(), both...)
	}
}

// TestSwaggerOrder: of servers that mean different things by a name, that of the higher priority keeps it.
func TestSwaggerOrder(t *testing.T) {
	low, high := service(), service()
	all := services{}
	for i, s := range []services{low, high} {
		of, _ := s.Get("", "v1.example.com")
		of = of.DeepCopy()
		of.Name, of.Spec.Group = fmt.Sprintf("v1.g%d.example.com", i), fmt.Sprintf("g%d.example.com", i)
		of.Spec.GroupPriorityMinimum, of.Spec.Service.Name = int32(100+i), fmt.Sprint("s", i)
		all[of.Name] = of
	}
	a := aggregator.New(all, resolver(""), aggregator.Options{Local: func(_, name string) http.RoundTripper {
		group, kind := "g0.example.com", "integer"
		if name == "s1" {
			group, kind = "g1.example.com", "boolean"
		}
		text := strings.ReplaceAll(strings.ReplaceAll(otherSwagger, "/example.com", "/"+group), `"integer"`, `"`+kind+`"`)
		return local((&server{document: text, code: 200}).answer)
	}})
	for name := range all {
		if err := a.Refresh(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	paths := map[string]http.Handler{"/openapi/v2": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, ownSwagger) })}
	a.OpenAPI(paths)
	w := httptest.NewRecorder()
	paths["/openapi/v2"].ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi/v2", nil))
	var d struct {
		Definitions map[string]struct{ Type string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(d.Definitions); got != "map[Thing:{string} Thing_v2:{boolean} Thing_v3:{integer}]" {
		t.Errorf("definitions %s", got)
	}
}

// FuzzSwagger: whatever a server's document is, there is one with the own paths.
func FuzzSwagger(f *testing.F) {
	f.Add(otherSwagger)
	f.Add(`{"paths":{"/apis/example.com/v1/":null},"definitions":{"Thing":null},"parameters":{"a":null}}`)
	f.Add(`{"paths":{"/apis/example.com/v1/":{}},"definitions":{"Thing":{"type":"string","x-kubernetes-group-version-kind":[{"group":"a"}]}}}`)
	f.Add(`{"paths":{"/apis/example.com/v1/":{}},"definitions":{"Thing":{"type":"string","x-kubernetes-group-version-kind":"x"}}}`)
	f.Fuzz(func(t *testing.T, document string) {
		a := withLocal(service(), (&server{document: document, code: 200}).answer)
		if err := a.Refresh(t.Context(), "v1.example.com"); err != nil {
			t.Fatal(err)
		}
		paths := map[string]http.Handler{"/openapi/v2": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, ownSwagger) })}
		a.OpenAPI(paths)
		w := httptest.NewRecorder()
		paths["/openapi/v2"].ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi/v2", nil))
		var d struct{ Paths map[string]any }
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || d.Paths["/apis/apps/v1/"] == nil {
			t.Errorf("%d %s, %v", w.Code, w.Body, err)
		}
	})
}
