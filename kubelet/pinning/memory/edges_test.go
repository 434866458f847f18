package memory_test

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/pinning/memory"
	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

// uneven is the policy of a machine whose nodes have so many GiB, of which node 0 has one more that is reserved.
func uneven(t testing.TB, sizes ...uint64) *memory.Policy {
	t.Helper()
	m := memory.Machine{}
	for id, size := range sizes {
		m[id] = memory.NodeMemory{Memory: size * gib}
	}
	m[0] = memory.NodeMemory{Memory: m[0].Memory + gib}
	amount := corev1.ResourceList{"memory": resource.MustParse("1Gi")}
	p, err := memory.New(m, []memory.Reservation{{Node: 0, Limits: amount}}, amount)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// with is a container that has the huge pages, too.
func with(c corev1.Container, hugepages, size string) corev1.Container {
	c.Resources.Requests = c.Resources.Requests.DeepCopy()
	c.Resources.Requests[corev1.ResourceName(corev1.ResourceHugePagesPrefix+hugepages)] = resource.MustParse(size)
	c.Resources.Limits = c.Resources.Requests
	return c
}

func sidecar(c corev1.Container) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

// TestPlacesAmongMany: on which nodes a container's memory is, on machines with nodes of many sizes.
func TestPlacesAmongMany(t *testing.T) {
	type other struct {
		size string
		on   []int
	}
	for name, c := range map[string]struct {
		nodes  []uint64 // in GiB
		before []other
		size   string
		hint   numa.Hint
		want   string // or the error
	}{
		"the preferred that is asked for":      {[]uint64{4, 4}, nil, "1Gi", numa.Hint{Preferred: true}, "[0]"},
		"lower numbers in all":                 {[]uint64{1, 3, 3, 5}, nil, "6Gi", numa.Hint{}, "[1 2]"},
		"the fewest of those not preferred":    {[]uint64{4, 1, 1, 1}, []other{{"3Gi", []int{0}}}, "2Gi", numa.Hint{}, "[1 2]"},
		"a hint to the last byte":              {[]uint64{4, 4}, []other{{"5Gi", []int{0, 1}}}, "3Gi", numa.Hint{Nodes: numa.MaskOf(0, 1), Preferred: true}, "[0 1]"},
		"a hint that is too small":             {[]uint64{4, 4}, []other{{"5Gi", []int{0, 1}}}, "2Gi", numa.Hint{Nodes: numa.MaskOf(0)}, "[0 1]"},
		"more than the hint where less may do": {[]uint64{4, 4}, []other{{"5Gi", []int{0, 1}}}, "2Gi", numa.Hint{Nodes: numa.MaskOf(0), Preferred: true}, "[memorymanager] failed to find the extended preferred hint"},
		"one of a group that exists":           {[]uint64{4, 4, 4}, []other{{"5Gi", []int{0, 1}}}, "5Gi", numa.Hint{}, "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"},
		"beside a group that exists":           {[]uint64{4, 4, 4}, []other{{"5Gi", []int{0, 1}}}, "4Gi", numa.Hint{}, "[2]"},
		"two groups":                           {[]uint64{4, 4, 4, 4}, []other{{"5Gi", []int{0, 1}}}, "5Gi", numa.Hint{}, "[2 3]"},
	} {
		t.Run(name, func(t *testing.T) {
			p := uneven(t, c.nodes...)
			s := start(t, p)
			var err error
			for i, o := range c.before {
				if s, err = all(p, s, pod(fmt.Sprint("other", i), nil, sized("main", o.size)), numa.Hint{Nodes: numa.MaskOf(o.on...)}); err != nil {
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

// TestNotGiven: containers that get nothing to themselves leave the state as it is.
func TestNotGiven(t *testing.T) {
	p := policy(t, 2)
	s, err := all(p, start(t, p), pod("a", nil, sized("main", "1Gi")), numa.Hint{})
	if err != nil {
		t.Fatal(err)
	}
	whole := pod("whole", nil, sized("main", "1Gi"))
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: sized("", "1Gi").Resources.Limits, Limits: sized("", "1Gi").Resources.Limits}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"already given":       {pod("a", nil, sized("main", "1Gi")), "<nil>"},
		"burstable":           {pod("b", nil, corev1.Container{Name: "main"}), "<nil>"},
		"pod-level resources": {whole, "<nil>"},
		"not whole bytes":     {pod("c", nil, sized("main", "1500m")), "[memorymanager] failed to represent quantity as int64"},
		"only the second":     {pod("d", nil, corev1.Container{Name: "main"}, sized("more", "1500m")), "<nil>"},
	} {
		got, err := all(p, s, c.pod, numa.Hint{})
		if fmt.Sprint(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if !reflect.DeepEqual(got, s) {
			t.Errorf("%s: %+v, want %+v", name, got, s)
		}
	}
}

// TestBlocks: what each container of a pod has, of memory and of huge pages.
func TestBlocks(t *testing.T) {
	p := policy(t, 1)
	first := start(t, p)
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want map[string][]memory.Block
		free uint64 // of the memory
	}{
		"huge pages": {
			pod("a", nil, with(sized("main", "1Gi"), "2Mi", "256Mi")),
			map[string][]memory.Block{"main": {{Nodes: []int{0}, Type: "hugepages-2Mi", Size: gib / 4}, {Nodes: []int{0}, Type: "memory", Size: gib}}}, 2 * gib,
		},
		"none of the huge pages": {
			pod("a", nil, with(sized("main", "1Gi"), "2Mi", "0")),
			map[string][]memory.Block{"main": {{Nodes: []int{0}, Type: "hugepages-2Mi"}, {Nodes: []int{0}, Type: "memory", Size: gib}}}, 2 * gib,
		},
		"each type again": {
			pod("a", []corev1.Container{with(sized("init", "1Gi"), "2Mi", "512Mi")}, with(sized("main", "2Gi"), "2Mi", "256Mi")),
			map[string][]memory.Block{
				"init": {{Nodes: []int{0}, Type: "hugepages-2Mi", Size: gib / 4}, {Nodes: []int{0}, Type: "memory"}},
				"main": {{Nodes: []int{0}, Type: "hugepages-2Mi", Size: gib / 4}, {Nodes: []int{0}, Type: "memory", Size: 2 * gib}},
			}, gib,
		},
		"not that of a sidecar": {
			pod("a", []corev1.Container{sidecar(sized("sidecar", "1Gi"))}, sized("main", "1Gi")),
			map[string][]memory.Block{
				"sidecar": {{Nodes: []int{0}, Type: "memory", Size: gib}},
				"main":    {{Nodes: []int{0}, Type: "memory", Size: gib}},
			}, gib,
		},
		"by a sidecar": {
			pod("a", []corev1.Container{sized("init", "1Gi"), sidecar(sized("sidecar", "512Mi"))}, sized("main", "1Gi")),
			map[string][]memory.Block{
				"init":    {{Nodes: []int{0}, Type: "memory"}},
				"sidecar": {{Nodes: []int{0}, Type: "memory", Size: gib / 2}},
				"main":    {{Nodes: []int{0}, Type: "memory", Size: gib}},
			}, gib + gib/2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := all(p, first, c.pod, numa.Hint{})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Own[c.pod.UID]; !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if got := s.Nodes[0].Memory["memory"].Free; got != c.free {
				t.Errorf("%d bytes are free, want %d", got, c.free)
			}
			if s = s.Without(func(types.UID) bool { return false }); !reflect.DeepEqual(s, first) {
				t.Errorf("%+v is left, want %+v", s, first)
			}
		})
	}
}

// TestPodHints: what all containers of a pod need at once decides where it can be.
func TestPodHints(t *testing.T) {
	const one, two = "map[memory:[{1 true} {2 true} {3 false}]]", "map[memory:[{3 true}]]"
	sizes := []string{"1Gi", "2Gi", "3Gi", "4Gi"}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"the sum of the containers":              {pod("a", nil, sized("main", sizes[1]), sized("more", sizes[1])), one},
		"a sum that is too much":                 {pod("a", nil, sized("main", sizes[1]), sized("more", sizes[2])), two},
		"the largest init container":             {pod("a", []corev1.Container{sized("init", sizes[3]), sized("next", sizes[0])}, sized("main", sizes[0])), one},
		"an init container that is too large":    {pod("a", []corev1.Container{sized("init", "5Gi"), sized("next", sizes[0])}, sized("main", sizes[0])), two},
		"a sidecar beside containers":            {pod("a", []corev1.Container{sidecar(sized("sidecar", sizes[2]))}, sized("main", sizes[0])), one},
		"a sidecar that leaves too little":       {pod("a", []corev1.Container{sidecar(sized("sidecar", sizes[2]))}, sized("main", sizes[1])), two},
		"several sidecars":                       {pod("a", []corev1.Container{sidecar(sized("one", sizes[1])), sidecar(sized("two", sizes[1]))}, sized("main", sizes[0])), two},
		"a sidecar before an init container":     {pod("a", []corev1.Container{sidecar(sized("sidecar", sizes[1])), sized("init", sizes[2])}, sized("main", sizes[0])), two},
		"a sidecar after an init container":      {pod("a", []corev1.Container{sized("init", sizes[2]), sidecar(sized("sidecar", sizes[1]))}, sized("main", sizes[0])), one},
		"more than there is":                     {pod("a", nil, sized("main", "9Gi")), "map[]"},
		"not whole bytes":                        {pod("a", nil, sized("main", "1500m")), "map[]"},
		"not whole bytes of an init container":   {pod("a", []corev1.Container{sized("init", "1500m")}, sized("main", sizes[0])), "map[]"},
		"not whole bytes of one of the regulars": {pod("a", nil, sized("main", sizes[0]), sized("more", "1500m")), "map[]"},
	} {
		p := uneven(t, 4, 4)
		got := p.PodHints(start(t, p), c.pod)
		if fmt.Sprint(got) != c.want || c.want == "map[]" && got != nil {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// TestHintsOfEach: a set of nodes is a hint only if it has enough of everything.
func TestHintsOfEach(t *testing.T) {
	p := policy(t, 2)
	s := start(t, p)
	hints := func(size, pages string) string {
		c := with(sized("main", size), "2Mi", pages)
		return fmt.Sprint(p.Hints(s, pod("a", nil, c), &c))
	}
	for range 20 { // the resources are looked at in any order
		if got, want := hints("3200Mi", "256Mi"), "map[hugepages-2Mi:[{2 true} {3 false}] memory:[{2 true} {3 false}]]"; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if got, want := hints("1Gi", "768Mi"), "map[hugepages-2Mi:[{3 true}] memory:[{3 true}]]"; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	taken, err := all(p, s, pod("other", nil, with(sized("main", "1Gi"), "2Mi", "512Mi")), numa.Hint{})
	if err != nil {
		t.Fatal(err)
	}
	c := with(sized("main", "1Gi"), "2Mi", "256Mi")
	for range 20 {
		if got, want := fmt.Sprint(p.Hints(taken, pod("a", nil, c), &c)), "map[hugepages-2Mi:[{2 true}] memory:[{2 true}]]"; got != want {
			t.Fatalf("when one is taken: %s, want %s", got, want)
		}
	}
	if got := hints("1Gi", "2Gi"); got != "map[]" {
		t.Errorf("more than there is: %s", got)
	}
}

// TestHintsOfWhatIsGiven: a container that has memory has hints only while this is what it wants.
func TestHintsOfWhatIsGiven(t *testing.T) {
	p := policy(t, 2)
	given := func(blocks ...memory.Block) memory.State {
		s := start(t, p)
		s.Own["a"] = map[string][]memory.Block{"main": blocks}
		return s
	}
	on := []int{1}
	for name, c := range map[string]struct {
		state     memory.State
		container corev1.Container
		want      string
	}{
		"the same":           {given(memory.Block{Nodes: on, Type: "memory", Size: gib}), sized("main", "1Gi"), "map[memory:[{2 true}]]"},
		"less":               {given(memory.Block{Nodes: on, Type: "memory", Size: gib / 2}), sized("main", "1Gi"), "map[]"},
		"huge pages are new": {given(memory.Block{Nodes: on, Type: "memory", Size: gib}), with(sized("main", "1Gi"), "2Mi", "2Mi"), "map[]"},
		"of another size":    {given(memory.Block{Nodes: on, Type: "memory", Size: gib}, memory.Block{Nodes: on, Type: "hugepages-1Gi"}), with(sized("main", "1Gi"), "2Mi", "2Mi"), "map[]"},
		"of each": {
			given(memory.Block{Nodes: on, Type: "hugepages-2Mi", Size: gib / 4}, memory.Block{Nodes: on, Type: "memory", Size: gib}),
			with(sized("main", "1Gi"), "2Mi", "256Mi"), "map[hugepages-2Mi:[{2 true}] memory:[{2 true}]]",
		},
	} {
		for kind, got := range map[string]numa.Hints{"container": p.Hints(c.state, pod("a", nil, c.container), &c.container), "pod": p.PodHints(c.state, pod("a", nil, c.container))} {
			if fmt.Sprint(got) != c.want || c.want == "map[]" && got != nil {
				t.Errorf("%s, of the %s: %v, want %s", name, kind, got, c.want)
			}
		}
	}
}
