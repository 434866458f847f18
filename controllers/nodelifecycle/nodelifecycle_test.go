package nodelifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/nodelifecycle"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

var (
	nodes  = corev1.SchemeGroupVersion.WithResource("nodes")
	leases = coordinationv1.SchemeGroupVersion.WithResource("leases")
)

// bench is a running controller with its API, in a bubble.
type bench struct {
	*testing.T
	api    *controllerstest.API
	leases *lag.Source[*coordinationv1.Lease]
	events controllerstest.Recorder
	began  time.Time
	hearts map[string]context.CancelFunc

	options    nodelifecycle.Options
	controller *nodelifecycle.Controller
	fails      bool       // something fails, which may be logged
	log        trial.Text // of failures
	mute       bool       // without a log
	// seen, when set, changes pods on their way into the cache.
	seen func(*corev1.Pod)
}

// inBubble runs test against a controller. Nodes are made by prepare, before it starts.
func inBubble(t *testing.T, before func(faults.Request) error, prepare, test func(*bench)) {
	t.Helper()
	(&bench{}).run(t, before, prepare, test)
}

// run is the same for a bench with options. When no request can fail, nothing must be logged.
func (b *bench) run(t *testing.T, before func(faults.Request) error, prepare, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b.T, b.hearts, b.fails = t, map[string]context.CancelFunc{}, before != nil
		b.api = controllerstest.Start(t, controllerstest.Options{Before: before})
		b.leases = controllerstest.Source[*coordinationv1.Lease](b.api, leases)
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		var pods informer.Source[*corev1.Pod] = controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods())
		if b.seen != nil {
			pods = informer.Transform(pods, func(pod *corev1.Pod) (*corev1.Pod, error) {
				pod = pod.DeepCopy()
				b.seen(pod)
				return pod, nil
			}, func(_ *corev1.Pod, err error) { t.Error(err) })
		}
		in := nodelifecycle.Sources{
			Nodes:  informer.New(controllerstest.Source[*corev1.Node](b.api, nodes), detect),
			Pods:   informer.New(pods, detect),
			Leases: informer.New(b.leases, detect),
		}
		b.options.Logger = slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		if b.mute {
			b.options.Logger = nil
		}
		b.controller = nodelifecycle.New(in, b.api, &b.events, b.options)
		prepare(b)
		t.Cleanup(func() { // when it has ended
			if !b.fails && b.log.String() != "" {
				t.Errorf("nothing failed, but %s", b.log.String())
			}
		})
		loop := controllers.NewLoop(b.controller, controllers.Options{Logger: b.options.Logger})
		controllerstest.Go(t, in.Nodes, in.Pods, in.Leases, loop)
		time.Sleep(100 * time.Millisecond) // until the first look
		b.began = time.Now()
		synctest.Wait()
		test(b)
	})
}

// until lets virtual time pass until so long after the start.
func (b *bench) until(d time.Duration) {
	time.Sleep(time.Until(b.began.Add(d)))
	synctest.Wait()
}

// node creates a node with these Ready conditions, at most one.
func (b *bench) node(name string, ready ...corev1.ConditionStatus) {
	b.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if zone, _, ok := strings.Cut(name, "/"); ok {
		node.Name = strings.ReplaceAll(name, "/", "-")
		node.Labels[corev1.LabelTopologyZone] = zone
	}
	for _, status := range ready {
		node.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory"},
			{Type: corev1.NodeReady, Status: status, Reason: "Kubelet", LastHeartbeatTime: metav1.Now()},
		}
	}
	controllerstest.Add(b, b.api, node)
}

// heart renews the lease of a node every 10 s until it is stopped.
func (b *bench) heart(name string) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	b.hearts[name] = stop
	at := client.Target{Resource: leases, Namespace: corev1.NamespaceNodeLease, Name: name}
	if _, err := b.api.Others.Get(ctx, at); apierrors.IsNotFound(err) {
		controllerstest.Add(b, b.api, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: name}})
	}
	renew := func() {
		renewal := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
		if _, err := b.api.Others.Patch(ctx, at, client.Patch{Type: types.MergePatchType, Data: renewal}, metav1.PatchOptions{}); err != nil && ctx.Err() == nil {
			b.Error(err)
		}
	}
	renew()
	go func() {
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				renew()
			}
		}
	}()
}

