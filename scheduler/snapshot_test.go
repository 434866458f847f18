package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/schedulertest"
)

// sorted removes what may differ between states of the same content: generations, and the order of pods and
// ports.
func sorted(s *scheduler.Snapshot) []scheduler.NodeInfo {
	var infos []scheduler.NodeInfo
	for _, n := range s.Nodes() {
		c := *n
		c.Generation, c.Affine = 0, nil
		c.Pods, c.Ports = nil, slices.Clone(n.Ports)
		for _, p := range n.Pods { // parsed selectors cannot be compared
			plain := *p
			if plain.Affinity = nil; slices.Contains(n.Affine, p) != (p.Affinity != nil) {
				panic("a pod with affinity is not among those")
			}
			c.Pods = append(c.Pods, &plain)
		}
		slices.SortFunc(c.Pods, func(a, b *scheduler.PodInfo) int {
			return cmpString(string(a.Pod.UID), string(b.Pod.UID))
		})
		slices.SortFunc(c.Ports, func(a, b scheduler.HostPort) int {
			return cmpString(a.IP+string(a.Protocol)+string(a.Port), b.IP+string(b.Protocol)+string(b.Port))
		})
		infos = append(infos, c)
	}
	return infos
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// world is the input of a State, kept as plain lists.
type world struct {
	nodes map[string]*corev1.Node
	pods  map[string]*corev1.Pod
}

func (w *world) rebuild() *scheduler.Snapshot {
	var nodes []*corev1.Node
	for _, n := range w.nodes {
		nodes = append(nodes, n)
	}
	var pods []*corev1.Pod
	for _, p := range w.pods {
		pods = append(pods, p)
	}
	return scheduler.NewSnapshot(nodes, pods)
}

// step changes the world and the state alike.
func (w *world) step(r *rand.Rand, s *scheduler.State) {
	const nodes, pods = 5, 25
	n := schedulertest.RandomNode(r, r.IntN(nodes))
	p := schedulertest.RandomPod(r, r.IntN(pods))
	old := w.pods[string(p.UID)]
	switch r.IntN(5) {
	case 0:
		s.SetNode(n)
		w.nodes[n.Name] = n
	case 1:
		s.RemoveNode(n.Name)
		delete(w.nodes, n.Name)
	case 2, 3:
		p.Spec.NodeName = n.Name
		if old != nil { // bound pods keep their node
			p.Spec.NodeName = old.Spec.NodeName
		}
		if old != nil && r.IntN(2) == 0 { // only a new status
			p = old.DeepCopy()
			p.Status.Phase = corev1.PodRunning
		}
		s.SetPod(p)
		w.pods[string(p.UID)] = p
	case 4:
		if old != nil {
			if !s.RemovePod(old) {
				panic("the pod was not there")
			}
			delete(w.pods, string(old.UID))
		}
	}
}

func TestStateEqualsRebuiltSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		w := world{nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{}}
		var s scheduler.State
		type kept struct {
			snapshot *scheduler.Snapshot
			then     []scheduler.NodeInfo
		}
		var history []kept
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.step(r, &s)
			snapshot := s.Snapshot()
			if want := sorted(w.rebuild()); !equality.Semantic.DeepEqual(sorted(snapshot), want) {
				t.Fatalf("(-want +got)\n%s", cmp.Diff(want, sorted(snapshot), cmp.Comparer(resource.Quantity.Equal)))
			}
			for _, image := range []string{"nginx", "redis:7", "nginx:latest"} {
				if got, want := snapshot.NodesWithImage(image), w.rebuild().NodesWithImage(image); got != want {
					t.Fatalf("%d nodes have %s, want %d", got, image, want)
				}
			}
			history = append(history, kept{snapshot, sorted(snapshot)})
		}
		for i, k := range history {
			if !equality.Semantic.DeepEqual(sorted(k.snapshot), k.then) {
				t.Fatalf("snapshot %d changed after it was taken", i)
			}
		}
	})
}

