package cpus_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/kubelet/pinning/cpus"
	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

// shape is a machine: so many sockets, NUMA nodes in each, and cores in each of these, of so many threads. The first threads of all
// cores come before the second ones.
type shape struct{ sockets, nodes, cores, threads int }

func (s shape) topology() cpus.Topology {
	t := cpus.Topology{}
	cores := s.sockets * s.nodes * s.cores
	for id := range cores * s.threads {
		c := id % cores
		t[id] = cpus.CPU{Core: c, Node: c / s.cores, Socket: c / s.cores / s.nodes, Cache: c / s.cores}
	}
	return t
}

func set(t testing.TB, list string) cpuset.CPUSet {
	t.Helper()
	out, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sized(name, cpu string) corev1.Container {
	list := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")}
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}
}

func sidecar(name, cpu string) corev1.Container {
	c := sized(name, cpu)
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func pod(uid string, inits []corev1.Container, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Spec: corev1.PodSpec{InitContainers: inits, Containers: containers}}
}

func policy(t testing.TB, on cpus.Topology, reserved string, o cpus.Options) *cpus.Policy {
	t.Helper()
	named := set(t, reserved)
	p, err := cpus.New(on, named, *resource.NewQuantity(int64(named.Size()), resource.DecimalSI), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// all gives CPUs to all containers of a pod.
func all(p *cpus.Policy, s cpus.State, pod *corev1.Pod, affinity numa.Mask) (cpus.State, error) {
	var err error
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if s, err = p.Allocate(s, pod, &c, affinity); err != nil {
			return s, err
		}
	}
	return s, nil
}

// TestChoice: which CPUs a container gets follows upstream's order.
func TestChoice(t *testing.T) {
	small, dual, parts := shape{1, 1, 4, 2}, shape{2, 1, 6, 2}, shape{2, 2, 10, 2}
	for name, c := range map[string]struct {
		on       shape
		reserved string
		taken    string // by others
		count    string
		affinity numa.Mask
		options  cpus.Options
		want     string // or the error
	}{
		"half a core":           {small, "0", "", "1", 0, cpus.Options{}, "4"},
		"a core":                {small, "0", "", "2", 0, cpus.Options{}, "1,5"},
		"a core and a half":     {small, "0", "", "3", 0, cpus.Options{}, "1,4-5"},
		"all":                   {small, "0", "", "7", 0, cpus.Options{}, "1-7"},
		"too many":              {small, "0", "", "8", 0, cpus.Options{}, "not enough cpus available to satisfy request: requested=8, available=7"},
		"beside others":         {small, "0", "1", "1", 0, cpus.Options{}, "4"},
		"used cores last":       {small, "0", "1", "2", 0, cpus.Options{}, "2,6"},
		"a socket":              {dual, "0", "", "12", 0, cpus.Options{}, "6-11,18-23"},
		"the fuller socket":     {dual, "0", "", "2", 0, cpus.Options{}, "1,13"},
		"more than a socket":    {dual, "0", "", "14", 0, cpus.Options{}, "1,6-11,13,18-23"},
		"near":                  {dual, "0", "", "2", numa.MaskOf(1), cpus.Options{}, "6,18"},
		"near, and the rest":    {dual, "0", "6-10,18-22", "3", numa.MaskOf(1), cpus.Options{}, "11-12,23"},
		"whole cores":           {small, "0", "", "2", 0, cpus.Options{FullCores: true}, "1,5"},
		"not whole cores":       {small, "0", "", "3", 0, cpus.Options{FullCores: true}, "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"},
		"too few whole cores":   {small, "0", "", "8", 0, cpus.Options{FullCores: true}, "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 6, requested CPUs = 8, CPUs per core = 2"},
		"across nodes":          {dual, "0,12", "", "14", 0, cpus.Options{AcrossNodes: true}, "1-4,6-9,13-15,18-20"},
		"on one node if it can": {dual, "0,12", "", "8", 0, cpus.Options{AcrossNodes: true}, "6-9,18-21"},
		"across nodes, whole":   {parts, "0,40", "", "42", 0, cpus.Options{AcrossNodes: true, FullCores: true}, "10-16,20-26,30-36,50-56,60-66,70-76"},
		"a node of a socket":    {parts, "0,40", "", "20", 0, cpus.Options{}, "10-19,50-59"},
		"a fraction":            {small, "0", "", "1500m", 0, cpus.Options{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy(t, c.on.topology(), c.reserved, c.options)
			s, err := p.Restore(cpus.State{})
			if err != nil {
				t.Fatal(err)
			}
			if c.taken != "" {
				taken := set(t, c.taken)
				s = cpus.State{Shared: s.Shared.Difference(taken), Own: map[types.UID]map[string]cpuset.CPUSet{"other": {"main": taken}}}
			}
			main := sized("main", c.count)
			next, err := p.Allocate(s, pod("a", nil, main), &main, c.affinity)
			got := ""
			if err != nil {
				got = err.Error()
			} else if mine, own := next.Of("a", "main"); own {
				got = mine.String()
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestReserved: CPUs to reserve are chosen by the amount, rounded up.
func TestReserved(t *testing.T) {
	on := shape{1, 1, 4, 2}.topology()
	for amount, want := range map[string]string{
		"1": "0", "500m": "0", "1001m": "0,4", "3": "0-1,4", "8": "0-7",
		"9": "unable to reserve the required amount of CPUs (size of  did not equal 9)",
		"0": "requires systemreserved.cpu + kubereserved.cpu to be greater than zero",
	} {
		p, err := cpus.New(on, cpuset.New(), resource.MustParse(amount), cpus.Options{})
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", amount, err)
			}
			continue
		}
		if got := p.Reserved().String(); got != want {
			t.Errorf("%s: %s, want %s", amount, got, want)
		}
	}
	for _, named := range []string{"0-1", "8"} {
		if _, err := cpus.New(on, set(t, named), resource.MustParse("1"), cpus.Options{}); err == nil {
			t.Errorf("%s may be reserved", named)
		}
	}
	if _, err := cpus.New(nil, cpuset.New(), resource.MustParse("1"), cpus.Options{}); err == nil {
		t.Error("a machine without CPUs")
	}
}

// TestInitContainers: what an init container leaves goes to those after it, but not what a sidecar has.
func TestInitContainers(t *testing.T) {
	p := policy(t, shape{1, 1, 4, 2}.topology(), "0", cpus.Options{})
	s, err := p.Restore(cpus.State{})
	if err != nil {
		t.Fatal(err)
	}
	s, err = all(p, s, pod("a", []corev1.Container{sized("one", "4"), sidecar("proxy", "1"), sized("two", "2")}, sized("main", "3"), sized("more", "500m")), 0)
	if err != nil {
		t.Fatal(err)
	}
	proxy, _ := s.Of("a", "proxy")
	two, _ := s.Of("a", "two")
	main, _ := s.Of("a", "main")
	if proxy.Size() != 1 || !proxy.Intersection(two.Union(main)).IsEmpty() || two.Size() != 2 || main.Size() != 3 {
		t.Errorf("%v", s)
	}
	if _, own := s.Of("a", "more"); own || s.Shared.Size() != 3 {
		t.Errorf("%v", s)
	}
	s = s.Without(func(types.UID) bool { return false })
	if s.Shared.Size() != 8 || len(s.Own) != 0 {
		t.Errorf("%v", s)
	}
}

// TestWanted: only guaranteed pods without resources of their own have CPUs to themselves.
func TestWanted(t *testing.T) {
	main := sized("main", "2")
	burstable := pod("a", nil, main, corev1.Container{Name: "more"})
	sum := pod("a", nil, main)
	sum.Spec.Resources = &main.Resources
	for want, p := range map[int][]*corev1.Pod{2: {pod("a", nil, main)}, 0: {burstable, sum}} {
		for _, p := range p {
			if got := cpus.Wanted(p, &main); got != want {
				t.Errorf("%d, want %d", got, want)
			}
		}
	}
}

// TestRestore: a state that does not suit the machine is refused.
func TestRestore(t *testing.T) {
	on := shape{1, 1, 4, 2}.topology()
	own := func(list string) map[types.UID]map[string]cpuset.CPUSet {
		return map[types.UID]map[string]cpuset.CPUSet{"uid": {"main": set(t, list)}}
	}
	for name, c := range map[string]struct {
		state  cpus.State
		strict bool
		want   string
	}{
		"good":         {cpus.State{Shared: set(t, "0-3"), Own: own("4-7")}, false, ""},
		"good, strict": {cpus.State{Shared: set(t, "1-3"), Own: own("4-7")}, true, ""},
		"no shared":    {cpus.State{Own: own("4-7")}, false, "default cpuset cannot be empty"},
		"reserved":     {cpus.State{Shared: set(t, "1-3"), Own: own("0,4-7")}, false, `not all reserved cpus: "0" are present in defaultCpuSet: "1-3"`},
		"strict":       {cpus.State{Shared: set(t, "0-3"), Own: own("4-7")}, true, `some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-3"`},
		"overlap":      {cpus.State{Shared: set(t, "0-4"), Own: own("4-7")}, false, `pod: uid, container: main cpuset: "4-7" overlaps with default cpuset "0-4"`},
		"more CPUs":    {cpus.State{Shared: set(t, "0-3"), Own: own("4-5")}, false, `current set of available CPUs "0-7" doesn't match with CPUs in state "0-5"`},
		"fewer CPUs":   {cpus.State{Shared: set(t, "0-3"), Own: own("4-8")}, false, `current set of available CPUs "0-7" doesn't match with CPUs in state "0-8"`},
	} {
		_, err := policy(t, on, "0", cpus.Options{StrictReserve: c.strict}).Restore(c.state)
		if got := fmt.Sprint(err); got != c.want && (c.want != "" || err != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOptions: those of upstream, by name.
func TestOptions(t *testing.T) {
	got, err := cpus.ParseOptions(map[string]string{"full-pcpus-only": "true", "distribute-cpus-across-numa": "1", "strict-cpu-reservation": "t", "prefer-align-cpus-by-uncorecache": "false"})
	if err != nil || got != (cpus.Options{FullCores: true, AcrossNodes: true, StrictReserve: true}) {
		t.Errorf("%+v, %v", got, err)
	}
	for want, options := range map[string]map[string]string{
		`unknown CPU Manager Policy option: "x"`:                                                     {"x": "true"},
		`CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided`:  {"align-by-socket": "false"},
		`bad value for option "full-pcpus-only": strconv.ParseBool: parsing "maybe": invalid syntax`: {"full-pcpus-only": "maybe"},
		"static policy options prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa can not be used at the same time": {
			"prefer-align-cpus-by-uncorecache": "true", "distribute-cpus-across-numa": "true"},
	} {
		if _, err := cpus.ParseOptions(options); err == nil || err.Error() != want {
			t.Errorf("%v: %v", options, err)
		}
	}
}

// TestHints: where a container's CPUs could be; fewest nodes are preferred.
func TestHints(t *testing.T) {
	p := policy(t, shape{2, 1, 2, 2}.topology(), "0", cpus.Options{})
	s, err := p.Restore(cpus.State{})
	if err != nil {
		t.Fatal(err)
	}
	says := func(h numa.Hints) string { return fmt.Sprint(h["cpu"]) }
	for count, want := range map[string]string{
		"1": "[{1 true} {2 true} {3 false}]", "4": "[{2 true} {3 false}]", "5": "[{3 true}]", "8": "[]", "1500m": "[]",
	} {
		c := sized("main", count)
		pod := pod("a", nil, c)
		if got := says(p.Hints(s, pod, &c)); got != want {
			t.Errorf("%s: %s, want %s", count, got, want)
		}
		if got := says(p.PodHints(s, pod)); got != want {
			t.Errorf("the pod with %s: %s, want %s", count, got, want)
		}
	}
	both := pod("a", []corev1.Container{sized("init", "3")}, sized("main", "2"), sized("more", "2"))
	if got := says(p.PodHints(s, both)); got != "[{2 true} {3 false}]" {
		t.Error(got)
	}
	if s, err = all(p, s, both, numa.MaskOf(1)); err != nil {
		t.Fatal(err)
	}
	if got := says(p.Hints(s, both, &both.Spec.Containers[0])); got != "[{2 true} {3 false}]" {
		t.Errorf("a container with CPUs: %s", got)
	}
	grown := both.DeepCopy()
	grown.Spec.Containers[0] = sized("main", "3")
	if h := p.Hints(s, grown, &grown.Spec.Containers[0]); h["cpu"] == nil || len(h["cpu"]) != 0 {
		t.Errorf("a container that has other CPUs: %v", h)
	}
}

// TestAnyHistory: whatever comes and goes, no CPU has two owners, none is lost, the reserved ones stay shared, and a state survives
// a restart.
func TestAnyHistory(t *testing.T) {
	for seed := range 50 {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		on := shape{1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(5), 1 + r.IntN(2)}.topology()
		if len(on) < 2 {
			continue
		}
		o := cpus.Options{FullCores: r.IntN(2) == 0, AcrossNodes: r.IntN(2) == 0, StrictReserve: r.IntN(2) == 0}
		p := policy(t, on, fmt.Sprint(r.IntN(len(on))), o)
		s, err := p.Restore(cpus.State{})
		if err != nil {
			t.Fatal(err)
		}
		var live []types.UID
		for i := range 40 {
			if len(live) > 0 && r.IntN(3) == 0 {
				gone := live[0]
				live = live[1:]
				s = s.Without(func(uid types.UID) bool { return uid != gone })
			} else {
				want := r.IntN(len(on)) + 1
				pod := pod(fmt.Sprint(i), []corev1.Container{sized("init", fmt.Sprint(r.IntN(len(on))+1))}, sized("main", fmt.Sprint(want)))
				next, err := all(p, s, pod, numa.Mask(r.IntN(4)))
				if err == nil {
					s, live = next, append(live, pod.UID)
					if mine, _ := s.Of(pod.UID, "main"); mine.Size() != want {
						t.Fatalf("seed %d: %d CPUs, want %d", seed, mine.Size(), want)
					}
				}
				var alignment *cpus.AlignmentError
				if errors.As(err, &alignment) && !o.FullCores {
					t.Fatal(err)
				}
			}
			check(t, p, s, on, o)
		}
	}
}

func check(t *testing.T, p *cpus.Policy, s cpus.State, on cpus.Topology, o cpus.Options) {
	t.Helper()
	owner := map[int]types.UID{}
	for uid, pod := range s.Own {
		for _, id := range cpuset.New().Union(slices.Collect(maps.Values(pod))...).List() {
			if other, has := owner[id]; has {
				t.Fatalf("CPU %d belongs to %s and %s", id, other, uid)
			}
			owner[id] = uid
			if s.Shared.Contains(id) || p.Reserved().Contains(id) {
				t.Fatalf("CPU %d of %s is shared or reserved", id, uid)
			}
		}
	}
	want := len(on) - len(owner)
	if o.StrictReserve {
		want -= p.Reserved().Size()
	}
	if s.Shared.Size() != want {
		t.Fatalf("%d CPUs are shared, not %d", s.Shared.Size(), want)
	}
	if !s.Shared.IsEmpty() {
		if again, err := p.Restore(s); err != nil || !again.Shared.Equals(s.Shared) {
			t.Fatalf("a restart: %v", err)
		}
	}
}