// healthy makes ready nodes whose leases are renewed.
func (b *bench) healthy(names ...string) {
	for _, name := range names {
		b.node(name, corev1.ConditionTrue)
		b.heart(strings.ReplaceAll(name, "/", "-"))
	}
}

// pod makes a pod that has conditions, and binds it after that, so that a controller that sees it on the node sees them, too.
func (b *bench) pod(name, node string, ready corev1.ConditionStatus) {
	b.Helper()
	controllerstest.Add(b, b.api, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: ready},
		}},
	})
	if node != "" {
		b.bind(name, node)
	}
}

func (b *bench) bind(name, node string) {
	b.Helper()
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if _, err := b.api.Others.Create(b.Context(), podAt(name, "binding"), binding, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// podAt is where a pod is.
func podAt(name, subresource string) client.Target {
	return client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: name, Subresource: subresource}
}

func (b *bench) get(name string) *corev1.Node {
	b.Helper()
	node, err := client.As[*corev1.Node](b.api.Others.Get(b.Context(), client.Target{Resource: nodes, Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	return node
}

// update is what others make of a node.
func (b *bench) update(node *corev1.Node, subresource string) {
	b.Helper()
	at := client.Target{Resource: nodes, Name: node.Name, Subresource: subresource}
	if _, err := b.api.Others.Update(b.Context(), at, node, metav1.UpdateOptions{}); err != nil {
		b.Error(err)
	}
}

func (b *bench) change(name string, change func(*corev1.Node)) {
	b.Helper()
	node := b.get(name)
	change(node)
	b.update(node, "")
}

func (b *bench) deleteNode(name string) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), client.Target{Resource: nodes, Name: name}, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
}

// post changes the status of a node's Ready condition, as its kubelet does.
func (b *bench) post(name string, ready corev1.ConditionStatus) {
	b.Helper()
	node := b.get(name)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.Now()}}
	b.update(node, "status")
}

func (b *bench) wantEvents(want ...string) {
	b.Helper()
	if got := b.events.Take(); !slices.Equal(got, want) {
		b.Errorf("events:\n got %q\nwant %q", got, want)
	}
}

func (b *bench) wantTaints(name string, want ...string) {
	b.Helper()
	var got []string
	for _, taint := range b.get(name).Spec.Taints {
		got = append(got, strings.TrimPrefix(taint.Key, "node.kubernetes.io/")+":"+string(taint.Effect))
		if taint.TimeAdded == nil {
			b.Errorf("%s: no time in taint %v", name, taint)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		b.Errorf("taints of %s: %q, want %q", name, got, want)
	}
}

// inject makes requests fail.
func (b *bench) inject(f faults.Fault) {
	b.fails = true
	b.api.Inject(f)
}

// writes are what the controller wrote since the last call.
func (b *bench) writes() []string {
	var out []string
	for _, r := range b.api.Writes() {
		out = append(out, r.String())
	}
	b.api.Reset()
	return out
}

// evicting counts the nodes with a NoExecute taint.
func (b *bench) evicting() int {
	b.Helper()
	obj, err := b.api.Others.List(b.Context(), client.Target{Resource: nodes}, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for _, node := range obj.(*corev1.NodeList).Items {
		if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }) {
			n++
		}
	}
	return n
}

