package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// steps counts what a request has had done, each of which takes a second, or the first as long as it is told.
type steps struct {
	first time.Duration
	done  []string
}

func (s *steps) step(name string) {
	wait := time.Second
	if s.first > 0 {
		wait, s.first = s.first, 0
	}
	time.Sleep(wait)
	s.done = append(s.done, name)
}

// toil is a server of config maps of which everything takes its time, with one seat for those who write and
// 100 objects.
func toil(t *testing.T, s *steps) http.Handler {
	t.Helper()
	kinds := core.Kinds(core.Options{})
	working := false
	work := func(name string) {
		if working {
			s.step(name)
		}
	}
	for i := range kinds {
		if k := &kinds[i]; k.Plural == "configmaps" {
			k.Rules.Default = func(registry.Object) { work("default") }
			prepare := k.Rules.PrepareCreate
			k.Rules.PrepareCreate = func(ctx context.Context, obj registry.Object) {
				work("prepare")
				if prepare != nil {
					prepare(ctx, obj)
				}
			}
			k.Fields = func(registry.Object) fields.Set { work("match"); return fields.Set{"a": "b"} }
			k.Columns = registry.Columns[registry.Object]{
				Definitions: []metav1.TableColumnDefinition{registry.NameColumn()},
				Cells:       func(o registry.Object, _ time.Time) []any { work("row"); return []any{o.GetName()} },
			}
		}
	}
	reg, err := registry.New(memory.New(memory.Options{}), kinds, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	server := apiserver.New(reg, apiserver.Options{
		Authorizer: alwaysallow.New(), FlowControl: seats(1),
		Authenticator: authn.Func(func(*http.Request) (*authn.Identity, error) { return &authn.Identity{Name: "ann"}, nil }),
		Admission: admission.Chain{
			admission.MutatorFunc("a", func(context.Context, *admission.Request) error { work("mutate"); return nil }, admission.Create, admission.Update),
			admission.MutatorFunc("b", func(context.Context, *admission.Request) error { work("mutate again"); return nil }, admission.Create, admission.Update),
			admission.ValidatorFunc("c", func(context.Context, *admission.Request) error { work("judge"); return nil }, admission.Create, admission.Update, admission.Delete),
		},
	})
	for i := range 100 {
		if w := await(server, http.MethodPost, toilPath, fmt.Sprintf(`{"metadata":{"name":"a%02d"}}`, i)); w.Code != http.StatusCreated {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	working = true
	return server
}

const toilPath = "/api/v1/namespaces/default/configmaps"

func await(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestOvertime: what is left of a request that was answered with 504 is not done, and its seat is given back when
// the step ends that it was in.
func TestOvertime(t *testing.T) {
	const long = 3 * time.Minute
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		first              time.Duration // how long the first step takes
		want               string        // the steps that are done
	}{
		"defaults":  {http.MethodPost, toilPath, `{"metadata":{"name":"b"}}`, nil, long, "default"},
		"admission": {http.MethodPost, toilPath + "?timeout=2500ms", `{"metadata":{"name":"b"}}`, nil, 0, "default, mutate, mutate again"},
		"mutation":  {http.MethodPost, toilPath + "?timeout=1500ms", `{"metadata":{"name":"b"}}`, nil, 0, "default, mutate"},
		"prepare":   {http.MethodPost, toilPath + "?timeout=3500ms", `{"metadata":{"name":"b"}}`, nil, 0, "default, mutate, mutate again, prepare"},
		"update":    {http.MethodPut, toilPath + "/a00?timeout=1500ms", `{"metadata":{"name":"a00"},"data":{"a":"b"}}`, nil, 0, "default, mutate"},
		"write":     {http.MethodPut, toilPath + "/a00?timeout=3500ms", `{"metadata":{"name":"a00"},"data":{"a":"b"}}`, nil, 0, "default, mutate, mutate again, judge"},
		"rows":      {http.MethodGet, toilPath + "?timeout=2500ms", "", []string{"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}, 0, "row, row, row"},
		"rows, YAML": {http.MethodGet, toilPath + "?timeout=2500ms", "",
			[]string{"Accept", "application/yaml;as=Table;v=v1;g=meta.k8s.io"}, 0, "row, row, row"},
		"rows, for people": {http.MethodGet, toilPath + "?timeout=2500ms&pretty=true", "",
			[]string{"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}, 0, "row, row, row"},
		"matches":    {http.MethodGet, toilPath + "?timeout=3500ms&fieldSelector=a!%3Dc", "", nil, 0, "match, match, match, match"},
		"collection": {http.MethodDelete, toilPath + "?timeout=2500ms", "", nil, 0, "judge, judge, judge"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &steps{}
				server := toil(t, s)
				s.first = c.first
				began := time.Now()
				w := await(server, c.method, c.path, c.body, c.header...)
				if w.Code != http.StatusGatewayTimeout || time.Since(began) > time.Minute {
					t.Errorf("%d %s after %v", w.Code, w.Body, time.Since(began))
				}
				if c.method != http.MethodGet {
					// The step goes on, and holds its seat.
					if w := await(server, http.MethodPost, toilPath, `{`); w.Code != http.StatusTooManyRequests {
						t.Errorf("while it works: %d", w.Code)
					}
				}
				time.Sleep(long)
				synctest.Wait()
				if got := strings.Join(s.done, ", "); got != c.want {
					t.Errorf("done: %s; want %s", got, c.want)
				}
				if w := await(server, http.MethodPost, toilPath, `{`); w.Code != http.StatusBadRequest {
					t.Errorf("when it is done: %d %s", w.Code, w.Body)
				}
				if w := await(server, http.MethodGet, toilPath+"/b", ""); c.method == http.MethodPost && w.Code != http.StatusNotFound {
					t.Errorf("it was stored: %d %s", w.Code, w.Body)
				}
			})
		})
	}
}
