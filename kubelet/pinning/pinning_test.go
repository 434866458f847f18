package pinning_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/pinning"
	"github.com/keelson-dev/keelson/kubelet/pinning/cpus"
	"github.com/keelson-dev/keelson/kubelet/pinning/memory"
	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

// node are the pods of a node, and its runtime.
type node struct {
	mu      sync.Mutex
	list    map[types.UID]*corev1.Pod
	fails   error
	updates map[string][]string // the CPUs that each container was told, in order
}

func newNode() *node { return &node{list: map[types.UID]*corev1.Pod{}, updates: map[string][]string{}} }

func (n *node) Pods() []*corev1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Values(n.list))
}

func (n *node) Live(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list[uid] != nil
}

func (n *node) add(pods ...*corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range pods {
		n.list[p.UID] = p
	}
}

func (n *node) remove(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.list, uid)
}

func (n *node) failing(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fails = err
}

func (n *node) UpdateContainerResources(_ context.Context, id string, r cri.Resources) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fails == nil {
		n.updates[id] = append(n.updates[id], r.CPUs)
	}
	return n.fails
}

// told is what a container was told, in order.
func (n *node) told(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.updates[id], " ")
}

const gib = 1 << 30

// machine has two NUMA nodes, each with two cores of two threads and 4 GiB.
func machine() pinning.Machine {
	m := pinning.Machine{CPUs: cpus.Topology{}, Memory: memory.Machine{}}
	for id := range 8 {
		m.CPUs[id] = cpus.CPU{Core: id % 4, Socket: id % 4 / 2, Node: id % 4 / 2, Cache: id % 4 / 2}
	}
	for id := range 2 {
		m.Nodes = append(m.Nodes, numa.Node{ID: id})
		m.Memory[id] = memory.NodeMemory{Memory: 4 * gib}
	}
	return m
}

// static has exclusive CPUs and memory, and reserves CPU 0 and half a GiB.
func static(topology, scope string) pinning.Settings {
	half := corev1.ResourceList{"memory": resource.MustParse("512Mi")}
	return pinning.Settings{
		CPUs:     pinning.CPUSettings{Policy: "static"},
		Memory:   pinning.MemorySettings{Policy: "Static", Reserved: []memory.Reservation{{Node: 0, Limits: half}}},
		Topology: pinning.TopologySettings{Policy: topology, Scope: scope},
		Reserved: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": half["memory"]},
	}
}

func sized(name string, cpu int, size string) corev1.Container {
	list := corev1.ResourceList{"cpu": *resource.NewQuantity(int64(cpu), resource.DecimalSI), "memory": resource.MustParse(size)}
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}
}

// pod is one whose containers run.
func pod(uid string, containers ...corev1.Container) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid)}, Spec: corev1.PodSpec{Containers: containers}}
	for _, c := range containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, ContainerID: "test://" + uid + "-" + c.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	return p
}