func TestSilentNode(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.healthy("a", "b", "c")
		b.pod("ready", "b", corev1.ConditionTrue)
		b.pod("unready", "b", corev1.ConditionFalse)
		b.pod("elsewhere", "a", corev1.ConditionTrue)
	}, func(b *bench) {
		b.wantEvents(
			"Normal RegisteredNode Node a event: Registered Node a in Controller",
			"Normal RegisteredNode Node b event: Registered Node b in Controller",
			"Normal RegisteredNode Node c event: Registered Node c in Controller")
		b.until(2 * time.Second)
		b.hearts["b"]()
		b.until(54 * time.Second)
		if got := b.writes(); got != nil {
			b.Errorf("writes within the grace period: %q", got)
		}
		b.until(55 * time.Second)
		b.wantEvents("Normal NodeNotReady Node b status is now: NodeNotReady", "Warning NodeNotReady Node is not ready")
		b.wantTaints("b", "unreachable:NoSchedule")
		b.until(55*time.Second + 100*time.Millisecond)
		b.wantTaints("b", "unreachable:NoExecute", "unreachable:NoSchedule")
		want := []string{"update nodes/status b", "update pods/status ns/ready", "patch nodes b", "patch nodes b"}
		got := b.writes()
		if !slices.Equal(got, want) {
			b.Errorf("writes %q, want %q", got, want)
		}
		var conditions []string
		for _, c := range b.get("b").Status.Conditions {
			conditions = append(conditions, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
			if c.LastTransitionTime.Sub(b.began).Round(time.Second) != 55*time.Second {
				b.Errorf("%s changed at %v", c.Type, c.LastTransitionTime)
			}
		}
		if want := []string{
			"MemoryPressure=Unknown NodeStatusUnknown: Kubelet stopped posting node status.",
			"Ready=Unknown NodeStatusUnknown: Kubelet stopped posting node status.",
			"DiskPressure=Unknown NodeStatusNeverUpdated: Kubelet never posted node status.",
			"PIDPressure=Unknown NodeStatusNeverUpdated: Kubelet never posted node status.",
		}; !slices.Equal(conditions, want) {
			b.Errorf("conditions %q", conditions)
		}

		b.pod("late", "b", corev1.ConditionTrue)
		b.until(56 * time.Second)
		b.wantEvents("Warning NodeNotReady Node is not ready")
		b.until(300 * time.Second)
		if got := b.writes(); !slices.Equal(got, []string{"update pods/status ns/late"}) {
			b.Errorf("writes about a node that stays silent: %q", got)
		}

		b.post("b", corev1.ConditionTrue)
		b.until(301 * time.Second)
		b.wantTaints("b", "unreachable:NoExecute")
		b.until(305 * time.Second)
		b.wantTaints("b")
		b.wantEvents()
	})
}

// TestPodSeenOnItsNode: a pod that the cache first sees on a silent node is marked like one that is bound to it later.
func TestPodSeenOnItsNode(t *testing.T) {
	b := &bench{seen: func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}}
	b.run(t, nil, func(b *bench) { b.healthy("a", "b") }, func(b *bench) {
		b.hearts["b"]()
		b.until(60 * time.Second)
		b.writes()
		controllerstest.Add(b, b.api, controllerstest.Complete(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "there"}, Spec: corev1.PodSpec{NodeName: "b"},
		}))
		synctest.Wait()
		if got := b.writes(); len(got) == 0 || got[0] != "update pods/status ns/there" {
			b.Errorf("writes %q", got)
		}
	})
}

func TestNeverPosted(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.healthy("a", "b")
		b.node("new")
	}, func(b *bench) {
		b.until(59 * time.Second)
		if got := b.writes(); got != nil {
			b.Errorf("writes within the grace period: %q", got)
		}
		b.until(61 * time.Second)
		b.wantTaints("new", "unreachable:NoExecute", "unreachable:NoSchedule")
		conditions := b.get("new").Status.Conditions
		if len(conditions) != 4 || conditions[0].Type != corev1.NodeReady ||
			conditions[0].Reason != "NodeStatusNeverUpdated" || conditions[0].Message != "Kubelet never posted node status." {
			b.Errorf("conditions %v", conditions)
		}
	})
}

