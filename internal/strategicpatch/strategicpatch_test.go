package strategicpatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	upstream "k8s.io/apimachinery/pkg/util/strategicpatch"
)

// chance makes random pods, or patches of them, with few names, so that they often match.
type chance struct {
	*rand.Rand
	patch bool
}

func (c chance) one(in int) bool { return c.IntN(in) == 0 }

func (c chance) of(values ...any) any { return values[c.IntN(len(values))] }

func (c chance) list(most int, item func() any) []any {
	l := []any{}
	for range c.IntN(most + 1) {
		l = append(l, item())
	}
	return l
}

func (c chance) name() any { return c.of("a", "b", "c", "d", "e", "f") }

// items returns the items of a list that merges by a key.
func (c chance) items(key string, keys func() any, fill func(item map[string]any)) []any {
	return c.list(5, func() any {
		item := map[string]any{key: keys()}
		fill(item)
		if !c.patch {
			return item
		}
		switch c.IntN(24) {
		case 0, 1, 2:
			item["$patch"] = "delete"
		case 3:
			item["$patch"] = c.of("replace", "merge", "other", int64(1))
		case 4:
			delete(item, key)
		case 5:
			item[key] = c.of(nil, int64(7), map[string]any{"x": "y"}, []any{})
		case 6:
			return c.of(nil, "text", []any{})
		}
		return item
	})
}

// put sets a field; in a patch sometimes to another type, or with directives.
func (c chance) put(object map[string]any, field, key string, value any) {
	if c.one(3) {
		return
	}
	if l, ok := value.([]any); ok && c.patch {
		if c.one(2) {
			order := []any{}
			for _, v := range l {
				if item, ok := v.(map[string]any); ok && key != "" {
					if item["$patch"] == "delete" {
						continue
					}
					v = map[string]any{key: item[key]}
				}
				order = append(order, v)
			}
			for range c.IntN(3) {
				v := c.name()
				if key != "" {
					v = map[string]any{key: v}
				}
				at := c.IntN(len(order) + 1)
				order = append(order[:at], append([]any{v}, order[at:]...)...)
			}
			if c.one(6) {
				c.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			}
			object["$setElementOrder/"+field] = order
			if c.one(30) {
				object["$setElementOrder/"+field] = c.of("text", nil, map[string]any{})
			}
			if c.one(3) {
				return
			}
		}
		if key == "" && c.one(4) {
			object["$deleteFromPrimitiveList/"+field] = c.list(3, c.name)
			if c.one(2) {
				return
			}
		}
	}
	if c.patch && c.one(15) {
		value = c.of(nil, "text", int64(1), []any{}, map[string]any{}, []any{map[string]any{"x": nil}}, map[string]any{"x": nil, "$patch": "replace"})
	}
	object[field] = value
}

func (c chance) object(fill func(object map[string]any)) map[string]any {
	o := map[string]any{}
	fill(o)
	if c.patch && c.one(12) {
		o["$patch"] = c.of("replace", "delete", "replace", "delete", "merge")
	}
	if c.patch && c.one(10) {
		o["$retainKeys"] = c.list(6, func() any {
			return c.of("name", "emptyDir", "hostPath", "containers", "finalizers", "metadata", "spec", "env", map[string]any{})
		})
	}
	return o
}

