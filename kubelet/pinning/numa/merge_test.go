package numa_test

import (
	"fmt"
	"testing"

	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

func yes(ids ...int) numa.Hint { return numa.Hint{Nodes: numa.MaskOf(ids...), Preferred: true} }
func no(ids ...int) numa.Hint  { return numa.Hint{Nodes: numa.MaskOf(ids...)} }

// TestMergeOfSeveral: which of the sets of nodes that are possible is the best, when none is preferred or when their sizes differ.
func TestMergeOfSeveral(t *testing.T) {
	for name, c := range map[string]struct {
		nodes int
		hints []numa.Hints
		want  string // under the policy best-effort
	}{
		"narrower than the widest":          {2, []numa.Hints{of("cpu", no(0)), of("memory", yes(0, 1))}, "0"},
		"one within the other":              {2, []numa.Hints{of("cpu", yes(0)), of("memory", yes(0, 1))}, "0"},
		"equal sets":                        {2, []numa.Hints{of("cpu", yes(0, 1)), of("memory", yes(0, 1))}, "0,1 preferred"},
		"the narrowest, first":              {2, []numa.Hints{of("cpu", no(0), no(0, 1))}, "0"},
		"the narrowest, last":               {2, []numa.Hints{of("cpu", no(0, 1), no(0))}, "0"},
		"of the same size, the lowest":      {2, []numa.Hints{of("cpu", no(0), no(1))}, "0"},
		"of the same size, the lowest last": {2, []numa.Hints{of("cpu", no(1), no(0))}, "0"},
		"what the widest needs":             {2, []numa.Hints{of("cpu", no(0, 1)), of("memory", no(0, 1), no(0))}, "0,1"},
		"what the widest needs, last":       {2, []numa.Hints{of("cpu", no(0, 1)), of("memory", no(0), no(0, 1))}, "0,1"},
		"everywhere, and a set":             {2, []numa.Hints{of("cpu", no(0, 1), no()), of("memory", no(0), no(0, 1))}, "0,1"},
		"two of three":                      {3, []numa.Hints{of("cpu", no(0, 1), no(1, 2))}, "0,1"},
		"more than the widest needs":        {4, []numa.Hints{of("cpu", no(2, 3), no(0, 1, 2)), of("memory", no(0, 1, 2), no(3))}, "2"},
		"the narrowest that is preferred":   {3, []numa.Hints{of("cpu", yes(0, 1, 2), yes(1, 2))}, "1,2 preferred"},
	} {
		p, err := numa.New(numa.BestEffort, nil, nodes(c.nodes))
		if err != nil {
			t.Fatal(err)
		}
		if got := says(p.Merge(c.hints...)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestSingleNode: only one node that is preferred by all will do, and what is refused is to be nowhere.
func TestSingleNode(t *testing.T) {
	p, err := numa.New(numa.SingleNode, nil, nodes(2))
	if err != nil {
		t.Fatal(err)
	}
	for name, hints := range map[string][]numa.Hints{
		"not preferred":  {of("cpu", no(0), no(1))},
		"by one of them": {of("cpu", yes(0)), of("memory", no(0))},
		"of two nodes":   {of("cpu", yes(0, 1))},
		"nowhere":        {of("cpu")},
	} {
		if best, admit := p.Merge(hints...); admit || best != (numa.Hint{}) {
			t.Errorf("%s: %v, %t", name, best, admit)
		}
	}
}

// TestDistances: how far nodes are from each other decides only between sets of as many, and only as far as it is known.
func TestDistances(t *testing.T) {
	far, near := []uint64{10, 11, 11, 30, 30}, []uint64{30, 30, 30, 10, 30}
	five := nodes(5, far, []uint64{11, 10, 11, 30, 30}, []uint64{11, 11, 10, 30, 30}, near, []uint64{30, 30, 30, 30, 10})
	self := nodes(2, []uint64{20, 30}, []uint64{30, 10})
	some := nodes(3, []uint64{10, 30}, []uint64{30, 10}, []uint64{20, 20})
	for name, c := range map[string]struct {
		policy string
		nodes  []numa.Node
		hints  []numa.Hint
		want   string
	}{
		"fewer that are far apart":       {numa.BestEffort, five, []numa.Hint{yes(0, 1, 2), yes(3, 4)}, "3,4 preferred"},
		"as many that are closer":        {numa.BestEffort, five, []numa.Hint{yes(0, 3), yes(1, 2)}, "1,2 preferred"},
		"as many that are as far apart":  {numa.BestEffort, five, []numa.Hint{yes(1, 2), yes(0, 1)}, "0,1 preferred"},
		"of a node to itself":            {numa.Restricted, self, []numa.Hint{yes(0), yes(1)}, "1 preferred"},
		"a single node":                  {numa.SingleNode, self, []numa.Hint{yes(0), yes(1)}, "0 preferred"},
		"what is not known is not far":   {numa.BestEffort, some, []numa.Hint{yes(0, 1), yes(0, 2)}, "0,2 preferred"},
		"what is not known of the other": {numa.BestEffort, some, []numa.Hint{yes(1, 2), yes(0, 1)}, "1,2 preferred"},
	} {
		p, err := numa.New(c.policy, map[string]string{"prefer-closest-numa-nodes": "true"}, c.nodes)
		if err != nil {
			t.Fatal(err)
		}
		if got := says(p.Merge(of("cpu", c.hints...))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestNone: the policy none looks neither at the machine nor at options.
func TestNone(t *testing.T) {
	for _, name := range []string{"", numa.None} {
		p, err := numa.New(name, map[string]string{"x": "y"}, nodes(9))
		if err != nil || p.Name() != numa.None {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if best, admit := p.Merge(of("cpu")); !admit || best != (numa.Hint{}) {
			t.Errorf("%q: %v, %t", name, best, admit)
		}
	}
	for _, name := range []string{numa.BestEffort, numa.Restricted, numa.SingleNode} {
		if p, err := numa.New(name, nil, nodes(8)); err != nil || p.Name() != name {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestCheckOptions: mistakes in options, whatever the policy.
func TestCheckOptions(t *testing.T) {
	for want, options := range map[string]map[string]string{
		"<nil>": {"max-allowable-numa-nodes": "8", "prefer-closest-numa-nodes": "true"},
		`the minimum value of "max-allowable-numa-nodes" should not be less than 8`: {"max-allowable-numa-nodes": "7"},
		`unknown Topology Manager Policy option: "x"`:                               {"x": "true"},
	} {
		if err := numa.CheckOptions(options); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
