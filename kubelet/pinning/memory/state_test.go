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

func list(amounts ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(amounts); i += 2 {
		out[corev1.ResourceName(amounts[i])] = resource.MustParse(amounts[i+1])
	}
	return out
}

// TestInitial: what of a machine can be given away, when nothing is.
func TestInitial(t *testing.T) {
	m := memory.Machine{
		0: {Memory: 8 * gib, Hugepages: map[uint64]uint64{2 << 20: gib, gib: 2 * gib}},
		1: {Memory: 4 * gib, Hugepages: map[uint64]uint64{2 << 20: gib}},
		2: {Memory: gib, Hugepages: map[uint64]uint64{2 << 20: gib / 2}},
	}
	p, err := memory.New(m, []memory.Reservation{
		{Node: 0, Limits: list("memory", "1Gi", "hugepages-2Mi", "512Mi")},
		{Node: 0, Limits: list("hugepages-1Gi", "1Gi")},
		{Node: 1, Limits: list("memory", "-512Mi", "hugepages-2Mi", "0")},
		{Node: 2, Limits: list("memory", "1Gi")},
	}, list("cpu", "500m", "memory", "1536Mi", "hugepages-2Mi", "512Mi", "hugepages-1Gi", "1Gi"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]memory.Node{
		0: {Group: []int{0}, Memory: map[corev1.ResourceName]memory.Table{
			"memory":        {Total: 8 * gib, SystemReserved: gib, Allocatable: 4 * gib, Free: 4 * gib},
			"hugepages-2Mi": {Total: gib, SystemReserved: gib / 2, Allocatable: gib / 2, Free: gib / 2},
			"hugepages-1Gi": {Total: 2 * gib, SystemReserved: gib, Allocatable: gib, Free: gib},
		}},
		1: {Group: []int{1}, Memory: map[corev1.ResourceName]memory.Table{
			"memory":        {Total: 4 * gib, Allocatable: 3 * gib, Free: 3 * gib},
			"hugepages-2Mi": {Total: gib, Allocatable: gib, Free: gib},
		}},
		2: {Group: []int{2}, Memory: map[corev1.ResourceName]memory.Table{
			"memory":        {Total: gib, SystemReserved: gib},
			"hugepages-2Mi": {Total: gib / 2, Allocatable: gib / 2, Free: gib / 2},
		}},
	}
	if got := start(t, p); !reflect.DeepEqual(got.Nodes, want) {
		t.Errorf("%+v, want %+v", got.Nodes, want)
	}
}

// TestNewRefuses: reservations that do not add up, of which the first resource is named.
func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		reserved, amounts corev1.ResourceList
		want              string
	}{
		"not whole bytes":       {list("memory", "1500m"), list("memory", "1500m"), "could not covert a variable of type Quantity to int64"},
		"no memory":             {list("hugepages-2Mi", "2Mi"), list("hugepages-2Mi", "2Mi"), "[memorymanager] you should specify the system reserved memory"},
		"nothing of memory":     {list("memory", "0"), list("memory", "0"), "[memorymanager] you should specify the system reserved memory"},
		"other huge pages":      {list("memory", "1Gi", "hugepages-2Mi", "4Mi"), list("memory", "1Gi", "hugepages-2Mi", "2Mi"), `the total amount "4Mi" of type "hugepages-2Mi" is not equal to the value "2Mi" determined by Node Allocatable feature`},
		"huge pages elsewhere":  {list("memory", "1Gi"), list("memory", "1Gi", "hugepages-2Mi", "2Mi"), `the total amount "0" of type "hugepages-2Mi" is not equal to the value "2Mi" determined by Node Allocatable feature`},
		"several":               {list("memory", "1Gi", "hugepages-2Mi", "4Mi", "hugepages-1Gi", "1Gi"), list(), `the total amount "1Gi" of type "hugepages-1Gi" is not equal to the value "0" determined by Node Allocatable feature`},
		"others do not matter":  {list("memory", "1Gi", "cpu", "1"), list("memory", "1Gi", "cpu", "2"), "<nil>"},
		"the same, in one more": {list("memory", "1024Mi"), list("memory", "1Gi", "pods", "3"), "<nil>"},
	} {
		for range 20 { // a map of resources has no order
			if _, err := memory.New(machine(1), []memory.Reservation{{Node: 0, Limits: c.reserved}}, c.amounts); fmt.Sprint(err) != c.want {
				t.Fatalf("%s: %v, want %s", name, err, c.want)
			}
		}
	}
}

