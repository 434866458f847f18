package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry/codec"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// few is the number of namespaces, nodes and applications that requests choose from, in each world: their objects stay
// encoded, like those that many clients request.
const few = 10

// asking is a client of a world's server.
type asking struct {
	*world
	way    http.RoundTripper
	base   string
	random *rand.Rand
}

// call sends a request and reads the whole response.
func (a *asking) call(ctx context.Context, method, path, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, a.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", protobuf)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.way.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, data)
	}
	return data, err
}

// question is a request to measure. ask returns the list in the response, if it is one.
type question struct {
	what    string
	objects func(pods int) int // the expected number of objects; nil means one object
	ask     func(ctx context.Context, a *asking) ([]byte, error)
	after   func(ctx context.Context, a *asking) error // not timed
}

func constant(n int) func(int) int { return func(int) int { return n } }

func list(path func(a *asking) string) func(context.Context, *asking) ([]byte, error) {
	return func(ctx context.Context, a *asking) ([]byte, error) { return a.call(ctx, http.MethodGet, path(a), "") }
}

func namespaced(a *asking) string {
	return "/api/v1/namespaces/" + namespaceName(a.random.IntN(few)) + "/pods"
}

// questions returns what is measured in each world.
func questions() []question {
	return []question{
		{what: "get", ask: list(func(a *asking) string {
			p := pod(a.pods, a.random.IntN(few*perNamespace))
			return "/api/v1/namespaces/" + p.Namespace + "/pods/" + p.Name
		})},
		{what: "create, durable", ask: create, after: remove},
		{what: "list a namespace", objects: constant(perNamespace), ask: list(namespaced)},
		{what: "list a node's", objects: constant(perNode), ask: list(func(a *asking) string {
			return "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-" + strconv.Itoa(a.random.IntN(few))
		})},
		{what: "list by a label", objects: constant(perApp), ask: list(func(a *asking) string {
			return "/api/v1/pods?labelSelector=app.kubernetes.io/name%3Dapp-" + strconv.Itoa(a.random.IntN(few))
		})},
		{what: "list a namespace by a label that half of all have", objects: constant(perNamespace / 2), ask: list(func(a *asking) string {
			return namespaced(a) + "?labelSelector=tier%3Dweb"
		})},
		{what: "page of 500, with how many remain", objects: constant(500), ask: page("")},
		{what: "page of 20 by a label", objects: constant(20), ask: page("&labelSelector=app.kubernetes.io/name%3Dapp-3")},
	}
}

const newPod = `{"metadata":{"name":"new"},"spec":{"nodeName":"node-1","containers":[{"name":"c","image":"nginx"}]}}`

func create(ctx context.Context, a *asking) ([]byte, error) {
	_, err := a.call(ctx, http.MethodPost, "/api/v1/namespaces/team-0003/pods", newPod)
	return nil, err
}

func remove(ctx context.Context, a *asking) error {
	_, err := a.call(ctx, http.MethodDelete, "/api/v1/namespaces/team-0003/pods/new?gracePeriodSeconds=0", "")
	return err
}

// page requests a page from the second quarter of the list.
func page(selector string) func(context.Context, *asking) ([]byte, error) {
	return func(ctx context.Context, a *asking) ([]byte, error) {
		limit := 500
		if selector != "" {
			limit = 20
		}
		return a.call(ctx, http.MethodGet, "/api/v1/pods?limit="+strconv.Itoa(limit)+"&continue="+a.token(a.registry.Revision())+selector, "")
	}
}

func (a *asking) pageAt(ctx context.Context, revision int64) ([]byte, error) {
	return a.call(ctx, http.MethodGet, "/api/v1/pods?limit=500&continue="+a.token(revision), "")
}

// token is what the server itself returns to continue a list.
func (a *asking) token(revision int64) string {
	start := namespaceName(a.pods/perNamespace/4) + "/\x00"
	data, _ := json.Marshal(map[string]any{"v": "meta.k8s.io/v1", "rv": revision, "start": start}) //nolint:errchkjson // strings and a number marshal
	return url.QueryEscape(base64.RawURLEncoding.EncodeToString(data))
}

// count returns the number of objects in a list.
func count(data []byte) (*corev1.PodList, error) {
	var l corev1.PodList
	_, err := codec.Decode(data, &l)
	return &l, err
}

// check asks a question once, and checks the answer.
func (a *asking) check(ctx context.Context, q question) error {
	data, err := q.ask(ctx, a)
	if err != nil {
		return fmt.Errorf("%s of %d pods: %w", q.what, a.pods, err)
	}
	if q.after != nil {
		if err := q.after(ctx, a); err != nil {
			return err
		}
	}
	if q.objects == nil {
		return nil
	}
	l, err := count(data)
	if err != nil {
		return err
	}
	if want := q.objects(a.pods); len(l.Items) != want {
		return fmt.Errorf("%s of %d pods: %d objects came, want %d", q.what, a.pods, len(l.Items), want)
	}
	return nil
}

// measured holds the times of one question in one world, per object of its answer.
type measured struct{ samples []time.Duration }

func (m *measured) median() time.Duration {
	if len(m.samples) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(m.samples))
	return s[len(s)/2]
}

// measure asks all worlds in turn: other load on the machine affects them alike.
func measure(ctx context.Context, q question, all []*asking, rounds int) ([]measured, error) {
	results := make([]measured, len(all))
	for _, a := range all {
		for range min(few*3, rounds) { // these objects have been requested before
			if err := a.check(ctx, q); err != nil {
				return nil, err
			}
			if q.after != nil {
				break
			}
		}
	}
	for range rounds {
		for i, a := range all {
			began := time.Now()
			if _, err := q.ask(ctx, a); err != nil {
				return nil, err
			}
			took := time.Since(began)
			if q.objects != nil {
				took /= time.Duration(q.objects(a.pods))
			}
			results[i].samples = append(results[i].samples, took)
			if q.after != nil {
				if err := q.after(ctx, a); err != nil {
					return nil, err
				}
			}
		}
	}
	return results, nil
}

// churn changes pods, that many times in all.
func (a *asking) churn(ctx context.Context, changes int) error {
	var writers sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		p := pod(a.pods, 5*perNamespace+i)
		path := "/api/v1/namespaces/" + p.Namespace + "/pods/" + p.Name
		writers.Go(func() {
			for n := range changes / len(errs) {
				patch := fmt.Sprintf(`{"metadata":{"annotations":{"changed":"%d"}}}`, n)
				r, err := http.NewRequestWithContext(ctx, http.MethodPatch, a.base+path, bytes.NewReader([]byte(patch)))
				if err != nil {
					errs[i] = err
					return
				}
				r.Header.Set("Content-Type", "application/merge-patch+json")
				resp, err := a.way.RoundTrip(r)
				if err != nil {
					errs[i] = err
					return
				}
				if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
					errs[i] = fmt.Errorf("change a pod: %s", resp.Status)
					return
				}
			}
		})
	}
	writers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// pods is the resource that all measurements use.
func pods() schema.GroupResource { return schema.GroupResource{Resource: "pods"} }