func (c chance) pod() map[string]any {
	strings := func() []any { return c.list(5, c.name) }
	return c.object(func(pod map[string]any) {
		c.put(pod, "metadata", "", c.object(func(meta map[string]any) {
			c.put(meta, "labels", "", map[string]any{"a": c.name(), c.name().(string): c.name()})
			c.put(meta, "finalizers", "", strings())
			c.put(meta, "ownerReferences", "uid", c.items("uid", c.name, func(map[string]any) {}))
		}))
		c.put(pod, "spec", "", c.object(func(spec map[string]any) {
			c.put(spec, "containers", "name", c.items("name", c.name, func(container map[string]any) {
				c.put(container, "image", "", c.name())
				c.put(container, "command", "", strings())
				c.put(container, "env", "name", c.items("name", c.name, func(env map[string]any) { c.put(env, "value", "", c.name()) }))
				c.put(container, "ports", "containerPort", c.items("containerPort", func() any { return int64(c.IntN(4)) }, func(port map[string]any) { c.put(port, "protocol", "", c.name()) }))
			}))
			c.put(spec, "volumes", "name", c.items("name", c.name, func(volume map[string]any) {
				c.put(volume, "emptyDir", "", c.object(func(map[string]any) {}))
				c.put(volume, "hostPath", "", c.object(func(o map[string]any) { c.put(o, "path", "", c.name()) }))
				if c.patch && c.one(3) {
					volume["$retainKeys"] = []any{"name", c.of("emptyDir", "hostPath")}
				}
			}))
			c.put(spec, "nodeSelector", "", map[string]any{"a": c.name()})
			c.put(spec, "tolerations", "", c.list(2, func() any { return map[string]any{"key": c.name()} }))
		}))
	})
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func document(s string) map[string]any {
	m := map[string]any{}
	if utiljson.Unmarshal([]byte(s), &m) != nil {
		return nil
	}
	return m
}

// answers holds upstream's results for a patch: since some depend on the iteration order of Go's maps, all results of
// several attempts.
type answers struct {
	outcomes, failed map[string]bool
	panicked         bool // in one attempt
}

// theirs tries a patch several times, and more often until it gives the wanted result.
func theirs(object, patch string, exact bool, found func(answers) bool) answers {
	a := answers{outcomes: map[string]bool{}, failed: map[string]bool{}}
	for n := 0; n < 6 || n < 1000 && !found(a); n++ {
		func() {
			defer func() {
				if recover() != nil {
					a.panicked = true
				}
			}()
			o := document(object)
			if exact {
				o = exactly(o).(map[string]any)
			}
			merged, err := upstream.StrategicMergeMapPatch(o, document(patch), &corev1.Pod{})
			if err != nil {
				a.failed[err.Error()] = true
				return
			}
			a.outcomes[text(map[string]any(merged))] = true
		}()
	}
	return a
}

// exactly copies a value such that no list has spare capacity, like lists that come from objects.
func exactly(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			v[key] = exactly(child)
		}
	case []any:
		l := make([]any, len(v))
		for i, child := range v {
			l[i] = exactly(child)
		}
		return l
	}
	return v
}

// compare compares a merge with upstream's.
func compare(t *testing.T, object, patch string, exact bool) {
	t.Helper()
	o := document(object)
	if exact {
		o = exactly(o).(map[string]any)
	}
	merged, err := Merge(context.Background(), o, document(patch), &corev1.Pod{})
	a := theirs(object, patch, exact, func(a answers) bool {
		switch {
		case a.panicked:
			return true
		case err == nil:
			return a.outcomes[text(merged)]
		case errors.Is(err, ErrUnmergeable):
			return true // upstream would panic or misbehave
		}
		return a.failed[err.Error()]
	})
	switch {
	case a.panicked, errors.Is(err, ErrUnmergeable):
	case err != nil && !a.failed[err.Error()]:
		t.Errorf("%s with %s: %v, want %v %v", object, patch, err, a.outcomes, a.failed)
	case err == nil && !a.outcomes[text(merged)]:
		t.Errorf("%s with %s:\n got %s\nwant %v %v", object, patch, text(merged), a.outcomes, a.failed)
	}
}

// TestAsUpstream compares merges with upstream's, including error texts.
func TestAsUpstream(t *testing.T) {
	c := chance{Rand: rand.New(rand.NewPCG(9, 10))}
	for i := range 2000 {
		c.patch = false
		object := text(c.pod())
		c.patch = true
		if compare(t, object, text(c.pod()), i%2 == 0); t.Failed() {
			return
		}
	}
}

// TestScalarsAsUpstream is TestAsUpstream for long lists of few values.
func TestScalarsAsUpstream(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 1000 {
		list := func() []any {
			n, of := r.IntN(50), r.IntN(40)+1
			l := make([]any, n)
			for i := range l {
				l[i] = fmt.Sprint(r.IntN(of))
			}
			return l
		}
		patch := map[string]any{"finalizers": list()}
		if r.IntN(2) == 0 {
			patch["$setElementOrder/finalizers"] = patch["finalizers"]
		}
		if compare(t, text(map[string]any{"metadata": map[string]any{"finalizers": list()}}), text(map[string]any{"metadata": patch}), r.IntN(2) == 0); t.Failed() {
			return
		}
	}
}

// FuzzMergeJSON: no patch makes a merge panic or return invalid JSON. Documents that are not objects of the kind are
// not compared with upstream, which never merges them.
func FuzzMergeJSON(f *testing.F) {
	c := chance{Rand: rand.New(rand.NewPCG(13, 14))}
	for range 50 {
		c.patch = false
		object := text(c.pod())
		c.patch = true
		f.Add(object, text(c.pod()))
	}
	f.Fuzz(func(t *testing.T, object, patch string) {
		merged, err := MergeJSON(t.Context(), []byte(object), []byte(patch), &corev1.Pod{})
		if err == nil && !json.Valid(merged) {
			t.Errorf("%s with %s: %s", object, patch, merged)
		}
	})
}

// many returns n items with names in some order, and a list of these names.
func many(n int, name func(i int) int) (items, order []any) {
	for i := range n {
		of := fmt.Sprintf("v%06d", name(i))
		items = append(items, map[string]any{"name": of, "value": "x"})
		order = append(order, map[string]any{"name": of})
	}
	return items, order
}

