package managedfields

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func configMaps() *Tracker {
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	return New(&Schema{}, Kind{Versions: []Version{{
		GroupVersionKind: gvk, New: func() Object { return &corev1.ConfigMap{} },
	}}}, Endpoint{Version: gvk.GroupVersion()})
}

// manyEntries are those of n owners, each of a field of its own, in no order of age.
func manyEntries(n int, operation metav1.ManagedFieldsOperationType) []metav1.ManagedFieldsEntry {
	entries := make([]metav1.ManagedFieldsEntry, n)
	for i := range entries {
		at := metav1.NewTime(time.Unix(int64(i*7919%n), 0))
		entries[i] = metav1.ManagedFieldsEntry{
			Manager: fmt.Sprintf("m%06d", i), Operation: operation, APIVersion: "v1", Time: &at, FieldsType: fieldsV1,
			FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:data":{"f:k%06d":{}}}`, i)),
		}
	}
	return entries
}

func manyData(n int, value string) map[string]string {
	data := make(map[string]string, n)
	for i := range n {
		data[fmt.Sprintf("k%06d", i)] = value
	}
	return data
}

// TestUpdateGrowth counts what is looked at when an object with many entries is written: a bit more than
// in proportion to their number, whoever they are.
func TestUpdateGrowth(t *testing.T) {
	steps := func(n int, change func([]metav1.ManagedFieldsEntry)) (count, left int) {
		entries := manyEntries(n, metav1.ManagedFieldsOperationUpdate)
		if change != nil {
			change(entries)
		}
		live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ManagedFields: entries}, Data: manyData(n, "a")}
		obj := live.DeepCopy()
		maps.Copy(obj.Data, manyData(n/2, "b"))
		a := &arena{slab: make([]node, slabNodes)}
		read := (&Tracker{}).before(a, live, live)
		after, err := configMaps().update(a, read, live, obj, "me")
		if err != nil {
			t.Fatal(err)
		}
		return a.steps, len(a.write(after, nil))
	}
	for name, test := range map[string]struct {
		change func([]metav1.ManagedFieldsEntry)
		left   func(n int) int
	}{
		"updaters": {nil, func(int) int { return maxUpdaters }},
		"appliers": {func(entries []metav1.ManagedFieldsEntry) {
			for i := range entries {
				entries[i].Operation = metav1.ManagedFieldsOperationApply
			}
		}, func(n int) int { return n/2 + 1 }},
		"versions that nobody serves": {func(entries []metav1.ManagedFieldsEntry) {
			for i := range entries {
				entries[i].APIVersion = fmt.Sprintf("v%d", i+2)
			}
		}, func(int) int { return 1 }},
		"one owner": {func(entries []metav1.ManagedFieldsEntry) {
			for i := range entries {
				entries[i].Manager = "m"
			}
		}, func(int) int { return 2 }},
	} {
		const small, large = 500, 8000
		few, _ := steps(small, test.change)
		many, left := steps(large, test.change)
		if limit := few * large / small * 2; many > limit {
			t.Errorf("%s: %d steps for %d entries, but %d for %d", name, few, small, many, large)
		}
		if left != test.left(large) {
			t.Errorf("%s: %d entries are left, want %d", name, left, test.left(large))
		}
	}
}

// TestScaledGrowth is TestUpdateGrowth for a Scale whose client sends as many entries.
func TestScaledGrowth(t *testing.T) {
	steps := func(n int) int {
		entries := manyEntries(n, metav1.ManagedFieldsOperationApply)
		scale := slices.Clone(entries)
		for i := range entries {
			entries[i].APIVersion, scale[i].APIVersion = "apps/v1", scaleVersion()
			scale[i].Manager = fmt.Sprintf("m%06d", i+n/2)
			fields := metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)
			entries[i].FieldsV1, scale[i].FieldsV1 = fields, fields
		}
		a := &arena{slab: make([]node, slabNodes)}
		s := Scaled{Version: "apps/v1", Replicas: map[string][]string{"apps/v1": {"spec", "replicas"}}}
		after, err := s.fromScale(a, entries, scale)
		if err != nil || len(after) != n {
			t.Fatalf("%d entries, %v", len(after), err)
		}
		return a.steps
	}
	if few, many := steps(500), steps(8000); many > 2*16*few {
		t.Errorf("%d steps for 500 entries, %d for 8000", few, many)
	}
}

