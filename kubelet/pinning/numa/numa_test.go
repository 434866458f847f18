package numa_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

func nodes(count int, distances ...[]uint64) []numa.Node {
	var list []numa.Node
	for id := range count {
		n := numa.Node{ID: id}
		if id < len(distances) {
			n.Distances = distances[id]
		}
		list = append(list, n)
	}
	return list
}

func of(resource string, hints ...numa.Hint) numa.Hints {
	return numa.Hints{resource: append([]numa.Hint{}, hints...)}
}

// TestMerge: what each policy makes of the same hints, as upstream's.
func TestMerge(t *testing.T) {
	yes := func(ids ...int) numa.Hint { return numa.Hint{Nodes: numa.MaskOf(ids...), Preferred: true} }
	no := func(ids ...int) numa.Hint { return numa.Hint{Nodes: numa.MaskOf(ids...)} }
	policies := []string{numa.None, numa.BestEffort, numa.Restricted, numa.SingleNode}
	for name, c := range map[string]struct {
		hints []numa.Hints
		want  [4]string // of the policies
	}{
		"no providers":        {nil, [4]string{"any", "0,1 preferred", "0,1 preferred", "any preferred"}},
		"no preference":       {[]numa.Hints{nil, {"cpu": nil}}, [4]string{"any", "0,1 preferred", "0,1 preferred", "any preferred"}},
		"nowhere":             {[]numa.Hints{of("cpu")}, [4]string{"any", "0,1", "refused", "refused"}},
		"one":                 {[]numa.Hints{of("cpu", yes(1), no(0, 1))}, [4]string{"any", "1 preferred", "1 preferred", "1 preferred"}},
		"either":              {[]numa.Hints{of("cpu", yes(0), yes(1), no(0, 1))}, [4]string{"any", "0 preferred", "0 preferred", "0 preferred"}},
		"agreement":           {[]numa.Hints{of("cpu", yes(0), yes(1)), of("memory", yes(1), no(0, 1))}, [4]string{"any", "1 preferred", "1 preferred", "1 preferred"}},
		"disagreement":        {[]numa.Hints{of("cpu", yes(0)), of("memory", yes(1))}, [4]string{"any", "0,1", "refused", "refused"}},
		"both":                {[]numa.Hints{of("cpu", yes(0, 1))}, [4]string{"any", "0,1 preferred", "0,1 preferred", "refused"}},
		"not preferred":       {[]numa.Hints{of("cpu", no(0, 1))}, [4]string{"any", "0,1", "refused", "refused"}},
		"partly":              {[]numa.Hints{of("cpu", yes(0), no(0, 1)), of("memory", no(0, 1))}, [4]string{"any", "0,1", "refused", "refused"}},
		"a provider without":  {[]numa.Hints{nil, of("memory", yes(1))}, [4]string{"any", "1 preferred", "1 preferred", "1 preferred"}},
		"several of a kind":   {[]numa.Hints{{"hugepages-2Mi": {yes(0), yes(1)}, "memory": {yes(1)}}}, [4]string{"any", "1 preferred", "1 preferred", "1 preferred"}},
		"as wide as the most": {[]numa.Hints{of("cpu", no(0), no(0, 1)), of("memory", yes(0, 1))}, [4]string{"any", "0,1", "refused", "refused"}},
	} {
		for i, policy := range policies {
			p, err := numa.New(policy, nil, nodes(2))
			if err != nil {
				t.Fatal(err)
			}
			if got := says(p.Merge(c.hints...)); got != c.want[i] {
				t.Errorf("%s, %s: %s, want %s", name, policy, got, c.want[i])
			}
		}
	}
}

func says(h numa.Hint, admit bool) string {
	if !admit {
		return "refused"
	}
	out := "any"
	for i, id := range h.Nodes.Nodes() {
		if i == 0 {
			out = ""
		} else {
			out += ","
		}
		out += fmt.Sprint(id)
	}
	if h.Preferred {
		out += " preferred"
	}
	return out
}

// TestClosest: with the option, the nodes that are close together win over those with lower numbers.
func TestClosest(t *testing.T) {
	on := nodes(3, []uint64{10, 30, 20}, []uint64{30, 10, 11}, []uint64{20, 11, 10})
	hints := of("cpu", numa.Hint{Nodes: numa.MaskOf(0, 1), Preferred: true}, numa.Hint{Nodes: numa.MaskOf(1, 2), Preferred: true})
	for value, want := range map[string]string{"true": "1,2 preferred", "false": "0,1 preferred"} {
		p, err := numa.New(numa.BestEffort, map[string]string{"prefer-closest-numa-nodes": value}, on)
		if err != nil {
			t.Fatal(err)
		}
		if got := says(p.Merge(hints)); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}

// TestNew: what does not suit is refused.
func TestNew(t *testing.T) {
	for want, c := range map[string]struct {
		policy  string
		options map[string]string
		nodes   int
	}{
		`unknown policy: "most"`:                      {"most", nil, 1},
		`unknown Topology Manager Policy option: "x"`: {numa.Restricted, map[string]string{"x": "true"}, 1},
		`bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing "x": invalid syntax`:                 {numa.Restricted, map[string]string{"prefer-closest-numa-nodes": "x"}, 1},
		`unable to convert policy option to integer "max-allowable-numa-nodes": strconv.Atoi: parsing "x": invalid syntax`: {numa.Restricted, map[string]string{"max-allowable-numa-nodes": "x"}, 1},
		`the minimum value of "max-allowable-numa-nodes" should not be less than 8`:                                        {numa.Restricted, map[string]string{"max-allowable-numa-nodes": "7"}, 1},
		"the distances of NUMA node 0 are not known":                                                                       {numa.Restricted, map[string]string{"prefer-closest-numa-nodes": "true"}, 1},
		"unsupported on machines with more than 8 NUMA Nodes":                                                              {numa.BestEffort, nil, 9},
		"<nil>": {numa.BestEffort, map[string]string{"max-allowable-numa-nodes": "9"}, 9},
	} {
		if _, err := numa.New(c.policy, c.options, nodes(c.nodes)); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestMask: sets of nodes.
func TestMask(t *testing.T) {
	m := numa.MaskOf(0, 5, 63, 64, -1)
	if !slices.Equal(m.Nodes(), []int{0, 5, 63}) || m.Len() != 3 || !m.Has(63) || m.Has(64) || m.Has(1) {
		t.Errorf("%v", m.Nodes())
	}
	var sizes []string
	for _, s := range numa.Subsets([]int{0, 1, 3}) {
		sizes = append(sizes, fmt.Sprint(s.Nodes()))
	}
	if got := fmt.Sprint(sizes); got != "[[0] [1] [3] [0 1] [0 3] [1 3] [0 1 3]]" {
		t.Error(got)
	}
	if !numa.MaskOf(3).Narrower(numa.MaskOf(0, 1)) || !numa.MaskOf(0, 2).Narrower(numa.MaskOf(1, 2)) || numa.MaskOf(1).Narrower(numa.MaskOf(1)) {
		t.Error("which set is narrower")
	}
}

func Example() {
	policy, err := numa.New(numa.SingleNode, nil, []numa.Node{{ID: 0}, {ID: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Both nodes have the CPUs, only node 1 has the memory.
	either := []numa.Hint{{Nodes: numa.MaskOf(0), Preferred: true}, {Nodes: numa.MaskOf(1), Preferred: true}}
	best, admit := policy.Merge(numa.Hints{"cpu": either}, numa.Hints{"memory": either[1:]})
	fmt.Println(best.Nodes.Nodes(), admit)
	// Output: [1] true
}
