package nodes_test

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/podgc"
	"k8s.io/kubernetes/pkg/controller/tainteviction"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
)

// near is the maximum difference in time of the same transition: upstream's timers start at slightly different times,
// and the order of two at the same instant is random.
const near = 1500 * time.Millisecond

// upstreamPeriod is slightly less than upstream's 5 s, to keep its checks of nodes from coinciding with its ticker of
// 100 ms: otherwise a node that waits for its taint randomly loses turns of 10 s.
const upstreamPeriod = 5*time.Second - 100*time.Microsecond

// upstreamRound is slightly more than upstream's 20 s, to keep its rounds from coinciding with the end of a node's
// quarantine.
const upstreamRound = 20*time.Second + 100*time.Microsecond

// stage is a cluster in a bubble and what was observed of it.
type stage struct {
	*testing.T
	*cluster.Cluster
	client kubernetes.Interface
	began  time.Time

	mu   sync.Mutex
	seen map[string][]snapshot // by object: its states, whenever they changed
	done sync.WaitGroup
}

// snapshot is the state of an object from some time on.
type snapshot struct {
	at     time.Duration
	values map[string]string
}

// transition is a change of an object.
type transition struct {
	at   time.Duration
	what string
}

func (s *stage) until(d time.Duration) { time.Sleep(time.Until(s.began.Add(d))) }

func (s *stage) silence(nodes ...string) {
	for _, name := range nodes {
		s.simulated(name).Stop()
	}
}

func (s *stage) revive(nodes ...string) {
	for _, name := range nodes {
		s.simulated(name).Start()
	}
}

func (s *stage) simulated(name string) *cluster.Node {
	node, err := s.Node(name)
	if err != nil {
		s.Fatal(err)
	}
	return node
}

func (s *stage) patch(name, subresource, patch string) {
	var sub []string
	if subresource != "" {
		sub = []string{subresource}
	}
	if _, err := s.client.CoreV1().Nodes().Patch(s.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, sub...); err != nil {
		s.Error(err)
	}
}

// pods puts three pods on each node: with the default tolerations, with a short one, and with an unlimited one.
func (s *stage) pods() {
	short := int64(30)
	for node := range 3 {
		for kind, tolerations := range map[string][]corev1.Toleration{
			"default": nil,
			"short":   {{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &short}},
			"ever":    {{Operator: corev1.TolerationOpExists}},
		} {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", kind, node)},
				Spec: corev1.PodSpec{
					NodeName: fmt.Sprintf("node-%d", node), Tolerations: tolerations,
					Containers: []corev1.Container{{Name: "c", Image: "i"}},
				},
			}
			if _, err := s.client.CoreV1().Pods("default").Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
				s.Fatal(err)
			}
		}
	}
}

// follow records the changes of the objects of a watch.
func (s *stage) follow(w watch.Interface, err error, aspects func(any) map[string]string) (stop func()) {
	if err != nil {
		s.Fatal(err)
	}
	s.done.Go(func() {
		for e := range w.ResultChan() {
			s.note(e, aspects)
		}
	})
	return w.Stop
}

