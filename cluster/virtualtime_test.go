package cluster_test

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

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// transition is one change of one condition of one object, at a second of virtual time.
type transition struct {
	second int
	object string
	what   string
}

func (tr transition) String() string {
	return fmt.Sprintf("%4d s  %-32s %s", tr.second, tr.object, tr.what)
}

// journal records the transitions that watches report.
type journal struct {
	began time.Time

	mu   sync.Mutex
	list []transition
	now  map[string]map[string]string // object → condition → value
	done sync.WaitGroup
}

// follow records the conditions of the objects of one watch.
func (j *journal) follow(w watch.Interface, kind string, conditions func(any) map[string]string) {
	j.done.Go(func() {
		for e := range w.ResultChan() {
			obj, ok := e.Object.(metav1.Object)
			if !ok {
				continue
			}
			values := map[string]string{}
			if e.Type != watch.Deleted {
				values = conditions(e.Object)
			}
			j.note(kind+"/"+obj.GetName(), values, e.Type == watch.Deleted)
		}
	})
}

func (j *journal) note(object string, values map[string]string, gone bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	second := int(time.Since(j.began) / time.Second)
	if gone {
		j.list = append(j.list, transition{second, object, "gone"})
		delete(j.now, object)
		return
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	sort.Strings(names)
	if j.now[object] == nil {
		j.now[object] = map[string]string{}
	}
	for _, name := range names {
		if j.now[object][name] != values[name] {
			j.now[object][name] = values[name]
			j.list = append(j.list, transition{second, object, name + "=" + values[name]})
		}
	}
}

// last returns the current value of an object's condition.
func (j *journal) last(object, condition string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now[object][condition]
}

// ordered returns the transitions by second and object; those of one object in one second in
// the order in which they happened.
func (j *journal) ordered() []transition {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := slices.Clone(j.list)
	slices.SortStableFunc(list, func(a, b transition) int {
		if a.second != b.second {
			return a.second - b.second
		}
		return strings.Compare(a.object, b.object)
	})
	return list
}

func podConditions(obj any) map[string]string {
	pod := obj.(*corev1.Pod)
	values := map[string]string{"phase": string(pod.Status.Phase)}
	if pod.Spec.NodeName != "" {
		values["node"] = pod.Spec.NodeName
	}
	if pod.DeletionTimestamp != nil {
		values["deletion"] = "begun"
	}
	for _, c := range pod.Status.Conditions {
		values[string(c.Type)] = string(c.Status) + " " + c.Reason
	}
	return values
}

func nodeConditions(obj any) map[string]string {
	node := obj.(*corev1.Node)
	values := map[string]string{}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			values[string(c.Type)] = string(c.Status) + " " + c.Reason
		}
	}
	var taints []string
	for _, taint := range node.Spec.Taints {
		taints = append(taints, taint.Key+":"+string(taint.Effect))
	}
	sort.Strings(taints)
	values["taints"] = strings.Join(taints, ",")
	return values
}

func deploymentConditions(obj any) map[string]string {
	values := map[string]string{}
	for _, c := range obj.(*appsv1.Deployment).Status.Conditions {
		values[string(c.Type)] = string(c.Status) + " " + c.Reason
	}
	return values
}

// story is what happens in the bubble: a rollout, an update, one that never progresses, and the
// loss of a node.
type story struct {
	t  *testing.T
	c  *cluster.Cluster
	cs kubernetes.Interface
	j  *journal
}