// TestFindGrowth: many small sets are held against one large one.
func TestFindGrowth(t *testing.T) {
	var large []node
	for i := range 10000 {
		large = append(large, node{key: fmt.Sprintf("f:%05d", i), is: owned})
	}
	a := &arena{}
	for i := range large {
		at := 0
		if n := a.find(large, &at, large[i].key); n != &large[i] || at != i {
			t.Fatalf("%d: found %v at %d", i, n, at)
		}
		at = 0
		if n := a.find(large, &at, large[i].key+"x"); n != nil || at != i+1 {
			t.Fatalf("%d: found %v at %d", i, n, at)
		}
	}
	if limit := 2 * len(large) * 20; a.steps > limit {
		t.Errorf("%d steps, want at most %d", a.steps, limit)
	}
}

// TestApplyGrowth measures what an apply beside many owners allocates, which grows with the work that it
// gives the library.
func TestApplyGrowth(t *testing.T) {
	allocated := func(n int, again bool) uint64 {
		live := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ManagedFields: manyEntries(n, metav1.ManagedFieldsOperationApply)},
			Data:       manyData(n, "a"),
		}
		by, data, want := "me", map[string]any{}, 1
		if again { // gives up its field, which nobody else wants
			by, data, want = "m000007", map[string]any{"k000008": "a"}, n
		} else { // takes everybody's
			for k := range live.Data {
				data[k] = "b"
			}
		}
		config := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data}}
		tracker := configMaps()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		obj, err := tracker.Apply(live, config, by, true)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(obj.GetManagedFields()); got != want {
			t.Errorf("%d owners, want %d", got, want)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	for _, again := range []bool{false, true} {
		if few, many := allocated(500, again), allocated(4000, again); many > 2*8*few {
			t.Errorf("again %t: %d bytes for 500 owners, %d for 4000", again, few, many)
		}
	}
}

// TestManyConflicts: everybody is named with whom there is a conflict.
func TestManyConflicts(t *testing.T) {
	const n = 300
	live := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ManagedFields: manyEntries(n, metav1.ManagedFieldsOperationApply)},
		Data:       manyData(n, "a"),
	}
	config := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k000007": "b", "k000250": "b", "k000100": "a"},
	}}
	_, err := configMaps().Apply(live, config, "me", false)
	const want = "Apply failed with 2 conflicts: conflicts with \"m000007\":\n- .data.k000007\nconflicts with \"m000250\":\n- .data.k000250"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestDisorder holds the reading of fields that are in any order to the library's, which puts them in order
// by moving them.
func TestDisorder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var raw strings.Builder
		raw.WriteString(`{"f:a":{`)
		n := 200 + r.IntN(200)
		for i := range n {
			if i > 0 {
				raw.WriteString(" , ")
			}
			key := [...]string{`f:%d`, `k:{\"name\":\"%d\"}`, `v:%d`, `i:%d`, `x:%d`, `f:é%d`}[r.IntN(6)]
			child := [...]string{"{}", `{".":{}}`, `{"f:b":{},"f:a":{}}`, `{".":{},"f:z":{}}`, `{"x:":{}}`}[r.IntN(5)]
			fmt.Fprintf(&raw, `"`+key+`":%s`, r.IntN(n/2), child)
		}
		raw.WriteString(`,".":{}}}`)
		if raw.Len() <= maxDisorder {
			raw.WriteString(strings.Repeat(" ", maxDisorder))
		}
		var want fieldpath.Set
		if err := want.FromJSON(strings.NewReader(raw.String())); err != nil {
			t.Fatal(err)
		}
		got, err := librarySet(raw.String())
		if err != nil {
			t.Fatal(err)
		}
		if !got.Equals(&want) {
			t.Fatalf("%s\n got %s\nwant %s", raw.String(), written(t, got), written(t, &want))
		}
	}
}

// TestDisorderIsNotLeftToTheLibrary: what is large reaches it in order, or not at all.
func TestDisorderIsNotLeftToTheLibrary(t *testing.T) {
	var raw bytes.Buffer
	raw.WriteByte('{')
	for i := range 1000 {
		fmt.Fprintf(&raw, `"f:%04d":{},`, 1000-i)
	}
	o := ordering{rest: raw.String() + `"f:":{}}`}
	text, ok := o.object(nil, 0)
	if !ok {
		t.Fatal("not read")
	}
	a := &arena{}
	p := parser{arena: a, rest: string(text)}
	if _, _, ok := p.object(0); !ok {
		t.Errorf("not in order: %.100s", text)
	}
	for name, rest := range map[string]string{
		"cut off": "", "no object": `"f:x":1}`, "more behind": `"f:x":{}}}`, "deep": strings.Repeat(`"f:a":{`, 300) + strings.Repeat("}", 301),
		"bad text": `"f:` + "\x01" + `":{}}`, "no colon": `"f:x"{}}`,
	} {
		if _, err := librarySet(raw.String() + rest); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}
