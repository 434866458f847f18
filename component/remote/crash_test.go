package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component/remote"
)

var (
	crashes = flag.Int("crashes", 6, "worlds in which all components are killed again and again")
	seed    = flag.Uint64("seed", 1, "of the first of these worlds")
)

var errKilled = errors.New("killed")

// mortal ends a process after a number of writes. Nobody learns what became of the last one.
type mortal struct {
	http.RoundTripper
	kill func()

	mu      sync.Mutex
	left    int  // writes
	arrives bool // the last one, too
	dead    bool
}

func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	last := false
	if !m.dead && r.Method != http.MethodGet {
		m.left--
		last = m.left == 0
		m.dead = last
	}
	dead := m.dead
	m.mu.Unlock()
	if last && m.arrives {
		if answer, err := m.RoundTripper.RoundTrip(r); err == nil {
			_ = answer.Body.Close() // nobody reads it
		}
	}
	if last {
		m.kill()
	}
	if dead {
		return nil, errKilled
	}
	return m.RoundTripper.RoundTrip(r)
}

// lives runs all components, as one process after another, each of which is killed after some of its writes. The last
// one lives until the context ends.
func lives(ctx context.Context, t *testing.T, c *cluster.Cluster, r *rand.Rand, deaths int) {
	for n := range deaths + 1 {
		life, kill := context.WithCancel(ctx)
		config := c.Config()
		if n < deaths {
			config.Transport = &mortal{RoundTripper: config.Transport, kill: kill, left: 1 + r.IntN(60), arrives: r.IntN(2) == 0}
		}
		m, err := remote.New(config, scheme.Scheme, everything(), remote.Options{RootCA: []byte("root")})
		if err != nil {
			t.Error(err)
		} else if err := m.Run(life); err != nil && !errors.Is(err, errKilled) {
			t.Errorf("life %d: %v", n, err)
		}
		kill()
	}
}

// settled runs the stories of all scenes and returns what is in the API half an hour after their ends.
func settled(t *testing.T, seed uint64, deaths int) []string {
	t.Helper()
	var all []string
	synctest.Test(t, func(t *testing.T) {
		c, _ := bare(t)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		r := rand.New(rand.NewPCG(seed, 1))
		running.Go(func() { lives(ctx, t, c, r, deaths) })
		var stories sync.WaitGroup
		for _, s := range scenes() {
			stories.Go(func() { s.run(t, c) })
		}
		stories.Wait()
		time.Sleep(30 * time.Minute)
		all = state(t, c)
		cancel()
		running.Wait()
	})
	return all
}

// TestCrashPoints: wherever all components are killed between any two of their writes, and however often, what they
// leave in the API is in the end what they leave without that.
func TestCrashPoints(t *testing.T) {
	want := settled(t, 0, 0)
	if len(want) < 20 {
		t.Fatalf("only %d objects are left: %q", len(want), want)
	}
	worlds := *crashes
	if testing.Short() {
		worlds = min(worlds, 2)
	}
	for n := range worlds {
		seed := *seed + uint64(n)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			got := settled(t, seed, 3+n%10)
			for _, obj := range missing(want, got) {
				t.Errorf("missing:    %s", obj)
			}
			for _, obj := range missing(got, want) {
				t.Errorf("unexpected: %s", obj)
			}
		})
	}
}

// missing returns what got lacks of want, both of which may have things more than once.
func missing(want, got []string) []string {
	counts := map[string]int{}
	for _, s := range got {
		counts[s]++
	}
	var out []string
	for _, s := range want {
		if counts[s]--; counts[s] < 0 {
			out = append(out, s)
		}
	}
	return out
}

// state returns all objects without what varies between two runs.
func state(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	api, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := api.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains([]string{"events", "leases", "ipaddresses"}, r.Name) {
				continue // these tell what happened, and when, or are chosen by chance
			}
			found, err := objects.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, obj := range found.Items {
				all = append(all, gv.String()+" "+plain(t, obj))
			}
		}
	}
	slices.Sort(all)
	return all
}

// generated are the ends of names that the API server or a controller made up, and UIDs.
var generated = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// plain returns an object as text, without random and measured values.
func plain(t *testing.T, obj unstructured.Unstructured) string {
	t.Helper()
	obj.SetManagedFields(nil)
	data, err := json.Marshal(leaveOut(obj.Object))
	if err != nil {
		t.Fatal(err)
	}
	return generated.ReplaceAllString(string(data), "*")
}

// varying are fields that differ from run to run.
func varying() []string {
	return []string{
		"uid", "resourceVersion", "generation", "observedGeneration", "deployment.kubernetes.io/revision",
		"podIP", "podIPs", "hostIP", "hostIPs", "clusterIP", "clusterIPs", "addresses", "containerID", "certificate", "request",
		"startTime", "endpoints.kubernetes.io/last-change-trigger-time",
	}
}

func leaveOut(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if slices.Contains(varying(), key) {
				delete(v, key)
				continue
			}
			v[key] = leaveOut(value)
			if inner, ok := v[key].(map[string]any); ok && len(inner) == 0 {
				delete(v, key)
			}
		}
	case []any:
		for i := range v {
			v[i] = leaveOut(v[i])
		}
		slices.SortStableFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return "a time"
		}
	}
	return v
}

// scene is what users do in a namespace of that name.
type scene struct {
	name  string
	story func(s *stage)
}

// stage is where a scene is played.
type stage struct {
	t         *testing.T
	ctx       context.Context
	namespace string
	api       kubernetes.Interface
}

func (s scene) run(t *testing.T, c *cluster.Cluster) {
	api, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Error(err)
		return
	}
	on := &stage{t, t.Context(), s.name, api}
	_, err = api.CoreV1().Namespaces().Create(on.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, metav1.CreateOptions{})
	on.check(err)
	on.wait()
	s.story(on)
}

func (s *stage) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("%s: %v", s.namespace, err)
	}
}

// wait gives the components time to act between two changes.
func (s *stage) wait() { time.Sleep(5 * time.Minute) }

// retry does something again while it meets conflicts.
func (s *stage) retry(do func() error) {
	s.t.Helper()
	err := do()
	for range 20 {
		if err == nil {
			return
		}
		time.Sleep(time.Second)
		err = do()
	}
	s.check(err)
}