func (s *stage) note(e watch.Event, aspects func(any) map[string]string) {
	obj, ok := e.Object.(metav1.Object)
	if !ok {
		return
	}
	values := map[string]string{"gone": "true"}
	if e.Type != watch.Deleted {
		values = aspects(e.Object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[obj.GetName()] = append(s.seen[obj.GetName()], snapshot{time.Since(s.began), values})
}

// settle is how long an object must stay unchanged for its state to count: concurrent writes of several workers come in
// any order.
const settle = 500 * time.Millisecond

// transitions are the changes from one settled state of an object to the next.
func transitions(all []snapshot) []transition {
	var list []transition
	last := map[string]string{}
	for i, now := range all {
		if i+1 < len(all) && all[i+1].at-now.at < settle {
			continue
		}
		var changes []string
		for aspect, value := range now.values {
			if last[aspect] != value {
				changes = append(changes, aspect+"="+value)
			}
		}
		last = now.values
		sort.Strings(changes)
		if len(changes) > 0 {
			list = append(list, transition{now.at, strings.Join(changes, ", ")})
		}
	}
	return list
}

func nodeAspects(obj any) map[string]string {
	node := obj.(*corev1.Node)
	values := map[string]string{"labels": fmt.Sprint(node.Labels["beta.kubernetes.io/os"], node.Labels["beta.kubernetes.io/arch"])}
	for _, c := range node.Status.Conditions {
		values[string(c.Type)] = fmt.Sprintf("%s %s %q", c.Status, c.Reason, c.Message)
	}
	var taints []string
	for _, t := range node.Spec.Taints {
		taints = append(taints, fmt.Sprintf("%s:%s %v", t.Key, t.Effect, t.TimeAdded != nil))
	}
	sort.Strings(taints)
	values["taints"] = strings.Join(taints, " ")
	return values
}

func podAspects(obj any) map[string]string {
	pod := obj.(*corev1.Pod)
	values := map[string]string{"phase": string(pod.Status.Phase), "deleted": fmt.Sprint(pod.DeletionTimestamp != nil)}
	for _, c := range pod.Status.Conditions {
		values[string(c.Type)] = fmt.Sprintf("%s %s %q %d", c.Status, c.Reason, c.Message, c.ObservedGeneration)
	}
	return values
}

// events returns the controllers' events as text, with their counts.
func (s *stage) events() map[string]int32 {
	list, err := s.client.CoreV1().Events("").List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	said := map[string]int32{}
	for _, e := range list.Items {
		if e.Source.Component != "kubelet" {
			text := fmt.Sprintf("%s: %s/%s %s %s %s", e.Source.Component, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Type, e.Reason, e.Message)
			said[alike(text)] += max(e.Count, 1)
		}
	}
	return said
}

// upstream runs upstream's controllers under upstream's service accounts.
func upstream(ctx context.Context, t *testing.T, c *cluster.Cluster) (wait func()) {
	ctx = logr.NewContext(ctx, logr.Discard())
	as := func(account string) kubernetes.Interface {
		return clientset(t, c.ConfigFor(authn.ServiceAccountIdentity("kube-system", account)))
	}
	shared := informers.NewSharedInformerFactory(clientset(t, c.Config()), 0)
	none := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	core := shared.Core().V1()
	lifecycle, err := nodelifecycle.NewNodeLifecycleController(ctx, shared.Coordination().V1().Leases(), core.Pods(), core.Nodes(),
		none.Apps().V1().DaemonSets(), as("node-controller"), upstreamPeriod, 60*time.Second, 50*time.Second, 0.1, 0.01, 50, 0.55)
	if err != nil {
		t.Fatal(err)
	}
	taints, err := tainteviction.New(ctx, as("node-controller"), core.Pods(), core.Nodes(), "taint-eviction-controller")
	if err != nil {
		t.Fatal(err)
	}
	gc := podgc.NewPodGCInternal(ctx, as("pod-garbage-collector"), core.Pods(), core.Nodes(), 12500, upstreamRound, 40*time.Second)
	shared.Start(ctx.Done())
	none.Start(ctx.Done())
	time.Sleep(100 * time.Millisecond) // until all is in sync; otherwise they wait for that or start at once
	var running sync.WaitGroup
	for _, run := range []func(context.Context){lifecycle.Run, taints.Run, gc.Run} {
		running.Go(func() { run(ctx) })
	}
	return func() {
		running.Wait()
		shared.Shutdown()
		none.Shutdown()
	}
}

func clientset(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	cs, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// play runs a scenario with one side's controllers.
func play(t *testing.T, story func(*stage), theirs bool) (seen map[string][]snapshot, said map[string]int32) {
	synctest.Test(t, func(t *testing.T) {
		seed := uint64(3)
		o := cluster.Options{Nodes: cluster.Nodes{Count: 3}, Seed: &seed}
		if theirs {
			o.Disable = []string{"node-lifecycle-controller", "taint-eviction-controller", "pod-garbage-collector-controller"}
		}
		c, err := cluster.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		s := &stage{
			T: t, Cluster: c, client: clientset(t, c.Config()), began: time.Now(),
			seen: map[string][]snapshot{},
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait := func() {}
		if theirs {
			wait = upstream(ctx, t, c)
		}
		nodes, err := s.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
		stopNodes := s.follow(nodes, err, nodeAspects)
		pods, err := s.client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
		stopPods := s.follow(pods, err, podAspects)
		s.until(time.Second)
		s.pods()
		story(s)
		said = s.events()
		stopNodes()
		stopPods()
		s.done.Wait()
		cancel()
		wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		seen = s.seen
	})
	return seen, said
}

func TestStories(t *testing.T) {
	for name, story := range map[string]func(*stage){
		"a node is lost": func(s *stage) {
			s.until(17 * time.Second)
			s.silence("node-1")
			s.until(500 * time.Second)
			s.revive("node-1")
			s.until(600 * time.Second)
		},
		"a node comes back": func(s *stage) {
			s.until(17 * time.Second)
			s.silence("node-1")
			s.until(200 * time.Second)
			s.revive("node-1")
			s.until(900 * time.Second)
		},
		"two of three": func(s *stage) {
			s.until(17 * time.Second)
			s.silence("node-1", "node-2")
			s.until(600 * time.Second)
		},
		"all": func(s *stage) {
			s.until(17 * time.Second)
			s.silence("node-0", "node-1", "node-2")
			s.until(300 * time.Second)
			s.revive("node-0")
			s.until(600 * time.Second)
			s.revive("node-1", "node-2")
			s.until(800 * time.Second)
		},
		"one after the other": func(s *stage) {
			for i, node := range []string{"node-0", "node-1", "node-2"} {
				s.until(time.Duration(i*100+17) * time.Second)
				s.silence(node)
			}
			s.until(600 * time.Second)
			s.revive("node-1", "node-2")
			s.until(1200 * time.Second)
		},
		"conditions": func(s *stage) {
			s.until(17 * time.Second)
			s.silence("node-1")
			s.patch("node-1", "status", `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"R","message":"M"},{"type":"DiskPressure","status":"True"},{"type":"NetworkUnavailable","status":"True"}]}}`)
			s.until(40 * time.Second)
			s.patch("node-1", "status", `{"status":{"conditions":[{"type":"MemoryPressure","status":"True"},{"type":"PIDPressure","status":"True"},{"type":"NetworkUnavailable","status":"False"}]}}`)
			s.until(500 * time.Second)
			s.patch("node-1", "status", `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"R","message":"M"}]}}`)
			s.until(510 * time.Second)
			s.revive("node-1")
			s.until(600 * time.Second)
		},
		"cordoned, relabelled, deleted": func(s *stage) {
			s.until(12 * time.Second)
			s.patch("node-0", "", `{"spec":{"unschedulable":true},"metadata":{"labels":{"beta.kubernetes.io/os":"other","beta.kubernetes.io/arch":null}}}`)
			s.until(40 * time.Second)
			s.patch("node-0", "", `{"spec":{"unschedulable":false}}`)
			s.silence("node-2")
			if err := s.client.CoreV1().Nodes().Delete(s.Context(), "node-2", metav1.DeleteOptions{}); err != nil {
				s.Error(err)
			}
			s.until(200 * time.Second)
			s.revive("node-2")
			s.until(300 * time.Second)
		},
		"out of service": func(s *stage) {
			s.until(17 * time.Second)
			s.silence("node-1")
			s.until(97 * time.Second)
			s.patch("node-1", "", `{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`)
			s.until(300 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ours, weSaid := play(t, story, false)
			theirs, theySaid := play(t, story, true)
			compare(t, ours, theirs)
			compareEvents(t, weSaid, theySaid)
			if len(theySaid) == 0 {
				t.Error("upstream said nothing")
			}
		})
	}
}

// alike maps the three nodes and their objects to one: their order is random.
func alike(text string) string {
	return strings.NewReplacer("-0", "", "-1", "", "-2", "").Replace(text)
}

// compareEvents requires the same events, with one exception: if one side records both the deletion of a pod and its
// cancellation, the other may have either. In virtual time both are recorded at one instant when a deletion moves, and
// upstream, which names an event by object and nanosecond, then loses one, or moves the deletion once more.
func compareEvents(t *testing.T, ours, theirs map[string]int32) {
	for _, text := range names(ours, theirs) {
		other := strings.NewReplacer("Marking for deletion Pod", "Cancelling deletion of Pod", "Cancelling deletion of Pod", "Marking for deletion Pod").Replace(text)
		both := func(said map[string]int32) bool { return other != text && said[text] > 0 && said[other] > 0 }
		if (both(ours) || both(theirs)) && ours[text]+ours[other] > 0 && theirs[text]+theirs[other] > 0 {
			continue
		}
		if ours[text] != theirs[text] {
			t.Errorf("event, %d times here and %d upstream: %s", ours[text], theirs[text], text)
		}
	}
}

// compare requires each object to have the transitions of an equivalent one.
func compare(t *testing.T, ours, theirs map[string][]snapshot) {
	left := map[string][]transition{}
	for object, all := range theirs {
		left[object] = transitions(all)
	}
	for _, object := range names(ours) {
		mine, found := transitions(ours[object]), false
		for _, other := range names(left) {
			found = alike(other) == alike(object) && slices.EqualFunc(mine, left[other], same)
			if found {
				delete(left, other)
				break
			}
		}
		if !found {
			t.Errorf("here %s:", object)
			show(t, mine)
		}
	}
	for _, object := range names(left) {
		t.Errorf("upstream %s:", object)
		show(t, left[object])
	}
}

func same(a, b transition) bool { return a.what == b.what && (a.at-b.at).Abs() <= near }

func show(t *testing.T, list []transition) {
	for _, tr := range list {
		t.Logf("  %10v %s", tr.at.Round(time.Millisecond), tr.what)
	}
}

func names[V any](maps ...map[string]V) []string {
	var all []string
	for _, m := range maps {
		for name := range m {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