func TestSnapshotForks(t *testing.T) {
	base := scheduler.NewSnapshot([]*corev1.Node{node("a", "4", "8Gi"), node("b", "4", "8Gi")}, []*corev1.Pod{on(pod("p", "1", "1Gi"), "a")})
	left, right := base.State(), base.State()
	left.SetPod(on(pod("q", "2", ""), "a"))
	right.RemovePod(on(pod("p", "", ""), "a"))
	right.RemoveNode("b")
	for _, tt := range []struct {
		name  string
		s     *scheduler.Snapshot
		cpu   int64
		nodes int
	}{
		{"base", base, 1000, 2}, {"left", left.Snapshot(), 3000, 2}, {"right", right.Snapshot(), 0, 1},
	} {
		if got := tt.s.Node("a").Requested.MilliCPU; got != tt.cpu || len(tt.s.Nodes()) != tt.nodes {
			t.Errorf("%s: %dm on a of %d nodes, want %dm of %d", tt.name, got, len(tt.s.Nodes()), tt.cpu, tt.nodes)
		}
	}
	if base.Node("c") != nil {
		t.Error("found a node that is not there")
	}
}

func TestStateRemembersPodsOfUnknownNodes(t *testing.T) {
	var s scheduler.State
	s.SetPod(on(pod("early", "1", ""), "a"))
	if len(s.Snapshot().Nodes()) != 0 {
		t.Error("an unknown node is in the snapshot")
	}
	s.SetNode(node("a", "4", "8Gi"))
	s.RemoveNode("a")
	s.SetNode(node("a", "4", "8Gi"))
	if got := s.Snapshot().Node("a").Requested.MilliCPU; got != 1000 {
		t.Errorf("%dm are requested", got)
	}
	s.SetPod(pod("unbound", "1", ""))
	if s.RemovePod(pod("unbound", "1", "")) {
		t.Error("a pod without node was somewhere")
	}
}

func TestGenerationsGrow(t *testing.T) {
	var s scheduler.State
	last := s.Snapshot().Generation()
	grew := func(what string, want bool) {
		t.Helper()
		if got := s.Snapshot().Generation(); got > last != want {
			t.Errorf("%s: generation %d after %d", what, got, last)
		}
		last = s.Snapshot().Generation()
	}
	s.SetNode(node("a", "1", "1"))
	grew("node added", true)
	s.SetPod(on(pod("p", "1", "1"), "a"))
	grew("pod added", true)
	if s.Snapshot().Node("a").Generation != last {
		t.Error("the node's generation is another")
	}
	s.RemovePod(on(pod("q", "1", "1"), "a"))
	grew("nothing removed", false)
	s.RemoveNode("b")
	grew("no node removed", false)
	s.SetPod(pod("p", "1", "1"))
	grew("pod without node", false)
	s.SetNode(node("a", "2", "1"))
	grew("node changed", true)
	if s.Snapshot().Node("a").Generation != last {
		t.Error("the changed node's generation is another")
	}
	s.RemoveNode("a")
	grew("node removed", true)
	if s.RemovePod(on(pod("q", "1", "1"), "a")) {
		t.Error("a pod that is not there was removed")
	}
	grew("nothing removed from a node that is gone", false)
	for _, step := range []struct {
		pod, node string
		is        bool
	}{{"x", "", false}, {"x", "a", true}, {"x", "", true}, {"x", "", false}, {"x", "a", true}, {"y", "", false}, {"y", "b", true}, {"x", "b", true}} {
		if got := s.Nominate(pod(step.pod, "", ""), step.node); got != step.is {
			t.Errorf("%s is expected on %q: new is %t", step.pod, step.node, got)
		}
		grew(fmt.Sprintf("%s is expected on %q", step.pod, step.node), step.is)
	}
	s.SetPod(pod("x", "", "")) // has no node yet
	same(t, 2, len(s.Snapshot().Nominated("b")))
	grew("an expected pod", false)
	s.SetPod(on(pod("x", "", ""), "a"))
	same(t, 1, len(s.Snapshot().Nominated("b")))
}