// TestGrowth: the number of visited items grows only slightly faster than the lists, however they match.
func TestGrowth(t *testing.T) {
	patches := map[string]func(n int) map[string]any{
		"same order":    func(n int) map[string]any { return ordered(many(n, func(i int) int { return i })) },
		"reverse order": func(n int) map[string]any { return ordered(many(n, func(i int) int { return n - 1 - i })) },
		"others":        func(n int) map[string]any { return ordered(many(n, func(i int) int { return n + i })) },
		"mixed":         func(n int) map[string]any { return ordered(many(n, func(i int) int { return i * 7919 % (2 * n) })) },
		"no order": func(n int) map[string]any {
			items, _ := many(n, func(i int) int { return n - 1 - i })
			return map[string]any{"env": items}
		},
		"order alone": func(n int) map[string]any {
			_, order := many(n, func(i int) int { return n - 1 - i })
			return map[string]any{"$setElementOrder/env": order}
		},
		"deleted": func(n int) map[string]any {
			items, _ := many(n, func(i int) int { return n - 1 - i })
			for _, item := range items {
				item.(map[string]any)["$patch"] = "delete"
			}
			return map[string]any{"env": items}
		},
	}
	steps := func(object, patch map[string]any) int {
		schema, err := upstream.NewPatchMetaFromStruct(&corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		m := &merging{ctx: t.Context()}
		if _, err := m.object(object, patch, schema); err != nil {
			t.Fatal(err)
		}
		return m.steps
	}
	inContainer := func(c map[string]any) map[string]any {
		c["name"] = "c"
		return map[string]any{"spec": map[string]any{"containers": []any{c}}}
	}
	for name, patch := range patches {
		run := func(n int) int {
			items, _ := many(n, func(i int) int { return i })
			return steps(inContainer(map[string]any{"env": items}), inContainer(patch(n)))
		}
		if few, more := run(500), run(20000); more > 2*40*few {
			t.Errorf("%s: %d steps for 500 items, %d for 20000", name, few, more)
		}
	}
	finalizers := func(n int) int {
		var now, change []any
		for i := range n {
			now, change = append(now, fmt.Sprint(i%(n/2))), append(change, fmt.Sprint(n-i))
		}
		return steps(map[string]any{"metadata": map[string]any{"finalizers": now}},
			map[string]any{"metadata": map[string]any{"finalizers": change, "$setElementOrder/finalizers": change}})
	}
	if few, more := finalizers(500), finalizers(20000); more > 2*40*few {
		t.Errorf("scalars: %d steps for 500 items, %d for 20000", few, more)
	}
}

func ordered(items, order []any) map[string]any {
	return map[string]any{"env": items, "$setElementOrder/env": order}
}

// TestUnmergeable: patches at which upstream panics are rejected.
func TestUnmergeable(t *testing.T) {
	for _, patch := range []string{
		`{"spec":{"imagePullSecrets":[null]}}`, `{"metadata":{"$setElementOrder/finalizers":[{}]}}`,
		`{"spec":{"containers":[{"name":{}}]}}`, `{"spec":{"containers":[{"name":[],"$patch":"delete"}]}}`,
		`{"spec":{"containers":[{"name":{}}],"$setElementOrder/containers":[{"name":{}}]}}`,
	} {
		object := document(`{"metadata":{"finalizers":["a"]},"spec":{"imagePullSecrets":[],"containers":[{"name":"c"}]}}`)
		if merged, err := Merge(t.Context(), object, document(patch), &corev1.Pod{}); !errors.Is(err, ErrUnmergeable) {
			t.Errorf("%s: %v %v", patch, merged, err)
		}
	}
}

// TestEnds: a merge whose client is gone stops.
func TestEnds(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := MergeJSON(gone, []byte(`{}`), []byte(`{"spec":{}}`), &corev1.Pod{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestMergeJSON(t *testing.T) {
	for name, test := range map[string]struct {
		object, patch []byte
		kind          any
		want          string
	}{
		"merge":     {[]byte(`{"metadata":{"labels":{"a":"1"}}}`), []byte(`{"metadata":{"labels":{"b":"2"}}}`), &corev1.Pod{}, `{"metadata":{"labels":{"a":"1","b":"2"}}}`},
		"nothing":   {nil, nil, &corev1.Pod{}, `{}`},
		"malformed": {[]byte(`{}`), []byte(`[`), &corev1.Pod{}, mergepatch.ErrBadJSONDoc.Error()},
		"no struct": {[]byte(`{}`), []byte(`{}`), "text", "expected a struct, but received a string"},
	} {
		got, err := MergeJSON(t.Context(), test.object, test.patch, test.kind)
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	if _, err := Merge(t.Context(), nil, nil, &unstructured.Unstructured{}); !errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat) {
		t.Errorf("a kind without tags: %v", err)
	}
}
