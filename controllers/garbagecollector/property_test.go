package garbagecollector_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// born is an object of a random family: its owners come before it.
type born struct {
	name   string
	owners []int
	blocks []bool
	held   bool // by a finalizer, which is taken off in the end
}

// death is a deletion that somebody asks for, some time after the one before.
type death struct {
	who    int
	policy metav1.DeletionPropagation
	pause  time.Duration
}

// story is what happens in one run.
type story struct {
	family []born
	deaths []death
}

// drawStory draws a family over two namespaces and none, and deletions. Orphans are only told
// from others when deletions do not overlap, so then they do not.
func drawStory(t *rapid.T) story {
	var s story
	overlap := rapid.Bool().Draw(t, "deletions overlap")
	for i := range rapid.IntRange(1, 14).Draw(t, "objects") {
		space := rapid.SampledFrom([]string{"", "a/", "a/", "b/"}).Draw(t, "namespace")
		child := born{name: fmt.Sprintf("%so%02d", space, i), held: overlap && rapid.IntRange(0, 5).Draw(t, "held") == 0}
		for j, parent := range s.family {
			reachable := parent.name[0] == 'o' || strings.HasPrefix(parent.name, space) && space != ""
			if reachable && rapid.IntRange(0, 3).Draw(t, "owned") == 0 {
				child.owners = append(child.owners, j)
				child.blocks = append(child.blocks, rapid.Bool().Draw(t, "blocks"))
			}
		}
		s.family = append(s.family, child)
	}
	policies := []metav1.DeletionPropagation{background, foreground}
	pauses := []time.Duration{0, time.Millisecond, time.Second}
	if !overlap {
		policies = append(policies, orphan)
		pauses = []time.Duration{time.Minute}
	}
	for range rapid.IntRange(0, 5).Draw(t, "deletions") {
		s.deaths = append(s.deaths, death{
			who:    rapid.IntRange(0, len(s.family)-1).Draw(t, "who"),
			policy: rapid.SampledFrom(policies).Draw(t, "policy"),
			pause:  rapid.SampledFrom(pauses).Draw(t, "pause"),
		})
	}
	return s
}

// survivors is what is to be left: whoever was not deleted and has an owner left, or never had
// any, or was orphaned.
func (s story) survivors() string {
	alive := map[int][]int{}
	for i, b := range s.family {
		alive[i] = b.owners
	}
	for _, d := range s.deaths {
		if _, ok := alive[d.who]; !ok {
			continue
		}
		delete(alive, d.who)
		if d.policy == orphan {
			for i, owners := range alive {
				alive[i] = slices.DeleteFunc(slices.Clone(owners), func(o int) bool { return o == d.who })
			}
		}
		for changed := true; changed; {
			changed = false
			for i, owners := range alive {
				left := slices.DeleteFunc(slices.Clone(owners), func(o int) bool { _, ok := alive[o]; return !ok })
				if len(owners) > 0 && len(left) == 0 {
					delete(alive, i)
					changed = true
				}
			}
		}
		for i, owners := range alive {
			alive[i] = slices.DeleteFunc(slices.Clone(owners), func(o int) bool { _, ok := alive[o]; return !ok })
		}
	}
	var list []string
	for _, i := range slices.SortedFunc(maps.Keys(alive), func(i, j int) int { return compareNames(s.family[i].name, s.family[j].name) }) {
		text := s.family[i].name
		for k, o := range alive[i] {
			text += map[bool]string{true: "<", false: ","}[k == 0] + target(s.family[o].name).Name
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// compareNames is the order in which left lists.
func compareNames(a, b string) int {
	x, y := target(a), target(b)
	if x.Namespace != y.Namespace {
		return strings.Compare(x.Namespace, y.Namespace)
	}
	return strings.Compare(x.Name, y.Name)
}

// play lets the story happen and returns what is left, and how many nodes the graph keeps.
func (s story) play(b *bench) (left string, nodes int) {
	refs := make([]metav1.OwnerReference, len(s.family))
	for i, child := range s.family {
		var owners []metav1.OwnerReference
		for k, o := range child.owners {
			ref := refs[o]
			ref.BlockOwnerDeletion = &child.blocks[k]
			owners = append(owners, ref)
		}
		var finalizers []string
		if child.held {
			finalizers = []string{"example.com/hold"}
		}
		refs[i] = b.held(child.name, finalizers, owners...)
	}
	for _, d := range s.deaths {
		// It may be gone by now.
		_ = b.api.Delete(b.Context(), target(s.family[d.who].name), metav1.DeleteOptions{PropagationPolicy: &d.policy})
		time.Sleep(d.pause)
	}
	b.after(time.Minute)
	for _, child := range s.family {
		if !child.held {
			continue
		}
		if obj, err := b.api.Get(b.Context(), target(child.name)); err == nil && obj.(metav1.Object).GetDeletionTimestamp() != nil {
			b.release(child.name)
		}
	}
	b.after(time.Hour)
	return b.left(), b.graph.Size()
}

// TestRandomFamilies: of random families with random deletions exactly those are left who should
// be, whatever the order in which the collector comes to see things.
func TestRandomFamilies(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := drawStory(r)
		var got string
		var nodes int
		withWorkers(t, rapid.SampledFrom([]int{1, 5}).Draw(r, "workers"), nil, func(b *bench) { got, nodes = s.play(b) })
		if want := s.survivors(); got != want {
			r.Fatalf("left are %q, want %q", got, want)
		}
		if want := len(strings.Fields(got)); nodes != want {
			r.Fatalf("the graph keeps %d nodes, want %d", nodes, want)
		}
	})
}
