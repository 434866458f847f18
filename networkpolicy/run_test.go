package networkpolicy_test

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/keelson-dev/keelson/informer"
	store "github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/networkpolicy"
	"github.com/keelson-dev/keelson/networkpolicy/internal/random"
	"github.com/keelson-dev/keelson/networkpolicy/memory"
)

// recorder is a Writer that counts calls, and fails or has lost its tables when told to.
type recorder struct {
	*memory.Writer

	syncs, updates atomic.Int32
	fail, lost     atomic.Bool
}

func (r *recorder) Sync(ctx context.Context, t networkpolicy.Tables) error {
	r.syncs.Add(1)
	if r.fail.Load() {
		return errors.New("no")
	}
	r.lost.Store(false)
	return r.Writer.Sync(ctx, t)
}

func (r *recorder) Update(ctx context.Context, c networkpolicy.Changes) error {
	r.updates.Add(1)
	if r.fail.Load() {
		return errors.New("no")
	}
	return r.Writer.Update(ctx, c)
}

func (r *recorder) Intact(context.Context) (bool, error) { return !r.lost.Load(), nil }

// world is an Enforcer that runs in virtual time on stores.
type world struct {
	policies   *store.Store[*networkingv1.NetworkPolicy]
	namespaces *store.Store[*corev1.Namespace]
	pods       *store.Store[*corev1.Pod]
	writer     *recorder
	stop       func()
}

// start runs an Enforcer once the stores have the objects of the cluster.
func start(t *testing.T, c networkpolicy.Cluster, o networkpolicy.Options) *world {
	t.Helper()
	w := &world{store.New[*networkingv1.NetworkPolicy](), store.New[*corev1.Namespace](), store.New[*corev1.Pod](), &recorder{Writer: memory.New()}, nil}
	for _, p := range c.Policies {
		w.policies.Put(p)
	}
	for _, n := range c.Namespaces {
		w.namespaces.Put(n)
	}
	for _, p := range c.Pods {
		w.pods.Put(p)
	}
	in := networkpolicy.Sources{
		Policies: informer.New(w.policies, informer.Options{}), Namespaces: informer.New(w.namespaces, informer.Options{}), Pods: informer.New(w.pods, informer.Options{}),
	}
	e := networkpolicy.New(in, w.writer, o)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, run := range []func(context.Context) error{in.Policies.Run, in.Namespaces.Run, in.Pods.Run, e.Run} {
		all.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	w.stop = func() { cancel(); all.Wait() }
	synctest.Wait()
	return w
}

// expect compares what is in effect with what follows from the objects.
func (w *world) expect(t *testing.T, c networkpolicy.Cluster, local func(string) bool) {
	t.Helper()
	want, err := networkpolicy.Compile(c, local)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.writer.Tables(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func isHere(node string) bool { return node == "node-0" }

// Objects come, change and go at random; the tables are those that the objects at the time would have given.
func TestHistories(t *testing.T) {
	histories := uint64(60)
	if testing.Short() {
		histories = 5
	}
	for seed := range histories {
		synctest.Test(t, func(t *testing.T) {
			s := random.New(seed)
			c, addresses := some(s, 4)
			w := start(t, c, networkpolicy.Options{Nodes: []string{"node-0"}})
			defer w.stop()
			w.expect(t, c, isHere)
			for range 60 {
				for range 1 + s.IntN(3) {
					w.step(s, &c, addresses)
				}
				time.Sleep(time.Second / 2)
				synctest.Wait()
				w.expect(t, c, isHere)
			}
			if n := w.writer.syncs.Load(); n != 1 {
				t.Errorf("%d syncs", n)
			}
		})
		if t.Failed() {
			t.Fatal("seed", seed)
		}
	}
}

// step changes one object.
func (w *world) step(s random.Source, c *networkpolicy.Cluster, addresses []netip.Addr) {
	switch s.IntN(8) {
	case 0:
		i := s.IntN(len(c.Namespaces))
		c.Namespaces[i] = s.Namespace(c.Namespaces[i].Name)
		w.namespaces.Put(c.Namespaces[i])
	case 1:
		if i := s.IntN(len(c.Pods)); len(c.Pods) > 1 {
			w.pods.Delete(c.Pods[i].Namespace, c.Pods[i].Name)
			c.Pods = slices.Delete(c.Pods, i, i+1)
		}
	case 2:
		if len(c.Policies) > 0 {
			i := s.IntN(len(c.Policies))
			w.policies.Delete(c.Policies[i].Namespace, c.Policies[i].Name)
			c.Policies = slices.Delete(c.Policies, i, i+1)
		}
	case 3, 4:
		p := s.Policy([]string{"a", "b", "c", "d"}[s.IntN(4)], addresses)
		c.Policies = slices.DeleteFunc(c.Policies, func(o *networkingv1.NetworkPolicy) bool { return o.Namespace == p.Namespace && o.Name == p.Name })
		c.Policies = append(c.Policies, p)
		w.policies.Put(p)
	default: // with an address that perhaps another pod has
		i := s.IntN(4)
		p := s.Pod(random.Namespaces()[s.IntN(3)], []string{"pod-0", "pod-1", "pod-2", "pod-3"}[i], []string{"node-0", "node-1"}[s.IntN(2)], addresses[2+2*s.IntN(9)], addresses[3+2*s.IntN(9)])
		p.Spec.HostNetwork = s.IntN(8) == 0
		if s.IntN(8) == 0 {
			p.Status.Phase = corev1.PodFailed
		}
		c.Pods = slices.DeleteFunc(c.Pods, func(o *corev1.Pod) bool { return o.Namespace == p.Namespace && o.Name == p.Name })
		c.Pods = append(c.Pods, p)
		w.pods.Put(p)
	}
}

func denyAll(t *testing.T) networkpolicy.Cluster {
	t.Helper()
	c := square()
	c.Policies = append(c.Policies, policy(t, "deny", `{podSelector: {}}`))
	return c
}

func TestWritesOnlyWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := denyAll(t)
		written := 0
		w := start(t, c, networkpolicy.Options{Written: func(networkpolicy.Tables) { written++ }})
		defer w.stop()
		time.Sleep(time.Minute)
		p := c.Pods[0].DeepCopy()
		p.Status.Message = "well"
		w.pods.Put(p)
		same := c.Policies[0].DeepCopy()
		same.Annotations = map[string]string{"a": "b"}
		w.policies.Put(same)
		time.Sleep(time.Minute)
		if n := w.writer.updates.Load(); n != 0 || written != 1 {
			t.Errorf("%d updates, %d writes: nothing has changed", n, written)
		}
		w.policies.Put(policy(t, "allow", `{podSelector: {matchLabels: {pod: a}}, ingress: [{}]}`))
		synctest.Wait()
		if n := w.writer.updates.Load(); n != 1 || written != 2 {
			t.Errorf("%d updates, %d writes: a change after a pause is written at once", n, written)
		}
		for range 20 { // within 10 ms
			w.policies.Delete("x", "allow")
			synctest.Wait()
			w.policies.Put(policy(t, "allow", `{podSelector: {matchLabels: {pod: b}}, ingress: [{}]}`))
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		if n := w.writer.updates.Load(); n != 2 {
			t.Errorf("%d updates: changes in a short time are written together", n)
		}
	})
}

func TestRepairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := denyAll(t)
		w := start(t, c, networkpolicy.Options{})
		defer w.stop()
		w.writer.lost.Store(true)
		time.Sleep(2 * time.Second)
		if n := w.writer.syncs.Load(); n != 2 {
			t.Errorf("%d syncs after the tables were lost", n)
		}
		w.writer.fail.Store(true)
		w.policies.Delete("x", "deny")
		c.Policies = nil
		time.Sleep(5 * time.Second)
		w.writer.fail.Store(false)
		time.Sleep(2 * time.Second)
		w.expect(t, c, nil)
		after := w.writer.syncs.Load()
		time.Sleep(time.Minute)
		if n := w.writer.syncs.Load(); n != after {
			t.Errorf("%d syncs after the tables were written", n-after)
		}
	})
}

func TestFailsAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := denyAll(t)
		w := start(t, networkpolicy.Cluster{}, networkpolicy.Options{})
		defer w.stop()
		w.writer.fail.Store(true)
		for _, p := range c.Pods {
			w.pods.Put(p)
		}
		w.policies.Put(c.Policies[0])
		time.Sleep(3 * time.Second)
		w.writer.fail.Store(false)
		time.Sleep(2 * time.Second)
		w.expect(t, c, nil)
	})
}

// A pod of the same name, labels and address may be on another node.
func TestPodThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := denyAll(t)
		for _, p := range c.Pods {
			p.Spec.NodeName = "node-1"
		}
		w := start(t, c, networkpolicy.Options{Nodes: []string{"node-0"}})
		defer w.stop()
		w.expect(t, c, isHere)
		c.Pods[0] = c.Pods[0].DeepCopy()
		c.Pods[0].Spec.NodeName = "node-0"
		w.pods.Put(c.Pods[0])
		time.Sleep(time.Second)
		synctest.Wait()
		if len(w.writer.Tables().Pods) != 1 {
			t.Errorf("isolated: %v", w.writer.Tables().Pods)
		}
		w.expect(t, c, isHere)
	})
}

func TestUnreadablePolicyIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := square()
		bad := policy(t, "bad", `{podSelector: {}, ingress: [{from: [{}]}, {ports: [{port: 81}]}]}`)
		var got []string
		w := start(t, c, networkpolicy.Options{Unreadable: func(p *networkingv1.NetworkPolicy, err error) { got = append(got, p.Name+": "+err.Error()) }})
		w.policies.Put(bad)
		time.Sleep(time.Minute)
		for port, allowed := range map[uint16]bool{80: false, 81: true} {
			if d := w.writer.Decide(networkpolicy.Packet{From: at("y/a"), To: netip.AddrPortFrom(at("x/a"), port), Protocol: corev1.ProtocolTCP}); d.Allowed() != allowed {
				t.Errorf("%d: %v", port, d)
			}
		}
		w.stop()
		if want := []string{"bad: ingress[0].from[0]: neither an ipBlock nor selectors"}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

func TestEndsBeforeItIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := networkpolicy.Sources{
			Policies:   informer.New(store.New[*networkingv1.NetworkPolicy](), informer.Options{}),
			Namespaces: informer.New(store.New[*corev1.Namespace](), informer.Options{}), Pods: informer.New(store.New[*corev1.Pod](), informer.Options{}),
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := memory.New()
		if err := networkpolicy.New(in, w, networkpolicy.Options{}).Run(ctx); err != nil {
			t.Error(err)
		}
		if intact, _ := w.Intact(t.Context()); intact {
			t.Error("something was written before the objects were known")
		}
	})
}