// Snapshots share what did not change, and nothing that does.
func TestSnapshotsShareNoPods(t *testing.T) {
	n := node("n", "9", "9Gi")
	base := scheduler.NewSnapshot([]*corev1.Node{n}, []*corev1.Pod{on(pod("a", "1", ""), "n"), on(pod("b", "1", ""), "n"), on(pod("c", "1", ""), "n")})
	x, y := base.State(), base.State()
	x.SetPod(on(pod("x", "1", ""), "n"))
	y.SetPod(on(pod("y", "1", ""), "n"))
	for name, s := range map[string]*scheduler.State{"x": x, "y": y} {
		if got := s.Snapshot().Node("n").Pods[3].Pod.Name; got != name {
			t.Errorf("%s is where %s is", got, name)
		}
	}
}

func TestNewNodeInfo(t *testing.T) {
	n := node("n", "9", "9Gi")
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"a", "a:latest"}, SizeBytes: 5}, {Names: []string{"b"}, SizeBytes: 7}}
	port := pod("port", "1", "1Gi")
	port.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
	info := scheduler.NewNodeInfo(n, pod("one", "1", ""), port)
	same(t, map[string]int64{"a": 5, "a:latest": 5, "b": 7}, info.Images)
	same(t, 2, len(info.Pods))
	same(t, 2000, info.Requested.MilliCPU)
	same(t, 2000, info.NonZeroMilliCPU)
	same(t, 1<<30+scheduler.DefaultMemoryRequest, info.NonZeroMemory)
	same(t, 9000, info.Allocatable.MilliCPU)
	same(t, 1, len(info.Ports))

	state := scheduler.NewSnapshot([]*corev1.Node{n}, []*corev1.Pod{on(pod("one", "1", ""), "n"), on(port, "n")}).State()
	moved := on(port, "n")
	moved.Spec.Containers[0].Ports[0].HostPort = 81
	state.SetPod(moved) // by somebody who does not keep to the API's rules
	same(t, []scheduler.HostPort{{IP: "0.0.0.0", Protocol: "TCP", Port: 81}}, state.Snapshot().Node("n").Ports)
	state.RemovePod(moved)
	same(t, nil, state.Snapshot().Node("n").Ports)
	same(t, 1, state.Snapshot().NodesWithImage("a"))
}

// A pod is told by its UID, and by its name when there is none.
func TestPodsOfAState(t *testing.T) {
	of := func(namespace, name, uid string) *corev1.Pod {
		p := on(pod(name, "1", ""), "n")
		p.Namespace, p.UID = namespace, types.UID(uid)
		return p
	}
	all := []*corev1.Pod{of("a", "x", ""), of("a", "y", ""), of("b", "x", ""), of("a", "x", "1"), of("a", "x", "2")}
	nodes := []*corev1.Node{node("n", "9", "9Gi")}
	same(t, len(all), len(scheduler.NewSnapshot(nodes, all).Node("n").Pods))
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	same(t, len(all), len(scheduler.NewSnapshot(nodes, backwards).Node("n").Pods))
	state := scheduler.NewSnapshot(nodes, append(all, all...)).State()
	for i, p := range all {
		same(t, len(all)-i, len(state.Snapshot().Node("n").Pods))
		same(t, true, state.RemovePod(p.DeepCopy()))
		same(t, false, state.RemovePod(p))
	}
}

