package memory_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/pinning/memory"
	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

const gib = 1 << 30

// machine has so many nodes of 4 GiB each.
func machine(nodes int) memory.Machine {
	m := memory.Machine{}
	for id := range nodes {
		m[id] = memory.NodeMemory{Memory: 4 * gib, Hugepages: map[uint64]uint64{2 << 20: gib / 2}}
	}
	return m
}

// policy reserves half a GiB on node 0: 3 GiB are left there, and 3.5 on others.
func policy(t testing.TB, nodes int) *memory.Policy {
	t.Helper()
	amount := corev1.ResourceList{"memory": resource.MustParse("512Mi")}
	p, err := memory.New(machine(nodes), []memory.Reservation{{Node: 0, Limits: amount}}, amount)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func start(t testing.TB, p *memory.Policy) memory.State {
	t.Helper()
	s, err := p.Restore(memory.State{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sized(name, size string) corev1.Container {
	list := corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse(size)}
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}
}

func pod(uid string, inits []corev1.Container, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Spec: corev1.PodSpec{InitContainers: inits, Containers: containers}}
}

func all(p *memory.Policy, s memory.State, pod *corev1.Pod, hint numa.Hint) (memory.State, error) {
	var err error
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if s, err = p.Allocate(s, pod, &c, hint); err != nil {
			return s, err
		}
	}
	return s, nil
}