func tell(t *testing.T) []transition {
	seed := uint64(7)
	c, err := cluster.Start(t.Context(), cluster.Options{
		Seed: &seed, Settle: time.Millisecond,
		OnMutation: func(err error) { t.Error(err) },
		Nodes: cluster.Nodes{Count: 3, Runtime: func(string) simulated.Options {
			return simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
				switch {
				case op.Verb == simulated.PullImage && strings.Contains(op.Image, "nowhere"):
					return simulated.Outcome{Delay: time.Second, Err: fmt.Errorf("%w: no such image", cri.ErrNotFound)}
				case op.Verb == simulated.PullImage:
					return simulated.Outcome{Delay: 2 * time.Second}
				}
				return simulated.Outcome{}
			}}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &story{t: t, c: c, cs: clientset(t, c.Config()), j: &journal{began: time.Now(), now: map[string]map[string]string{}}}
	stop := s.watch(t.Context())
	s.play(t.Context())
	stop()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return s.j.ordered()
}

// watch starts the journal and returns a function that stops it.
func (s *story) watch(ctx context.Context) (stop func()) {
	pods, err := s.cs.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	nodes, err := s.cs.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	deployments, err := s.cs.AppsV1().Deployments("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.j.follow(pods, "pod", podConditions)
	s.j.follow(nodes, "node", nodeConditions)
	s.j.follow(deployments, "deployment", deploymentConditions)
	return func() {
		pods.Stop()
		nodes.Stop()
		deployments.Stop()
		s.j.done.Wait()
	}
}

func (s *story) play(ctx context.Context) {
	deployment := deploymentOf("web", 3)
	deadline := int32(60)
	deployment.Spec.ProgressDeadlineSeconds = &deadline
	if _, err := s.cs.AppsV1().Deployments("default").Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(30 * time.Second)
	s.image(ctx, "nginx:2")
	time.Sleep(60 * time.Second)
	s.image(ctx, "nowhere:3")
	time.Sleep(120 * time.Second)
	s.image(ctx, "nginx:2")
	time.Sleep(60 * time.Second)

	victim := s.nodeOfAPod(ctx)
	node, err := s.c.Node(victim)
	if err != nil {
		s.t.Fatal(err)
	}
	node.Stop()
	time.Sleep(8 * time.Minute)
}

func (s *story) image(ctx context.Context, image string) {
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":%q}]}}}}`, image)
	if _, err := s.cs.AppsV1().Deployments("default").Patch(ctx, "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) nodeOfAPod(ctx context.Context) string {
	pods, err := podsOf(ctx, s.cs, "web")
	if err != nil || len(pods) != 3 {
		s.t.Fatalf("%d pods: %v", len(pods), err)
	}
	return pods[0].Spec.NodeName
}

// TestVirtualTime plays the story once and checks what happened when.
func TestVirtualTime(t *testing.T) {
	var list []transition
	synctest.Test(t, func(t *testing.T) { list = tell(t) })
	t.Log(describe(list))
	find := func(from int, object, what string) transition {
		t.Helper()
		for _, tr := range list {
			if tr.second >= from && strings.HasPrefix(tr.object, object) && tr.what == what {
				return tr
			}
		}
		t.Fatalf("from second %d on, no %s of %s", from, what, object)
		return transition{}
	}
	at := func(from, want int, object, what string) transition {
		t.Helper()
		tr := find(from, object, what)
		if tr.second != want {
			t.Errorf("%s of %s at second %d, want %d", what, object, tr.second, want)
		}
		return tr
	}
	// Pulling takes two seconds: the rollout one pull, the update, a pod at a time, three.
	at(0, 2, "deployment/web", "Progressing=True NewReplicaSetAvailable")
	at(30, 36, "deployment/web", "Progressing=True NewReplicaSetAvailable")
	// The image that does not exist runs into the deadline of 60 s, noticed a second later.
	at(90, 151, "deployment/web", "Progressing=False ProgressDeadlineExceeded")
	at(210, 210, "deployment/web", "Progressing=True NewReplicaSetAvailable")
	// The node falls silent at 270 s. Its last heartbeat is up to 10 s old; 50 s after it, at the
	// next pass of the monitor, the node is unknown, and its pods go 300 s later.
	lost := find(270, "node/", "Ready=Unknown NodeStatusUnknown")
	if lost.second < 310 || lost.second > 325 {
		t.Errorf("node lost at second %d", lost.second)
	}
	evicted := at(lost.second, lost.second+300, "pod/web", "deletion=begun")
	created := at(lost.second+300, lost.second+300, "pod/web", "phase=Pending")
	if created.object == evicted.object {
		t.Errorf("%s replaces itself", created.object)
	}
	running := find(lost.second+300, created.object, "phase=Running")
	if running.second > lost.second+303 {
		t.Errorf("the replacement runs at second %d", running.second)
	}
	for _, tr := range list {
		if tr.object == created.object && tr.what == "node="+strings.TrimPrefix(lost.object, "node/") {
			t.Errorf("the replacement went to the lost node")
		}
	}
}

func describe(list []transition) string {
	var b strings.Builder
	for _, tr := range list {
		fmt.Fprintf(&b, "\n%v", tr)
	}
	return b.String()
}

// TestVirtualTimeRepeats plays the story a hundred times: the same things happen to the same
// objects at the same seconds, in the same order.
func TestVirtualTimeRepeats(t *testing.T) {
	runs := 100
	if testing.Short() {
		runs = 10
	}
	var first []transition
	var virtual time.Duration
	began := time.Now()
	for run := range runs {
		var list []transition
		synctest.Test(t, func(t *testing.T) {
			born := time.Now()
			list = tell(t)
			virtual = time.Since(born)
		})
		if run == 0 {
			first = list
			continue
		}
		if !slices.Equal(list, first) {
			t.Fatalf("run %d differs from the first: %s", run, difference(first, list))
		}
	}
	// The benchmark reads this line.
	t.Logf("%d runs of %.0f s of cluster time, %.1f ms of wall time each", runs, virtual.Seconds(), float64(time.Since(began).Microseconds())/1000/float64(runs))
}

func difference(a, b []transition) string {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return fmt.Sprintf("more: %v", b[i])
		case i >= len(b):
			return fmt.Sprintf("lacks: %v", a[i])
		case a[i] != b[i]:
			return fmt.Sprintf("\n%v\n%v", a[i], b[i])
		}
	}
	return "nothing"
}