// TestNotReadyNode: a kubelet that says that its node is not ready, and then falls silent.
func TestNotReadyNode(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.healthy("a", "b")
		b.pod("p", "a", corev1.ConditionTrue)
	}, func(b *bench) {
		b.until(time.Second)
		b.events.Take()
		b.post("a", corev1.ConditionFalse)
		b.until(2 * time.Second)
		b.wantTaints("a", "not-ready:NoSchedule")
		b.until(6 * time.Second)
		b.wantTaints("a", "not-ready:NoExecute", "not-ready:NoSchedule")
		b.wantEvents()
		b.hearts["a"]()
		b.until(70 * time.Second)
		b.wantTaints("a", "unreachable:NoExecute", "unreachable:NoSchedule")
		b.post("a", corev1.ConditionFalse)
		b.until(76 * time.Second)
		b.wantTaints("a", "not-ready:NoExecute", "not-ready:NoSchedule")
	})
}

// TestStatusHeartbeat: a node without a lease lives by its status.
func TestStatusHeartbeat(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.healthy("a")
		b.node("b", corev1.ConditionTrue)
	}, func(b *bench) {
		for at := 40 * time.Second; at <= 200*time.Second; at += 40 * time.Second {
			b.until(at)
			b.post("b", corev1.ConditionTrue)
		}
		b.until(259 * time.Second)
		b.wantTaints("b")
		b.until(261 * time.Second)
		b.wantTaints("b", "unreachable:NoExecute", "unreachable:NoSchedule")
	})
}

// TestAllSilent: when every node is silent no pods are evicted, and all nodes get their grace period anew when
// one is back.
func TestAllSilent(t *testing.T) {
	inBubble(t, nil, func(b *bench) { b.healthy("a", "b", "c") }, func(b *bench) {
		b.until(2 * time.Second)
		b.hearts["a"]()
		b.until(60 * time.Second)
		b.wantTaints("a", "unreachable:NoExecute", "unreachable:NoSchedule")
		b.hearts["b"]()
		b.hearts["c"]()
		b.until(120 * time.Second)
		for _, name := range []string{"a", "b", "c"} {
			b.wantTaints(name, "unreachable:NoSchedule")
		}
		b.until(1000 * time.Second)
		if n := b.evicting(); n != 0 {
			b.Errorf("%d nodes evict", n)
		}
		b.heart("b")
		b.post("b", corev1.ConditionTrue)
		b.until(1006 * time.Second)
		b.wantTaints("b")
		if n := b.evicting(); n != 0 {
			b.Errorf("%d nodes evict at once", n)
		}
		// The limiter that let none pass leaves the new one empty.
		b.until(1016 * time.Second)
		if n := b.evicting(); n != 1 {
			b.Errorf("%d nodes evict after 10 s", n)
		}
		b.until(1027 * time.Second)
		if n := b.evicting(); n != 2 {
			b.Errorf("%d nodes evict after 20 s", n)
		}
	})
}

func TestEvictionRate(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes, silent int
		want          map[time.Duration]int // how many evict so long after the nodes became Unknown
	}{
		"healthy zone":       {20, 5, map[time.Duration]int{time.Second: 1, 9 * time.Second: 1, 11 * time.Second: 2, 41 * time.Second: 5}},
		"small sick zone":    {10, 6, map[time.Duration]int{600 * time.Second: 0}},
		"large sick zone":    {60, 40, map[time.Duration]int{90 * time.Second: 1, 110 * time.Second: 2, 310 * time.Second: 4}},
		"two of three":       {3, 2, map[time.Duration]int{time.Second: 1, 11 * time.Second: 2}},
		"all of them at all": {4, 4, map[time.Duration]int{600 * time.Second: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				for i := range tt.nodes {
					b.healthy(fmt.Sprintf("node-%02d", i))
				}
			}, func(b *bench) {
				b.until(2 * time.Second)
				for i := range tt.silent {
					b.hearts[fmt.Sprintf("node-%02d", i)]()
				}
				for _, after := range slices.Sorted(keysOf(tt.want)) {
					b.until(55*time.Second + after)
					if got := b.evicting(); got != tt.want[after] {
						b.Errorf("%v after: %d evict, want %d", after, got, tt.want[after])
					}
				}
			})
		})
	}
}

