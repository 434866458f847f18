package ordered

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The shape of a tree is not visible from outside, but its cost depends on it.

type item struct{ key string }

func text(n int) string { return fmt.Sprintf("%06d", n) }

func tree() *Tree[string, *item] {
	return New(Order[string, *item]{Key: func(i *item) string { return i.key }, Compare: strings.Compare})
}

func fill(t *Tree[string, *item], from, to, step int) *Tree[string, *item] {
	for n := from; n < to; n += step {
		t.Put(&item{text(n)})
	}
	return t
}

// depth checks a node and all below it: sizes, widths, order, that all leaves are equally deep, and that
// removed entries are no longer referenced. It returns the number of levels.
func depth(t *testing.T, n *node[string, *item], least, below string) int {
	t.Helper()
	if n.width() > most {
		t.Fatalf("a node is %d wide", n.width())
	}
	for _, v := range n.values[len(n.values):cap(n.values)] {
		if v != nil {
			t.Fatal("a leaf holds a value that it does not have")
		}
	}
	for _, c := range n.children[len(n.children):cap(n.children)] {
		if c != nil {
			t.Fatal("a node holds a child that it does not have")
		}
	}
	for _, low := range n.lows[len(n.lows):cap(n.lows)] {
		if low != "" {
			t.Fatal("a node holds a key that it does not have")
		}
	}
	if n.children == nil {
		if n.size != len(n.values) || len(n.lows) != 0 {
			t.Fatalf("a leaf of %d values has size %d and %d lows", len(n.values), n.size, len(n.lows))
		}
		for _, v := range n.values {
			if v.key < least || below != "" && v.key >= below {
				t.Fatalf("%s is not between %s and %s", v.key, least, below)
			}
		}
		return 1
	}
	if len(n.lows) != len(n.children) || len(n.values) > 0 {
		t.Fatalf("a node of %d children has %d lows and %d values", len(n.children), len(n.lows), len(n.values))
	}
	size, levels := 0, 0
	for i, c := range n.children {
		from, to := least, below
		if i > 0 {
			from = n.lows[i]
		}
		if i+1 < len(n.children) {
			to = n.lows[i+1]
		}
		if from < least || to != "" && from > to {
			t.Fatalf("child %d is from %s to %s, its parent from %s to %s", i, from, to, least, below)
		}
		d := depth(t, c, from, to)
		if levels > 0 && d != levels {
			t.Fatalf("children are %d and %d levels deep", levels, d)
		}
		if c.size == 0 {
			t.Fatal("an empty child")
		}
		levels, size = d, size+c.size
	}
	if size != n.size {
		t.Fatalf("size %d, but there are %d values", n.size, size)
	}
	return levels + 1
}

func widths(n *node[string, *item]) []int {
	var out []int
	for _, c := range n.children {
		out = append(out, c.width())
	}
	return out
}

func leaves(n *node[string, *item]) int {
	if n.children == nil {
		return 1
	}
	sum := 0
	for _, c := range n.children {
		sum += leaves(c)
	}
	return sum
}

// TestSplits: a leaf or inner node is halved when it would become too wide, and not before.
func TestSplits(t *testing.T) {
	one := fill(tree(), 0, most, 1)
	if depth(t, one.root, "", ""); one.root.children != nil {
		t.Errorf("%d values are in leaves of %v", most, widths(one.root))
	}
	if one.Put(&item{text(most)}); !slices.Equal(widths(one.root), []int{32, 33}) {
		t.Errorf("one more are in leaves of %v", widths(one.root))
	}
	for n := most + 1; depth(t, one.root, "", "") < 3; n++ {
		if len(one.root.children) > most {
			t.Fatalf("the root is %d wide", len(one.root.children))
		}
		one.Put(&item{text(n)})
	}
	if !slices.Equal(widths(one.root), []int{32, 33}) || leaves(one.root) != most+1 {
		t.Errorf("%d leaves are in nodes of %v", leaves(one.root), widths(one.root))
	}
}

