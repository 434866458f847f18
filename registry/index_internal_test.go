package registry

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// painted returns a state of a ConfigMap.
func painted(name string, revision int64, labels map[string]string) *Item {
	return &Item{Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, Revision: revision, key: name}
}

func tableOf(history int, items ...*Item) *table {
	t := newTable(&Options{History: history, HistoryBytes: 1 << 20}, newWaker())
	t.unreadable = map[string]unreadable{}
	for _, i := range items {
		t.put(i)
	}
	return t
}

func labelTerm(key, value string) term {
	return term{"label:" + key, value, func(o Object) (string, bool) { v, ok := o.GetLabels()[key]; return v, ok }}
}

// TestIndexIfNeeded: another index is made only if those that there are leave many objects.
func TestIndexIfNeeded(t *testing.T) {
	for left, made := range map[int]bool{1: false, 68: false, 69: true, 79: true} { // 64 and a sixteenth of 79
		var items []*Item
		for n := range 79 {
			items = append(items, painted(fmt.Sprintf("c%02d", n), int64(n+1), map[string]string{"many": strconv.FormatBool(n < left), "few": strconv.Itoa(n)}))
		}
		table := tableOf(100, items...)
		x, by := table.narrow([]term{labelTerm("many", "true"), labelTerm("few", "0")})
		if _, ok := table.indexes["label:few"]; ok != made {
			t.Errorf("of 79, %d are left: indexes %v", left, slices.Collect(maps.Keys(table.indexes)))
		}
		if want := map[bool]string{true: "label:few", false: "label:many"}[made]; by.name != want || x != table.indexes[want] {
			t.Errorf("of 79, %d are left: narrowed by %s", left, by.name)
		}
		// One that has been made is used all the same.
		table.narrow([]term{labelTerm("few", "0")})
		if _, by = table.narrow([]term{labelTerm("many", "true"), labelTerm("few", "0")}); by.name != "label:few" && left > 1 {
			t.Errorf("of 79, %d are left: narrowed by %s in the end", left, by.name)
		}
	}
}

// TestIndexesAreFew: clients cannot have any number of indexes made.
func TestIndexesAreFew(t *testing.T) {
	table := tableOf(10, painted("a", 1, map[string]string{"l3": "x"}))
	for n := range maxIndexes + 5 {
		x, by := table.narrow([]term{labelTerm("l"+strconv.Itoa(n), "x")})
		if (x != nil) != (n < maxIndexes) || len(table.indexes) != min(n+1, maxIndexes) {
			t.Errorf("%d: %d indexes, narrowed by %q", n, len(table.indexes), by.name)
		}
	}
	if x, by := table.narrow([]term{labelTerm("l99", "x"), labelTerm("l3", "x")}); x == nil || by.name != "label:l3" {
		t.Errorf("narrowed by %q", by.name)
	}
}

// found returns the keys in an index and their values, and checks its sizes.
func found(t *testing.T, x *index) string {
	t.Helper()
	var all []string
	sizes := map[string]int{}
	x.tree.All(func(e entry) bool {
		all = append(all, e.item.key+"="+e.value+"@"+strconv.FormatInt(e.item.Revision, 10))
		sizes[e.value]++
		return true
	})
	if !maps.Equal(sizes, x.sizes) {
		t.Errorf("sizes %v, counted %v", x.sizes, sizes)
	}
	return strings.Join(all, " ")
}

// TestIndexFollows: an index has what has its label, whatever became of the label, and counts it.
func TestIndexFollows(t *testing.T) {
	table := tableOf(100)
	x, _ := table.narrow([]term{labelTerm("l", "x")})
	revision := int64(0)
	put := func(name string, labels map[string]string, want string) {
		t.Helper()
		revision++
		if table.put(painted(name, revision, labels)); found(t, x) != want {
			t.Errorf("%d: %s, want %s", revision, found(t, x), want)
		}
	}
	put("a", map[string]string{"l": "x"}, "a=x@1")
	put("b", map[string]string{"l": "x"}, "a=x@1 b=x@2")
	put("a", map[string]string{"l": "y"}, "b=x@2 a=y@3")
	put("b", map[string]string{"l": ""}, "b=@4 a=y@3")
	put("b", nil, "a=y@3")
	put("b", map[string]string{"l": ""}, "b=@6 a=y@3")
	put("a", map[string]string{"l": "y", "m": "z"}, "b=@6 a=y@7")
	put("c", map[string]string{"l": "y"}, "b=@6 a=y@7 c=y@8")
	a, _ := table.tree.Get("a")
	table.remove(a, a)
	if got := found(t, x); got != "b=@6 c=y@8" {
		t.Errorf("after a deletion: %s", got)
	}
}