// TestPlaces: on which nodes a container's memory is, after others.
func TestPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		before []string // the sizes of others
		size   string
		hint   numa.Hint
		want   string // or the error
	}{
		"the first":        {nil, "2Gi", numa.Hint{}, "[0]"},
		"where there is":   {nil, "3500Mi", numa.Hint{}, "[1]"},
		"the next":         {[]string{"2Gi"}, "2Gi", numa.Hint{}, "[1]"},
		"several":          {nil, "5Gi", numa.Hint{}, "[0 1]"},
		"the hint's":       {nil, "1Gi", numa.Hint{Nodes: numa.MaskOf(1), Preferred: true}, "[1]"},
		"more than a hint": {nil, "5Gi", numa.Hint{Nodes: numa.MaskOf(1), Preferred: true}, "[0 1]"},
		"too much":         {nil, "7Gi", numa.Hint{}, "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"},
		"none left":        {[]string{"2Gi", "2Gi"}, "2Gi", numa.Hint{}, "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"},
		"single, then several": {[]string{"1Gi"}, "5Gi", numa.Hint{Nodes: numa.MaskOf(0, 1)},
			"[memorymanager] preferred hint violates NUMA node allocation"},
		"a hint without room": {[]string{"2Gi"}, "2Gi", numa.Hint{Nodes: numa.MaskOf(0)}, "[memorymanager] failed to find NUMA nodes to extend the current topology hint"},
		"several again":       {[]string{"4Gi"}, "2Gi", numa.Hint{}, "[0 1]"},
		"not the preferred":   {[]string{"4Gi"}, "2Gi", numa.Hint{Preferred: true}, "[memorymanager] failed to find the default preferred hint"},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy(t, 2)
			s := start(t, p)
			var err error
			for i, size := range c.before {
				if s, err = all(p, s, pod(fmt.Sprint("other", i), nil, sized("main", size)), numa.Hint{}); err != nil {
					t.Fatal(err)
				}
			}
			s, err = all(p, s, pod("a", nil, sized("main", c.size)), c.hint)
			got := fmt.Sprint(s.Of("a", "main"))
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestInitContainers: the memory of init containers is used again, and all of it is free when the pod has gone.
func TestInitContainers(t *testing.T) {
	p := policy(t, 1)
	first := start(t, p)
	s, err := all(p, first, pod("a", []corev1.Container{sized("one", "2Gi"), sized("two", "1Gi")}, sized("main", "1Gi"), sized("more", "1536Mi")), numa.Hint{})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Nodes[0].Memory["memory"]; got.Reserved != 2*gib+gib/2 || got.Free != gib/2 {
		t.Errorf("%+v", got)
	}
	if s, err = p.Restore(s); err != nil {
		t.Error(err)
	}
	if s = s.Without(func(types.UID) bool { return false }); !reflect.DeepEqual(s, first) {
		t.Errorf("%+v, want %+v", s, first)
	}
}

// TestHints: where a container's memory, or that of a pod, could be.
func TestHints(t *testing.T) {
	p := policy(t, 2)
	s := start(t, p)
	c := sized("main", "3400Mi")
	if got := p.Hints(s, pod("a", nil, c), &c); fmt.Sprint(got) != "map[memory:[{2 true} {3 false}]]" {
		t.Error(got)
	}
	both := pod("b", []corev1.Container{sized("init", "1Gi")}, sized("main", "2Gi"), sized("more", "2Gi"))
	if got := p.PodHints(s, both); fmt.Sprint(got) != "map[memory:[{3 true}]]" {
		t.Error(got)
	}
	burstable := pod("c", nil, c, corev1.Container{Name: "none"})
	if p.Hints(s, burstable, &c) != nil || p.PodHints(s, burstable) != nil {
		t.Error("a burstable pod has hints")
	}
	single := pod("d", nil, c)
	s, err := all(p, s, single, numa.Hint{})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Hints(s, single, &c); fmt.Sprint(got) != "map[memory:[{2 true}]]" || fmt.Sprint(p.PodHints(s, single)) != fmt.Sprint(got) {
		t.Error(got)
	}
}

// TestNew: what is reserved on the nodes must be what the node keeps.
func TestNew(t *testing.T) {
	list := func(size string) corev1.ResourceList { return corev1.ResourceList{"memory": resource.MustParse(size)} }
	for want, c := range map[string]struct {
		reserved []memory.Reservation
		amounts  corev1.ResourceList
	}{
		"<nil>": {[]memory.Reservation{{Node: 0, Limits: list("1Gi")}, {Node: 1, Limits: list("1Gi")}}, list("2Gi")},
		`the total amount "1Gi" of type "memory" is not equal to the value "2Gi" determined by Node Allocatable feature`: {[]memory.Reservation{{Node: 0, Limits: list("1Gi")}}, list("2Gi")},
		"the reserved memory configuration references a NUMA node 2 that does not exist on this machine":                 {[]memory.Reservation{{Node: 2, Limits: list("1Gi")}}, list("1Gi")},
		"[memorymanager] you should specify the system reserved memory":                                                  {nil, nil},
	} {
		if _, err := memory.New(machine(2), c.reserved, c.amounts); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRestore: a state that does not suit the machine is refused.
func TestRestore(t *testing.T) {
	p := policy(t, 2)
	s, err := all(p, start(t, p), pod("a", nil, sized("main", "1Gi")), numa.Hint{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Restore(s); err != nil {
		t.Error(err)
	}
	other := "[memorymanager] the expected machine state is different from the real one"
	for want, change := range map[string]func(s *memory.State){
		"[memorymanager] machine state can not be empty when it has memory assignments":                            func(s *memory.State) { s.Nodes = nil },
		"[memorymanager] (pod: a, container: main) the memory assignment uses the NUMA that does not exist":        func(s *memory.State) { s.Own["a"]["main"][0].Nodes = []int{2} },
		"[memorymanager] (pod: a, container: main) the memory assignment uses memory resource that does not exist": func(s *memory.State) { s.Own["a"]["main"][0].Type = "hugepages-1Gi" },
		other: func(s *memory.State) { s.Own["a"]["main"][0].Size++ },
	} {
		changed := s.Clone()
		change(&changed)
		if _, err := p.Restore(changed); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := policy(t, 3).Restore(s); fmt.Sprint(err) != other {
		t.Errorf("another machine: %v", err)
	}
}

// TestAnyHistory: whatever comes and goes, nothing is given away twice or lost, and a state survives a restart.
func TestAnyHistory(t *testing.T) {
	for seed := range 60 {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		p := policy(t, 1+r.IntN(4))
		first := start(t, p)
		s := first
		var live []types.UID
		size := func() string { return fmt.Sprint(1+r.IntN(12)) + "00Mi" }
		for i := range 30 {
			if len(live) > 0 && r.IntN(3) == 0 {
				gone := live[0]
				live = live[1:]
				s = s.Without(func(uid types.UID) bool { return uid != gone })
			} else if next, err := all(p, s, pod(fmt.Sprint(i), []corev1.Container{sized("init", size())}, sized("main", size()), sized("more", size())), numa.Hint{}); err == nil {
				s, live = next, append(live, types.UID(fmt.Sprint(i)))
			}
			var given, reserved uint64
			for _, pod := range s.Own {
				for _, blocks := range pod {
					for _, b := range blocks {
						given += b.Size
					}
				}
			}
			for id, n := range s.Nodes {
				table := n.Memory["memory"]
				reserved += table.Reserved
				if table.Free+table.Reserved != table.Allocatable {
					t.Fatalf("seed %d: node %d: %+v", seed, id, table)
				}
			}
			if given != reserved {
				t.Fatalf("seed %d: %d bytes are given, %d reserved", seed, given, reserved)
			}
			if _, err := p.Restore(s); err != nil {
				t.Fatalf("seed %d: a restart: %v", seed, err)
			}
		}
		if s = s.Without(func(types.UID) bool { return false }); !reflect.DeepEqual(s, first) {
			t.Fatalf("seed %d: %+v is left, not %+v", seed, s, first)
		}
	}
}

func Example() {
	amount := corev1.ResourceList{"memory": resource.MustParse("512Mi")}
	policy, err := memory.New(memory.Machine{0: {Memory: 4 * gib}, 1: {Memory: 4 * gib}}, []memory.Reservation{{Node: 0, Limits: amount}}, amount)
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := policy.Restore(memory.State{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := pod("uid", nil, sized("main", "4Gi"))
	state, err = policy.Allocate(state, pod, &pod.Spec.Containers[0], numa.Hint{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(state.Of("uid", "main"))
	// Output: [1]
}