// TestMerges: a small leaf is merged with its neighbour if both fit into one with space to grow.
func TestMerges(t *testing.T) {
	for name, tt := range map[string]struct {
		left, right int // numbers of values in the two leaves
		last        int // index of the value to delete, counted from the left
		want        []int
	}{
		"not small, left":         {17, 20, 0, []int{16, 20}},
		"small, left":             {16, 20, 0, nil},
		"not small, right":        {20, 17, 36, []int{20, 16}},
		"small, right":            {20, 16, 35, nil},
		"as much as may be":       {33, 16, 48, nil},
		"more than may be":        {34, 16, 49, []int{34, 15}},
		"as much as may be, left": {16, 33, 0, nil},
		"more than may be, left":  {16, 34, 0, []int{15, 34}},
		"the last of a leaf":      {64, 1, 64, nil},
		"the last of the first":   {1, 64, 0, nil},
	} {
		built := &Tree[string, *item]{order: tree().order, owner: &owner{}}
		leaf := func(from, n int) *node[string, *item] {
			out := &node[string, *item]{owner: built.owner, size: n}
			for i := range n {
				out.values = append(out.values, &item{text(from + i)})
			}
			return out
		}
		built.root = &node[string, *item]{
			owner: built.owner, size: tt.left + tt.right, lows: []string{"", text(tt.left)},
			children: []*node[string, *item]{leaf(0, tt.left), leaf(tt.left, tt.right)},
		}
		depth(t, built.root, "", "")
		if _, ok := built.Delete(text(tt.last)); !ok {
			t.Fatalf("%s: nothing deleted", name)
		}
		depth(t, built.root, "", "")
		if got := widths(built.root); !slices.Equal(got, tt.want) || built.Len() != tt.left+tt.right-1 {
			t.Errorf("%s: %d values in leaves of %v, want %v", name, built.Len(), got, tt.want)
		}
	}
}

// TestShape: trees of three levels keep their shape through writes of every kind, and shrink as they empty.
func TestShape(t *testing.T) {
	const n = 12_000
	for name, order := range map[string]func(i int) int{
		"ascending": func(i int) int { return i }, "descending": func(i int) int { return n - 1 - i },
		"from the middle": func(i int) int { return (i + n/2) % n }, "scattered": func(i int) int { return i * 7919 % n },
	} {
		t.Run(name, func(t *testing.T) {
			full := fill(tree(), 0, n, 1)
			if depth(t, full.root, "", "") != 3 {
				t.Fatal("not three levels")
			}
			kept, emptied := full.Clone(), full
			for i := range n {
				if v, ok := emptied.Delete(text(order(i))); !ok || v.key != text(order(i)) {
					t.Fatalf("deleted %v, %v", v, ok)
				}
				if i%100 != 0 {
					continue
				}
				depth(t, emptied.root, "", "")
				left := n - 1 - i
				if emptied.Len() != left || leaves(emptied.root) > 2*left/(most/4)+2 {
					t.Fatalf("%d values in %d leaves, want %d", emptied.Len(), leaves(emptied.root), left)
				}
				visited := 0
				emptied.All(func(*item) bool { visited++; return visited < left/2 })
				if visited != max(left/2, min(left, 1)) {
					t.Fatalf("visited %d of %d", visited, left)
				}
			}
			if emptied.Len() != 0 || emptied.root.children != nil {
				t.Errorf("in the end %d values", emptied.Len())
			}
			if depth(t, kept.root, "", "") != 3 || kept.Len() != n {
				t.Errorf("the clone has %d values", kept.Len())
			}
		})
	}
}

// TestShapeAtRandom: trees keep their shape through random writes.
func TestShapeAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	tr, want := fill(tree(), 0, 10_000, 2), map[string]bool{}
	for n := 0; n < 10_000; n += 2 {
		want[text(n)] = true
	}
	for step := range 40_000 {
		key := text(random.IntN(10_000))
		if grow := step/10_000%2 == 1; random.IntN(10) < 3 == grow {
			if _, ok := tr.Delete(key); ok != want[key] {
				t.Fatalf("deleted %s: %t", key, ok)
			}
			delete(want, key)
		} else {
			tr.Put(&item{key})
			want[key] = true
		}
		if step%500 == 0 {
			depth(t, tr.root, "", "")
			if tr.Len() != len(want) {
				t.Fatalf("%d values, want %d", tr.Len(), len(want))
			}
			rank := 0
			for other := range want {
				if other < key {
					rank++
				}
			}
			if tr.Rank(key) != rank {
				t.Fatalf("%d values before %s, want %d", tr.Rank(key), key, rank)
			}
		}
	}
}

// TestInPlace: a tree changes its own nodes in place, and copies shared ones once.
func TestInPlace(t *testing.T) {
	tr := fill(tree(), 0, 5000, 1)
	v := &item{text(77)}
	if n := testing.AllocsPerRun(10, func() { tr.Put(v) }); n != 0 {
		t.Errorf("replacing a value takes %v allocations", n)
	}
	clone := tr.Clone()
	before := clone.root
	clone.Put(v)
	copied := clone.root
	if copied == before || tr.root != before {
		t.Error("a write to a clone changed a shared node")
	}
	if clone.Put(v); clone.root != copied {
		t.Error("the second write copies again")
	}
}