// TestRestoreAnother: each difference between what was written down and what follows from what is given.
func TestRestoreAnother(t *testing.T) {
	p := policy(t, 3)
	s, err := all(p, start(t, p), pod("a", nil, sized("main", "5Gi")), numa.Hint{Nodes: numa.MaskOf(0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	table := func(change func(*memory.Table)) func(*memory.State) {
		return func(s *memory.State) {
			entry := s.Nodes[2].Memory["memory"]
			change(&entry)
			s.Nodes[2].Memory["memory"] = entry
		}
	}
	other := "[memorymanager] the expected machine state is different from the real one"
	for name, c := range map[string]struct {
		change func(*memory.State)
		want   string
	}{
		"the same":              {func(*memory.State) {}, "<nil>"},
		"more assignments":      {func(s *memory.State) { n := s.Nodes[2]; n.Assignments++; s.Nodes[2] = n }, other},
		"another group":         {func(s *memory.State) { n := s.Nodes[2]; n.Group = []int{1}; s.Nodes[2] = n }, other},
		"a node twice":          {func(s *memory.State) { n := s.Nodes[2]; n.Group = []int{2, 2}; s.Nodes[2] = n }, other},
		"a node more":           {func(s *memory.State) { s.Nodes[3] = s.Nodes[2] }, other},
		"other memory in all":   {table(func(e *memory.Table) { e.Total++ }), other},
		"another reservation":   {table(func(e *memory.Table) { e.SystemReserved++ }), other},
		"less to be given":      {table(func(e *memory.Table) { e.Allocatable-- }), other},
		"less that is free":     {table(func(e *memory.Table) { e.Free-- }), other},
		"more that is given":    {table(func(e *memory.Table) { e.Reserved++ }), other},
		"without huge pages":    {func(s *memory.State) { delete(s.Nodes[2].Memory, "hugepages-2Mi") }, other},
		"otherwise in its pair": {move, "<nil>"},
	} {
		changed := s.Clone()
		c.change(&changed)
		if _, err := p.Restore(changed); fmt.Sprint(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// move gives some of node 1 instead of node 0: only the sum over a group counts.
func move(s *memory.State) {
	from, to := s.Nodes[0].Memory["memory"], s.Nodes[1].Memory["memory"]
	from.Reserved, from.Free = from.Reserved-gib, from.Free+gib
	to.Reserved, to.Free = to.Reserved+gib, to.Free-gib
	s.Nodes[0].Memory["memory"], s.Nodes[1].Memory["memory"] = from, to
}

// TestWithout: only what the pods that have gone had is free again, and nodes that others use together remain together.
func TestWithout(t *testing.T) {
	p := policy(t, 2)
	first := start(t, p)
	one, err := all(p, first, pod("a", nil, sized("main", "4Gi")), numa.Hint{})
	if err != nil {
		t.Fatal(err)
	}
	both, err := all(p, one, pod("b", nil, sized("main", "1Gi")), numa.Hint{Nodes: numa.MaskOf(0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if got := both.Nodes[1]; got.Assignments != 2 || len(got.Group) != 2 {
		t.Fatalf("%+v", got)
	}
	kept := both.Without(func(uid types.UID) bool { return uid == "a" })
	if !reflect.DeepEqual(kept.Own, one.Own) || kept.Nodes[1].Assignments != 1 || len(kept.Nodes[1].Group) != 2 {
		t.Errorf("%+v, want %+v", kept, one)
	}
	if _, err := p.Restore(kept); err != nil {
		t.Error(err)
	}
	if got := both.Without(func(types.UID) bool { return true }); !reflect.DeepEqual(got, both) {
		t.Errorf("%+v, want %+v", got, both)
	}
	if got := both.Without(func(types.UID) bool { return false }); !reflect.DeepEqual(got, first) {
		t.Errorf("%+v, want %+v", got, first)
	}
	unknown := first.Clone()
	unknown.Own["c"] = map[string][]memory.Block{"main": {{Nodes: []int{7}, Type: "memory", Size: gib}}}
	if got := unknown.Without(func(types.UID) bool { return false }); !reflect.DeepEqual(got, first) {
		t.Errorf("a block on a node that is not there: %+v, want %+v", got, first)
	}
}