// TestIndexWhileWritten: an index has what is written while it is made, even more than the history keeps, and nothing that
// became unreadable.
func TestIndexWhileWritten(t *testing.T) {
	x := map[string]string{"l": "x"}
	for name, test := range map[string]struct {
		history int
		write   func(*table)
		want    string
	}{
		"nothing": {10, func(*table) {}, "a=x@1 b=x@2"},
		"changes": {10, func(t *table) {
			t.put(painted("c", 3, x))
			t.put(painted("a", 4, map[string]string{"l": "y"}))
			b, _ := t.tree.Get("b")
			t.remove(b, painted("b", 5, x))
		}, "c=x@3 a=y@4"},
		"as many as are kept": {2, func(t *table) {
			t.put(painted("c", 3, x))
			t.put(painted("a", 4, map[string]string{"l": "y"}))
		}, "b=x@2 c=x@3 a=y@4"},
		"more than are kept": {2, func(t *table) {
			t.put(painted("c", 3, x))
			t.put(painted("a", 4, map[string]string{"l": "y"}))
			t.put(painted("d", 5, x))
			t.put(painted("e", 6, x))
		}, "b=x@2 c=x@3 d=x@5 e=x@6 a=y@4"},
		"an unreadable record": {10, func(t *table) { t.markUnreadable("a", unreadable{revision: 3}) }, "b=x@2"},
	} {
		t.Run(name, func(t *testing.T) {
			table := tableOf(test.history, painted("a", 1, x), painted("b", 2, x))
			wanted, written := labelTerm("l", "x"), false
			get := wanted.get
			wanted.get = func(o Object) (string, bool) {
				if !written {
					written = true
					table.mu.Lock()
					test.write(table)
					table.mu.Unlock()
				}
				return get(o)
			}
			if got := found(t, table.makeIndex(wanted)); got != test.want {
				t.Errorf("found %s, want %s", got, test.want)
			}
		})
	}
}

// TestKeptStates: the states of the lists that were continued last are kept, once each.
func TestKeptStates(t *testing.T) {
	table := tableOf(100, painted("a", 1, map[string]string{"l": "x", "m": "x"}))
	l, m := labelTerm("l", "x"), labelTerm("m", "x")
	indexes := map[string]*index{}
	for _, by := range []term{l, m} {
		indexes[by.name], _ = table.narrow([]term{by})
	}
	state := func(revision int64, by term) *view {
		v := &view{items: table.items, revision: revision, by: by}
		if x := indexes[by.name]; x != nil {
			v.index = x.tree
		}
		table.keep(v)
		return v
	}
	expect := func(when string, want ...*view) {
		t.Helper()
		if !slices.Equal(table.views, want) {
			t.Errorf("%s: %d states, want %d, or in another order", when, len(table.views), len(want))
		}
	}
	one := state(5, term{})
	expect("one list", one)
	byL := state(5, l)
	byM := state(5, m)
	expect("another selection each", byM, byL, one)
	later := state(6, l)
	expect("another revision", later, byM, byL, one)
	state(5, l)
	expect("a second page", byL, later, byM, one)
	state(5, term{})
	expect("another second page", one, byL, later, byM)
	for name, c := range map[string]struct {
		revision int64
		by       term
		want     *view
	}{
		"all": {5, term{}, one}, "by l": {5, l, byL}, "by m": {5, m, byM}, "by l, later": {6, l, later}, "all, later": {6, term{}, nil}, "earlier": {4, l, nil},
	} {
		if got := table.kept(c.revision, indexes[c.by.name], c.by); got != c.want {
			t.Errorf("%s: kept %+v", name, got)
		}
	}
	var many []*view
	for revision := range int64(maxViews) {
		many = append([]*view{state(10+revision, term{})}, many...)
	}
	expect("more than are kept", many...)
	for _, v := range table.views[:cap(table.views)][maxViews:] {
		if v != nil {
			t.Error("a state that is not kept takes memory")
		}
	}
	table.log.oldest = 13
	table.put(painted("b", 20, nil))
	expect("what the history has passed", many[:maxViews-3]...)
	table.compacted = 15
	last := state(30, l)
	expect("what was compacted", append([]*view{last}, many[:maxViews-5]...)...)
}

// TestQueueOfEncodings: what remembers the order of the encodings does not grow with their number.
func TestQueueOfEncodings(t *testing.T) {
	space := &encodings{budget: 100}
	var items []*Item
	for n := range 20000 {
		i := painted(strconv.Itoa(n), int64(n+1), nil)
		i.space = space
		items = append(items, i)
		if _, err := i.Encoded(Form{Media: "test"}, func(Object) ([]byte, error) { return make([]byte, 10), nil }); err != nil {
			t.Fatal(err)
		}
		if len(space.queue) > 2000 || space.used > 100 {
			t.Fatalf("%d encodings: %d are in the queue, %d bytes in use", n+1, len(space.queue), space.used)
		}
	}
	for n, i := range items {
		if kept := i.form(Form{Media: "test"}) != nil; kept != (n >= len(items)-10) {
			t.Errorf("%d: kept %t", n, kept)
		}
	}
}