func keysOf(m map[time.Duration]int) func(func(time.Duration) bool) {
	return func(yield func(time.Duration) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestZonesApart: a zone that is all silent is evicted at full rate while another one lives.
func TestZonesApart(t *testing.T) {
	inBubble(t, nil, func(b *bench) { b.healthy("east/0", "east/1", "west/0", "west/1") }, func(b *bench) {
		b.until(2 * time.Second)
		b.hearts["east-0"]()
		b.hearts["east-1"]()
		b.until(57 * time.Second)
		if n := b.evicting(); n != 1 {
			b.Errorf("%d nodes evict at once", n)
		}
		b.until(67 * time.Second)
		if n := b.evicting(); n != 2 {
			b.Errorf("%d nodes evict after 10 s", n)
		}
	})
}

// TestIdle: healthy nodes cost no requests, and none are tainted at start.
func TestIdle(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		for i := range 50 {
			b.healthy(fmt.Sprintf("node-%d", i))
		}
	}, func(b *bench) {
		b.until(time.Hour)
		if got := b.api.Requests(); len(got) > 0 {
			b.Errorf("%d requests: %v", len(got), got[0])
		}
	})
}

// TestStaleCache: while the cache of leases is behind the server no node is called silent.
func TestStaleCache(t *testing.T) {
	inBubble(t, nil, func(b *bench) { b.healthy("a", "b") }, func(b *bench) {
		b.fails = true // to see which leases there are
		b.until(2 * time.Second)
		b.leases.Hold()
		b.until(200 * time.Second)
		asked := 0
		for _, r := range b.api.Requests() {
			if r.Verb == faults.Get && r.Target.Resource == leases {
				asked++
			}
		}
		if asked < 1 || asked > 2 { // both nodes are looked at together
			b.Errorf("asked for leases %d times although the cache is known to be behind", asked)
		}
		if got := b.writes(); got != nil {
			b.Errorf("writes: %q", got)
		}
		b.hearts["a"]()
		b.leases.Resume()
		b.until(245 * time.Second)
		if got := b.writes(); got != nil {
			b.Errorf("writes: %q", got)
		}
		b.until(262 * time.Second)
		b.wantTaints("a", "unreachable:NoExecute", "unreachable:NoSchedule")
		b.wantTaints("b")
	})
}

// TestFailedWrites: what could not be written is written again.
func TestFailedWrites(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.healthy("a", "b", "c")
		b.pod("p", "b", corev1.ConditionTrue)
	}, func(b *bench) {
		refused := errors.New("no")
		b.inject(faults.Fault{Verb: faults.Update, Resource: "nodes/status", Name: "b", Err: refused, Times: 2})
		b.inject(faults.Fault{Verb: faults.Update, Resource: "pods/status", Name: "p", Err: refused})
		b.inject(faults.Fault{Verb: faults.Patch, Name: "b", Err: apierrors.NewConflict(nodes.GroupResource(), "b", errors.New("changed")), Times: 3})
		b.until(2 * time.Second)
		b.hearts["b"]()
		b.until(62 * time.Second)
		if got := b.podReady("p"); got != corev1.ConditionFalse {
			b.Errorf("the pod is ready: %s", got)
		}
		b.wantTaints("b", "unreachable:NoExecute", "unreachable:NoSchedule")
	})
}

func TestLabelsAndRemoval(t *testing.T) {
	inBubble(t, nil, func(b *bench) { b.healthy("a", "b") }, func(b *bench) {
		b.events.Take()
		b.change("a", func(node *corev1.Node) {
			node.Labels = map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "beta.kubernetes.io/arch": "arm"}
			node.Spec.Unschedulable = true
		})
		b.until(time.Second)
		b.wantTaints("a", "unschedulable:NoSchedule")
		if got := b.get("a").Labels; got["beta.kubernetes.io/os"] != "linux" || got["beta.kubernetes.io/arch"] != "amd64" {
			b.Errorf("labels %v", got)
		}
		b.deleteNode("a")
		b.until(6 * time.Second)
		b.wantEvents("Normal RemovingNode Node a event: Removing Node a from Controller")
	})
}
