package controllers_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/component/remote"
)

var (
	seed   = flag.Uint64("seed", 1, "of the histories")
	rounds = flag.Int("rounds", 20, "how many histories each controller gets")
	first  = flag.Int("first", 0, "the first of them")
	steps  = flag.Int("steps", 30, "how many steps each history has")
	show   = flag.Bool("show", false, "show what both leave after each step")
	trace  = flag.Bool("trace", false, "show what both write, and how that is answered")
)

// contest is a controller that exists twice.
type contest struct {
	names []string // of keelson's components
	// theirs makes upstream's controller and returns what runs it.
	theirs func(ctx context.Context, t *theirs) (run func(context.Context), err error)
	// begin makes what is there before the controller starts; step does one thing, chosen by chance.
	begin, step func(w *world)
	// written are the resources that the controller writes, besides events.
	written []schema.GroupVersionResource
	// nodes is set if nodes differ only by what they and their pods are: their names are then left out.
	nodes bool
	// uncounted are the reasons of events that upstream may record more often than it does what they say: when its cache
	// lags, it deletes again what has gone, and takes that for a success.
	uncounted []string
	// unheard are the reasons of events about what a controller's cache shows, which may lag; doubtful tells of others.
	unheard  []string
	doubtful func(w *world, e *corev1.Event) bool
	// arbitrary matches what upstream chooses by chance, after a group that stays.
	arbitrary *regexp.Regexp
	// pauses are how long it is quiet between two steps: seconds.
	pauses []int
	// alike, if set, takes away from an object in which the two differ on purpose.
	alike func(obj map[string]any)
	// settle, if set, is called a second before states are compared.
	settle func(w *world)
	// serve, if set, answers requests that the API server knows nothing of.
	serve func(w *world, r *http.Request) (*http.Response, bool)
}

// world is an API server in a bubble, in which a history happens to one of the two controllers.
type world struct {
	*testing.T
	*rand.Rand
	contest *contest
	api     kubernetes.Interface
	objects dynamic.Interface
	cluster *cluster.Cluster
	began   time.Time
	faults  faults
	log     []string // what was done
	serial  int      // for names
	notes   map[string]int
	data    sync.Map // what serve answers with
	// failures are when pods failed on a node, if contest.nodes is set.
	failures map[string]string
}

// moment is the state after a step.
type moment struct {
	log   []string
	state []object
}

// fraction is the part of a second at which users act: off the full seconds, at which controllers do.
const fraction = 253 * time.Millisecond

// pick returns one of its arguments.
func pick[T any](w *world, all ...T) T { return all[w.IntN(len(all))] }

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.IntN(n) == 0 }

// do notes what was done, with what the API server said, and lets the controller react to it.
func (w *world) do(what string, err error) {
	said := fmt.Sprintf("%v %s", time.Since(w.began).Truncate(time.Millisecond), what)
	if err != nil {
		said += ": " + err.Error()
	}
	w.log = append(w.log, w.plain(said))
	if *trace {
		w.Log(said)
	}
	synctest.Wait()
}

// must ends the test if there is an error.
func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("after %s: %v", strings.Join(w.log, "\n"), err)
	}
}

// next returns a new name.
func (w *world) next(prefix string) string {
	w.serial++
	return fmt.Sprintf("%s%d", prefix, w.serial)
}

// rest lets time pass: some seconds, and then until users may act.
func (w *world) rest(seconds int) {
	now := time.Since(w.began)
	time.Sleep((now.Truncate(time.Second) + time.Duration(seconds)*time.Second + fraction) - now)
	synctest.Wait()
}

// faults makes requests of the controller fail.
type faults struct {
	mu   sync.Mutex
	fail func(r *http.Request) (*http.Response, error)
}

