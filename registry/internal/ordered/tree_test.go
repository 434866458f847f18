package ordered_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/registry/internal/ordered"
)

// entry is a value that has more than its key.
type entry struct{ key, state int }

func order() ordered.Order[int, entry] {
	return ordered.Order[int, entry]{Key: func(e entry) int { return e.key }, Compare: cmp.Compare[int]}
}

func Example() {
	t := ordered.New(ordered.Order[string, string]{Key: func(s string) string { return s }, Compare: cmp.Compare[string]})
	for _, s := range []string{"c", "a", "b"} {
		t.Put(s)
	}
	before := t.Clone()
	t.Delete("a")
	t.All(func(s string) bool { fmt.Print(s, " "); return true })
	fmt.Println(t.Rank("c"), before.Rank("c"))
	// Output: b c 1 2
}

// TestRandom: a tree behaves like a map, and clones stay unchanged.
func TestRandom(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 1))
		type pair struct {
			tree *ordered.Tree[int, entry]
			want map[int]int
		}
		pairs := []pair{{ordered.New(order()), map[int]int{}}}
		keys := 1 << (3 + 2*seed)
		for step := range 20_000 {
			p := &pairs[random.IntN(len(pairs))]
			key := random.IntN(keys)
			state, there := p.want[key]
			grow := (step/5000)%2 == 0
			switch n := random.IntN(100); {
			case n == 0 && len(pairs) < 5:
				pairs = append(pairs, pair{p.tree.Clone(), maps.Clone(p.want)})
			case n < 35 && grow, n < 65 && !grow:
				if e, ok := p.tree.Delete(key); ok != there || ok && e.state != state {
					t.Fatalf("seed %d: delete %d: %v, %v; want %v, %v", seed, key, e, ok, state, there)
				}
				delete(p.want, key)
			default:
				if e, ok := p.tree.Put(entry{key, step}); ok != there || ok && e.state != state {
					t.Fatalf("seed %d: put %d: %v, %v; want %v, %v", seed, key, e, ok, state, there)
				}
				p.want[key] = step
			}
			if step%997 == 0 {
				for _, p := range pairs {
					compare(t, p.tree, p.want, random.IntN(keys))
				}
			}
		}
		for _, p := range pairs {
			compare(t, p.tree, p.want, -1)
			for key := range maps.Clone(p.want) {
				p.tree.Delete(key)
				delete(p.want, key)
			}
			compare(t, p.tree, p.want, 0)
		}
	}
}

func compare(t *testing.T, tree *ordered.Tree[int, entry], want map[int]int, from int) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(want))
	if tree.Len() != len(keys) {
		t.Fatalf("%d values, want %d", tree.Len(), len(keys))
	}
	at, _ := slices.BinarySearch(keys, from)
	if rank := tree.Rank(from); rank != at {
		t.Fatalf("%d values before %d, want %d", rank, from, at)
	}
	rest := keys[at:]
	tree.Ascend(from, func(e entry) bool {
		if len(rest) == 0 || e.key != rest[0] || e.state != want[e.key] {
			t.Fatalf("%v where %v should be", e, rest)
		}
		rest = rest[1:]
		return true
	})
	if len(rest) > 0 {
		t.Fatalf("%v are missing", rest)
	}
	visited := 0
	tree.All(func(entry) bool { visited++; return visited < 3 })
	if want := min(3, len(keys)); visited != want {
		t.Fatalf("%d visited, want %d", visited, want)
	}
	if len(keys) > 0 {
		if e, ok := tree.Get(keys[len(keys)/2]); !ok || e.state != want[e.key] {
			t.Fatalf("got %v, %v", e, ok)
		}
	}
}

// TestClonesApart: clones can be written concurrently, under the race detector.
func TestClonesApart(t *testing.T) {
	tree := ordered.New(order())
	for n := range 10_000 {
		tree.Put(entry{n, 0})
	}
	var writers sync.WaitGroup
	for w := 1; w <= 4; w++ {
		own := tree.Clone()
		writers.Go(func() {
			for n := range 10_000 {
				if n%2 == 0 {
					own.Put(entry{n, w})
				} else {
					own.Delete(n)
				}
			}
			own.All(func(e entry) bool {
				if e.state != w {
					t.Errorf("%v in the tree of %d", e, w)
				}
				return e.state == w
			})
		})
	}
	writers.Wait()
	if tree.Len() != 10_000 {
		t.Errorf("%d values left", tree.Len())
	}
}