func start(t testing.TB, dir string, n *node, s pinning.Settings) *pinning.Allocator {
	t.Helper()
	a, err := pinning.New(dir, machine(), n, n, pinning.Options{Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// pinned is where a container is to run.
func pinned(a *pinning.Allocator, uid types.UID, container string) string {
	r := cri.Resources{CPUPeriod: 100000, CPUQuota: 200000}
	a.Pin(uid, container, &r)
	return fmt.Sprintf("%s on %s, quota %d", r.CPUs, r.MemoryNodes, r.CPUQuota)
}

// TestDefault: without policies, nothing is pinned, and the files say so.
func TestDefault(t *testing.T) {
	dir := t.TempDir()
	a := start(t, dir, newNode(), pinning.Settings{})
	p := pod("a", sized("main", 2, "1Gi"))
	if r := a.Admit(p); r != nil {
		t.Error(r)
	}
	if got := pinned(a, "a", "main"); got != " on , quota 200000" || a.Exclusive("a") {
		t.Error(got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ended); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"cpu_manager_state": `"policyName":"none","defaultCpuSet":""`, "memory_manager_state": `"policyName":"None","machineState":{}`} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: %s, %v", name, data, err)
		}
	}
	_, err := pinning.New(dir, machine(), newNode(), newNode(), pinning.Options{Settings: static("", "")})
	if want := `could not restore state from checkpoint: configured policy "static" differs from state checkpoint policy "none", please drain this node and delete the CPU manager checkpoint file`; err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

// TestAdmit: what pods get, and why others are refused, under each policy about where.
func TestAdmit(t *testing.T) {
	const misplaced = "TopologyAffinityError: Resources cannot be allocated with Topology locality"
	for name, c := range map[string]struct {
		policy, scope string
		pods          []*corev1.Pod
		want          string // of the last pod's containers, or the refusal
	}{
		"a pod":               {"", "", []*corev1.Pod{pod("a", sized("main", 2, "1Gi"))}, "1,5 on 0, quota -1"},
		"memory elsewhere":    {"", "", []*corev1.Pod{pod("a", sized("main", 2, "3700Mi"))}, "1,5 on 1, quota -1"},
		"both on one":         {"single-numa-node", "", []*corev1.Pod{pod("a", sized("main", 2, "3700Mi"))}, "2,6 on 1, quota -1"},
		"too large for one":   {"single-numa-node", "", []*corev1.Pod{pod("a", sized("main", 5, "1Gi"))}, misplaced},
		"on both if it must":  {"restricted", "", []*corev1.Pod{pod("a", sized("main", 5, "6Gi"))}, "2-4,6-7 on 0-1, quota -1"},
		"best effort":         {"best-effort", "", []*corev1.Pod{pod("a", sized("main", 4, "1Gi")), pod("b", sized("main", 3, "6Gi"))}, "[memorymanager]"},
		"one by one":          {"single-numa-node", "container", []*corev1.Pod{pod("a", sized("main", 2, "1Gi"), sized("more", 3, "1Gi"))}, "1,5 on 0, quota -1; 2-3,6 on 1, quota -1"},
		"together":            {"single-numa-node", "pod", []*corev1.Pod{pod("a", sized("main", 2, "1Gi"), sized("more", 2, "1Gi"))}, "2,6 on 1, quota -1; 3,7 on 1, quota -1"},
		"too large together":  {"single-numa-node", "pod", []*corev1.Pod{pod("a", sized("main", 2, "1Gi"), sized("more", 3, "1Gi"))}, misplaced},
		"more than there are": {"", "", []*corev1.Pod{pod("a", sized("main", 8, "1Gi"))}, "UnexpectedAdmissionError: Allocate failed due to not enough cpus available to satisfy request: requested=8, available=7, which is unexpected"},
		"more memory":         {"", "", []*corev1.Pod{pod("a", sized("main", 1, "8Gi"))}, "UnexpectedAdmissionError: Allocate failed due to [memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available, which is unexpected"},
		"not guaranteed":      {"single-numa-node", "", []*corev1.Pod{pod("a", corev1.Container{Name: "main"})}, "0-7 on , quota 200000"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode()
			a := start(t, t.TempDir(), n, static(c.policy, c.scope))
			var got []string
			for _, p := range c.pods {
				n.add(p)
				got = nil
				if r := a.Admit(p); r != nil {
					got = append(got, r.Reason+": "+r.Error())
					n.remove(p.UID)
					continue
				}
				for _, container := range p.Spec.Containers {
					got = append(got, pinned(a, p.UID, container.Name))
				}
			}
			if text := strings.Join(got, "; "); text != c.want && !(c.want == "[memorymanager]" && strings.Contains(text, c.want)) {
				t.Errorf("%s, want %s", text, c.want)
			}
		})
	}
}

// TestRefusedWhole: a pod of which one container cannot have its CPUs gets nothing.
func TestRefusedWhole(t *testing.T) {
	n := newNode()
	a := start(t, t.TempDir(), n, static("", ""))
	p := pod("a", sized("main", 4, "1Gi"), sized("more", 4, "1Gi"))
	n.add(p)
	if r := a.Admit(p); r == nil || r.Reason != pinning.ReasonUnexpected {
		t.Error(r)
	}
	if got := pinned(a, "a", "main"); a.Exclusive("a") || got != "0-7 on , quota 200000" {
		t.Error(got)
	}
	s := static("", "")
	s.CPUs.Options = map[string]string{"full-pcpus-only": "true"}
	a = start(t, t.TempDir(), n, s)
	if r := a.Admit(pod("b", sized("main", 3, "1Gi"))); r == nil || r.Reason != "SMTAlignmentError" {
		t.Error(r)
	}
}

// TestRun: the containers that share CPUs are told when these change, and those that end give theirs back.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, n := t.TempDir(), newNode()
		a := start(t, dir, n, static("", ""))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		admit := func(p *corev1.Pod) {
			n.add(p)
			if r := a.Admit(p); r != nil {
				t.Error(r)
			}
		}
		shared := pod("shared", corev1.Container{Name: "main"}, corev1.Container{Name: "waits"}, corev1.Container{Name: "ended"})
		shared.Status.ContainerStatuses[1].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
		shared.Status.ContainerStatuses[2].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		admit(shared)
		expect := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := n.told("shared-main"); got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		expect(10*time.Second, "0-7")
		admit(pod("own", sized("main", 2, "1Gi")))
		expect(0, "0-7")
		expect(10*time.Second, "0-7 0,2-4,6-7")
		expect(time.Minute, "0-7 0,2-4,6-7")
		if got := n.told("own-main"); got != "1,5" {
			t.Errorf("its own: %q", got)
		}
		n.remove("own")
		n.failing(errors.New("not now"))
		expect(10*time.Second, "0-7 0,2-4,6-7")
		n.failing(nil)
		expect(10*time.Second, "0-7 0,2-4,6-7 0-7")
		if n.told("shared-waits")+n.told("shared-ended") != "" {
			t.Error("containers that do not run are updated")
		}
		if data, err := os.ReadFile(filepath.Join(dir, "cpu_manager_state")); err != nil || strings.Contains(string(data), "entries") {
			t.Errorf("%s, %v", data, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestRestart: a new Allocator goes on, also when the pods are admitted again, and what has ended in the meantime is free. A pod
// without a record gets its CPUs.
func TestRestart(t *testing.T) {
	dir, n := t.TempDir(), newNode()
	a := start(t, dir, n, static("restricted", ""))
	own, other := pod("own", sized("main", 2, "1Gi")), pod("other", sized("main", 2, "1Gi"))
	n.add(own, other)
	if a.Admit(own) != nil || a.Admit(other) != nil {
		t.Fatal("refused")
	}
	want := pinned(a, "own", "main")
	n.remove("other")
	a = start(t, dir, n, static("restricted", ""))
	a.Resume(own)
	if got := pinned(a, "own", "main"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := pinned(a, "other", "main"); got == want || a.Exclusive("other") {
		t.Error(got)
	}
	unknown := pod("unknown", sized("main", 3, "1Gi"))
	n.add(unknown)
	if a.Resume(unknown); !a.Exclusive("unknown") {
		t.Error("a pod without a record shares")
	}
	if a.Resume(pod("more", sized("main", 7, "1Gi"))); a.Exclusive("more") {
		t.Error("CPUs that there are not")
	}
}

// TestResize: guaranteed pods keep what they have.
func TestResize(t *testing.T) {
	n := newNode()
	a := start(t, t.TempDir(), n, static("", ""))
	given := pod("a", sized("main", 2, "1Gi"))
	burstable := func(cpu int) *corev1.Pod { return pod("b", sized("main", cpu, "1Gi"), corev1.Container{Name: "more"}) }
	for want, pods := range map[string][2]*corev1.Pod{
		`Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`:    {given, pod("a", sized("main", 1, "1Gi"))},
		`Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`: {given, pod("a", sized("main", 2, "2Gi"))},
		"":                  {given, given},
		"<a burstable one>": {burstable(1), burstable(2)},
	} {
		r := a.AdmitResize(pods[0], pods[1])
		if strings.HasPrefix(want, "Resize") != (r != nil) || r != nil && (r.Message != want || r.Reason != corev1.PodReasonInfeasible) {
			t.Errorf("%v, want %s", r, want)
		}
	}
	if r := start(t, t.TempDir(), n, pinning.Settings{}).AdmitResize(given, pod("a", sized("main", 1, "2Gi"))); r != nil {
		t.Error(r)
	}
}

// TestNew: settings that do not suit the machine, and files that do not suit the settings.
func TestNew(t *testing.T) {
	for want, change := range map[string]func(s *pinning.Settings){
		`unknown policy: "most"`: func(s *pinning.Settings) { s.CPUs.Policy = "most" },
		`unknown policy: "all"`:  func(s *pinning.Settings) { s.Memory.Policy = "all" },
		`unknown policy: "some"`: func(s *pinning.Settings) { s.Topology.Policy = "some" },
		`unknown scope: "node"`:  func(s *pinning.Settings) { s.Topology.Scope = "node" },
		"None policy: received unsupported options=map[full-pcpus-only:true]": func(s *pinning.Settings) {
			s.CPUs = pinning.CPUSettings{Options: map[string]string{"full-pcpus-only": "true"}}
		},
		"unable to determine reserved CPU resources for static policy": func(s *pinning.Settings) { delete(s.Reserved, "cpu") },
		"reserved-cpus: 8 is not a subset of online-cpus: 0-7":         func(s *pinning.Settings) { s.CPUs.Reserved = cpuset.New(8) },
		"is not equal to the value":                                    func(s *pinning.Settings) { s.Memory.Reserved = nil },
		`unknown CPU Manager Policy option: "x"`:                       func(s *pinning.Settings) { s.CPUs.Options = map[string]string{"x": "true"} },
	} {
		s := static("", "")
		change(&s)
		if _, err := pinning.New(t.TempDir(), machine(), newNode(), newNode(), pinning.Options{Settings: s}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := pinning.New(t.TempDir(), machine(), newNode(), nil, pinning.Options{Settings: static("", "")}); !errors.Is(err, cri.ErrUnsupported) {
		t.Errorf("a runtime that cannot update: %v", err)
	}
	for name, text := range map[string]string{
		"cpu_manager_state":    `{"policyName":"static","defaultCpuSet":"1-7"}`,
		"memory_manager_state": `{"policyName":"Static","machineState":{"0":null}}`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := pinning.New(dir, machine(), newNode(), newNode(), pinning.Options{Settings: static("", "")}); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
}