// Images are counted by node, and snapshots keep their numbers.
func TestNodesWithImage(t *testing.T) {
	with := func(name string, images ...string) *corev1.Node {
		n := node(name, "1", "1Gi")
		for _, image := range images {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{image}})
		}
		return n
	}
	var s scheduler.State
	var before []*scheduler.Snapshot
	steps := []func(){
		func() { s.SetNode(with("a", "x", "y")) },
		func() { s.SetNode(with("b", "x")) },
		func() { s.SetNode(with("a", "y", "z")) },
		func() { s.RemoveNode("b") },
		func() { s.SetNode(with("b", "z")) },
	}
	want := [][3]int{{1, 1, 0}, {2, 1, 0}, {1, 1, 1}, {0, 1, 1}, {0, 1, 2}}
	for _, step := range steps {
		step()
		before = append(before, s.Snapshot())
	}
	for i, b := range before {
		same(t, want[i], [3]int{b.NodesWithImage("x"), b.NodesWithImage("y"), b.NodesWithImage("z")})
	}
}

func TestPodInfo(t *testing.T) {
	whole := pod("whole", "", "")
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	resized := pod("resized", "1", "1Gi")
	resized.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("3"), corev1.ResourceMemory: resource.MustParse("512Mi"),
	}}}
	tests := map[string]struct {
		pod                                    *corev1.Pod
		cpu, memory, nonZeroCPU, nonZeroMemory int64
	}{
		"requests":             {pod("p", "250m", "1Ki"), 250, 1024, 250, 1024},
		"none":                 {pod("p", "", ""), 0, 0, 100, 200 << 20},
		"zero is not none":     {pod("p", "0", "0"), 0, 0, 0, 0},
		"CPU as a whole":       {whole, 2000, 0, 2000, 200 << 20},
		"resized in place":     {resized, 3000, 1 << 30, 3000, 1 << 30},
		"no containers at all": {&corev1.Pod{}, 0, 0, 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := scheduler.NewPodInfo(tt.pod)
			got := []int64{p.Requests.MilliCPU, p.Requests.Memory, p.NonZeroMilliCPU, p.NonZeroMemory}
			if diff := cmp.Diff([]int64{tt.cpu, tt.memory, tt.nonZeroCPU, tt.nonZeroMemory}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResourcesOf(t *testing.T) {
	l := corev1.ResourceList{}
	for name, q := range map[corev1.ResourceName]string{
		"cpu": "1500m", "memory": "1Ki", "ephemeral-storage": "2Ki", "pods": "7",
		"example.com/gpu": "2", "hugepages-2Mi": "4Mi", "attachable-volumes-x": "3", "kubernetes.io/x": "5",
		"storage": "9", "requests.example.com/x": "1", "example.com/zero": "0", "example.com/": "1", "gpu": "1",
	} {
		l[name] = resource.MustParse(q)
	}
	want := scheduler.Resources{MilliCPU: 1500, Memory: 1024, EphemeralStorage: 2048, Pods: 7, Scalars: map[corev1.ResourceName]int64{
		"example.com/gpu": 2, "hugepages-2Mi": 4 << 20, "attachable-volumes-x": 3, "kubernetes.io/x": 5,
	}}
	if diff := cmp.Diff(want, scheduler.ResourcesOf(l)); diff != "" {
		t.Error(diff)
	}
}

// A pod's requests are summed up again after every relevant change.
func TestStateSumsChangedPodsUp(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for name, change := range map[string]func(*corev1.Pod){
		"requests": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
		},
		"overhead": func(p *corev1.Pod) {
			p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		},
		"sidecar": func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, *p.Spec.Containers[0].DeepCopy())
			p.Spec.InitContainers[0].RestartPolicy = &always
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := scheduler.NewSnapshot([]*corev1.Node{node("a", "4", "8Gi")}, []*corev1.Pod{on(pod("p", "1", ""), "a")}).State()
			p := on(pod("p", "1", ""), "a")
			change(p)
			s.SetPod(p)
			want := scheduler.NewPodInfo(p).Requests.MilliCPU
			if got := s.Snapshot().Node("a").Requested.MilliCPU; got != want || got == 1000 {
				t.Errorf("%dm are requested, want %dm", got, want)
			}
		})
	}
}