// set makes requests fail until it is called with nil.
func (f *faults) set(fail func(*http.Request) (*http.Response, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *faults) answer(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail == nil {
		return nil, nil
	}
	return fail(r)
}

// wire is what a controller's requests go through.
type wire struct {
	http.RoundTripper
	w *world
}

func (c wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if serve := c.w.contest.serve; serve != nil {
		if answer, ok := serve(c.w, r); ok {
			return answer, nil
		}
	}
	answer, err := c.w.faults.answer(r)
	if answer == nil && err == nil {
		answer, err = c.RoundTripper.RoundTrip(r)
	}
	if *trace && r.Method != http.MethodGet && path.Base(r.URL.Path) != "events" {
		status := fmt.Sprint(err)
		if err == nil {
			status = answer.Status
		}
		c.w.Logf("%v   %s %s: %s", time.Since(c.w.began), r.Method, r.URL.Path, status)
	}
	return answer, err
}

// config returns the configuration of a controller.
func (w *world) config(id *authn.Identity) *rest.Config {
	config := w.cluster.ConfigFor(id)
	config.QPS = -1
	config.Transport = wire{config.Transport, w}
	return config
}

// named returns keelson's controllers of some names.
func named(t *testing.T, names ...string) []component.Component {
	t.Helper()
	all := slices.DeleteFunc(controllermanager.Components(), func(c component.Component) bool { return !slices.Contains(names, c.Name) })
	if len(all) != len(names) {
		t.Fatalf("%d controllers are called %v", len(all), names)
	}
	return all
}

// ours runs keelson's controller.
func (w *world) ours(context.Context) func(context.Context) {
	all := named(w.T, w.contest.names...)
	m, err := remote.New(w.config(cluster.Admin()), scheme.Scheme, all, remote.Options{
		As: func(id *authn.Identity) (*rest.Config, error) { return w.config(id), nil },
	})
	w.must(err)
	return func(ctx context.Context) { w.must(m.Run(ctx)) }
}

// theirs is what upstream's controllers are made from.
type theirs struct {
	w      *world
	shared informers.SharedInformerFactory
}

// config returns the configuration of a service account in kube-system.
func (u *theirs) config(account string) *rest.Config {
	config := u.w.config(authn.ServiceAccountIdentity("kube-system", account))
	config.ContentType = "application/json"
	config.Transport = &renaming{RoundTripper: config.Transport}
	return config
}

func (u *theirs) client(account string) kubernetes.Interface {
	client, err := kubernetes.NewForConfig(u.config(account))
	u.w.must(err)
	return client
}

// upstream runs upstream's controller.
func (w *world) upstream(ctx context.Context) func(context.Context) {
	u := &theirs{w: w}
	all, err := kubernetes.NewForConfig(w.config(cluster.Admin()))
	w.must(err)
	u.shared = informers.NewSharedInformerFactory(all, 0)
	run, err := w.contest.theirs(ctx, u)
	w.must(err)
	u.shared.Start(ctx.Done())
	return func(ctx context.Context) {
		run(ctx)
		u.shared.Shutdown()
	}
}

// play lets one history happen to one of the two.
func (c *contest) play(t *testing.T, round int, upstream bool) (all []moment) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := cluster.Start(t.Context(), cluster.Options{
			Components: named(t, "garbage-collector-controller"), Disable: []string{"ServiceAccount"}, Seed: seed,
			// The garbage collector acts some time after the controller, not at the same instant.
			Settle: 20 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{
			T: t, contest: c, cluster: server, began: time.Now().Truncate(time.Second), notes: map[string]int{}, failures: map[string]string{},
			Rand: rand.New(rand.NewPCG(*seed, uint64(round))),
		}
		w.api, err = kubernetes.NewForConfig(server.Config())
		w.must(err)
		w.objects, err = dynamic.NewForConfig(server.Config())
		w.must(err)
		if c.begin != nil {
			c.begin(w)
		}
		w.rest(1)
		ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
		var running sync.WaitGroup
		run := w.ours
		if upstream {
			run = w.upstream
		}
		start := run(ctx)
		running.Go(func() { start(ctx) })
		w.rest(9)
		for range *steps {
			for range 1 + w.IntN(2) {
				c.step(w)
				time.Sleep(time.Duration(pick(w, 310, 1370)) * time.Millisecond)
			}
			w.rest(pick(w, c.pauses...))
			if c.settle != nil {
				c.settle(w)
				w.rest(1)
			}
			all = append(all, moment{w.log, w.state()})
			w.log = nil
		}
		cancel()
		running.Wait()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return all
}

// run plays all histories to both and compares.
func (c *contest) run(t *testing.T) {
	quiet(t)
	for round := *first; round < *first+*rounds; round++ {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			ours := c.play(t, round, false)
			if *trace {
				t.Log("and now upstream")
			}
			theirs := c.play(t, round, true)
			if *show {
				for i, m := range theirs {
					t.Logf("%s\nupstream leaves\n%s\nhere is left\n%s", strings.Join(m.log, "\n"), m, ours[min(i, len(ours)-1)])
				}
			}
			for i := range theirs {
				if i >= len(ours) {
					return // it has failed
				}
				if differs := compare(ours[i], theirs[i]); differs != "" {
					var log []string
					for _, m := range theirs[:i+1] {
						log = append(log, m.log...)
					}
					t.Fatalf("what was done:\n  %s\ndifferences (- upstream, + here) after step %d:\n%s", strings.Join(log, "\n  "), i, differs)
				}
			}
		})
	}
}

// quiet keeps upstream's error handlers from sleeping: they remember when the last error was, across bubbles.
func quiet(t *testing.T) {
	t.Helper()
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
}

// text is a value as JSON.
func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
