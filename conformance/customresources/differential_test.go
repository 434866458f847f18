package customresources_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	cases   = flag.Int("cases", 3000, "number of requests to compare")
	seed    = flag.Uint64("seed", 1, "seed of the definitions and requests")
	workers = flag.Int("workers", 3, "number of definitions at a time")
	mostly  = flag.Int("differences", 12, "number of kinds of differences to show in full")
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// comparison is what the sessions share.
type comparison struct {
	servers  [2]*server // keelson, upstream
	requests int        // for each state of a definition

	mu         sync.Mutex
	done       int
	outcomes   map[string]int
	classes    map[string]int
	examples   []string
	unsteadily int
	failures   map[string]int
}

// TestDifferential compares the answers to random requests.
func TestDifferential(t *testing.T) {
	c := &comparison{requests: 60, outcomes: map[string]int{}, classes: map[string]int{}, failures: map[string]int{}}
	c.servers = [2]*server{startKeelson(t), startUpstream(t)}
	for _, s := range c.servers {
		body := encode(m{"apiVersion": "v1", "kind": "Namespace", "metadata": m{"name": "default"}})
		if _, err := s.send(t.Context(), request{method: http.MethodPost, path: "/api/v1/namespaces", body: body}, ""); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	next, failures := make(chan uint64), make(chan error, *workers)
	var group sync.WaitGroup
	for range *workers {
		group.Go(func() {
			for i := range next {
				r := random{rand.New(rand.NewPCG(*seed, i))} //nolint:gosec // reproducible
				s := &session{random: r, comparison: c, d: define(r, fmt.Sprint("r", i)), objects: map[string]*object{}}
				if err := s.run(t.Context()); err != nil {
					failures <- fmt.Errorf("definition %d: %w", i, err)
					return
				}
			}
		})
	}
	for i := uint64(0); c.soFar() < *cases; i++ {
		select {
		case next <- i:
			continue
		case err := <-failures:
			t.Error(err)
		}
		break
	}
	close(next)
	group.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	c.summarize(t, time.Since(begin))
}

func (c *comparison) soFar() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// count counts what came of a request, so that requests to which nothing happens are noticed.
func (c *comparison) count(r request, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	op := strings.Fields(r.what)[0]
	c.outcomes[fmt.Sprintf("%s %d", op, a.code)]++
	if len(a.warnings) > 0 {
		c.outcomes["warned"]++
	}
	if r.method == http.MethodGet {
		return
	}
	if a.code >= http.StatusBadRequest {
		c.outcomes["refused"]++
		return
	}
	c.outcomes["accepted"]++
	var sent m
	if (r.what == "create" || strings.HasPrefix(r.what, "update")) && json.Unmarshal(r.body, &sent) == nil {
		got := clone(a.object())
		delete(sent, "metadata")
		delete(got, "metadata")
		if lacks(got, sent) {
			c.outcomes["pruned"]++
		}
		if lacks(sent, got) {
			c.outcomes["defaulted"]++
		}
	}
}

// lacks returns whether a value has no field that another has.
func lacks(in, all any) bool {
	switch all := all.(type) {
	case m:
		in, ok := in.(m)
		for k := range all {
			v, has := in[k]
			if ok && !has || lacks(v, all[k]) {
				return true
			}
		}
	case l:
		in, _ := in.(l)
		for i := range min(len(all), len(in)) {
			if lacks(in[i], all[i]) {
				return true
			}
		}
	}
	return false
}

// unstable counts a difference that goes when the request is sent again.
func (c *comparison) unstable() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsteadily++
}

// failed counts a request that upstream's server does not survive, or calls an internal error.
func (c *comparison) failed(r request, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := fmt.Sprintf("%s: %d %s", r.what, a.code, brief(a))
	if c.failures[kind]++; c.failures[kind] == 1 && a.code == 0 {
		c.examples = append(c.examples, fmt.Sprintf("upstream panics: %s", r))
	}
}

// report records a difference; the first of its kind with its smallest request.
func (c *comparison) report(ctx context.Context, s *session, r request, a [2]answer, versions [2]string) {
	kind := class(r, a[0], a[1])
	c.mu.Lock()
	c.classes[kind]++
	first := c.classes[kind] == 1 && len(c.examples) < *mostly
	c.mu.Unlock()
	if !first {
		return
	}
	if strings.Contains(r.path, "dryRun=All") {
		r, a = c.shrink(ctx, r, a, versions)
	}
	about := ""
	if !strings.Contains(r.what, "define") {
		about = "\nthe definition: " + text(s.d.object)
		for _, o := range s.objects {
			if strings.Contains(r.path, o.name) {
				about += "\nis stored: " + text(o.content)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.examples = append(c.examples, fmt.Sprintf("%s\n%v%s\nkeelson: %d %q %s\nupstream: %d %q %s\n(-keelson +upstream)\n%s", kind, r, about,
		a[0].code, a[0].warnings, a[0].raw, a[1].code, a[1].warnings, a[1].raw, differences(a[0], a[1])))
}

// shrink removes what a difference does not need from a request.
func (c *comparison) shrink(ctx context.Context, r request, a [2]answer, versions [2]string) (request, [2]answer) {
	kind := class(r, a[0], a[1])
	for tries, progress := 0, true; progress && tries < 400; {
		progress = false
		for i := 0; tries < 400; i++ {
			var body m
			if json.Unmarshal(r.body, &body) != nil {
				return r, a
			}
			var all []func()
			places(body, func(p place) {
				if p.drop != nil {
					all = append(all, p.drop)
				} else if list, ok := p.value.(l); ok && len(list) > 0 {
					all = append(all, func() { p.set(list[1:]) })
				}
			})
			if i >= len(all) {
				break
			}
			all[i]()
			smaller := r
			smaller.body = encode(body)
			tries++
			b, err := c.ask(ctx, smaller, versions)
			if err == nil && !same(b) && class(smaller, b[0], b[1]) == kind {
				r, a, progress = smaller, b, true
				i--
			}
		}
	}
	return r, a
}

// summarize reports the differences, and fails if little was tried.
func (c *comparison) summarize(t *testing.T, took time.Duration) {
	t.Helper()
	t.Logf("%d requests, seed %d, %.0f s; %d answers that varied", c.done, *seed, took.Seconds(), c.unsteadily)
	for _, k := range slices.Sorted(maps.Keys(c.outcomes)) {
		t.Logf("%6d %s", c.outcomes[k], k)
	}
	for _, k := range []string{"accepted", "refused", "pruned", "defaulted", "warned"} {
		if c.outcomes[k] < c.done/100 {
			t.Errorf("only %d of %d requests were %s: the generator tests little", c.outcomes[k], c.done, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.failures)) {
		t.Logf("%6d times upstream fails: %s", c.failures[k], k)
	}
	if len(c.classes) == 0 {
		return
	}
	for _, e := range c.examples {
		t.Errorf("-seed %d: %s", *seed, e)
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.classes), func(a, b string) int { return c.classes[b] - c.classes[a] }) {
		t.Errorf("%d times %s", c.classes[k], k)
	}
}
