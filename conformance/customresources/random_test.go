package customresources_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
)

// m is a JSON object, l a JSON array.
type (
	m = map[string]any
	l = []any
)

// random makes what a test sends from one source of randomness.
type random struct{ *rand.Rand }

// chance returns true with a probability of p.
func (r random) chance(p float64) bool { return r.Float64() < p }

// one returns one of some values.
func one[T any](r random, of ...T) T { return of[r.IntN(len(of))] }

// some returns up to n different ones of some values, in their order.
func some[T any](r random, n int, of ...T) []T {
	n = min(n, len(of))
	places := r.Perm(len(of))[:n]
	slices.Sort(places)
	out := make([]T, 0, n)
	for _, i := range places {
		out = append(out, of[i])
	}
	return out
}

// keys returns the keys of an object in order, so that a seed always makes the same choices.
func keys(o m) []string { return slices.Sorted(maps.Keys(o)) }

// clone copies a JSON value.
func clone[T any](v T) T {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // made of JSON
	}
	var out T
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

// anything returns a value of any type.
func (r random) anything(depth int) any {
	switch n := r.IntN(16); {
	case n < 2:
		return nil
	case n < 4:
		return one(r, "", "a", "abc", "12", "true", "10%", "null", "Ünïcode", "2024-01-02T03:04:05Z", "<&>")
	case n < 6:
		return r.IntN(20) - 5
	case n < 7:
		return one[any](r, 1.5, -0.25, 1e20, json.RawMessage("1.0"), json.RawMessage("1e2"), json.RawMessage("9223372036854775807"),
			json.RawMessage("9223372036854775808"), json.RawMessage("-0"), json.RawMessage("0.1e-7"))
	case n < 9:
		return r.chance(0.5)
	case n < 12 && depth > 0:
		out := l{}
		for range r.IntN(3) {
			out = append(out, r.anything(depth-1))
		}
		return out
	case depth > 0:
		out := m{}
		for range r.IntN(3) {
			out[one(r, names...)] = r.anything(depth - 1)
		}
		return out
	}
	return "leaf"
}

// place is where a value is in a document.
type place struct {
	value any
	set   func(any)
	drop  func() // nil: it cannot be removed
}

// places lists the values in a document below its root.
func places(v any, add func(place)) {
	switch v := v.(type) {
	case m:
		for _, k := range keys(v) {
			add(place{v[k], func(to any) { v[k] = to }, func() { delete(v, k) }})
			places(v[k], add)
		}
	case l:
		for i := range v {
			add(place{v[i], func(to any) { v[i] = to }, nil})
			places(v[i], add)
		}
	}
}

// mutate changes an object somewhere, mostly below what every object has.
func (r random) mutate(o m) {
	part := o
	if r.chance(0.97) {
		part = maps.Clone(o)
		for _, k := range []string{"apiVersion", "kind", "metadata"} {
			delete(part, k)
		}
		if metadata, ok := o["metadata"].(m); ok && r.chance(0.1) {
			part = metadata
		} else {
			defer maps.Copy(o, part)
		}
	}
	var all []place
	places(part, func(p place) { all = append(all, p) })
	if len(all) == 0 {
		o["extra"] = r.anything(1)
		return
	}
	p := one(r, all...)
	switch n := r.IntN(12); {
	case n < 2 && p.drop != nil:
		p.drop()
	case n < 3:
		p.set(nil)
	case n < 5:
		p.set(r.anything(2))
	default:
		switch v := p.value.(type) {
		case m:
			v[one(r, names...)] = r.anything(1)
		case l:
			if len(v) > 0 && r.chance(0.6) {
				p.set(append(slices.Clone(v), clone(one(r, v...))))
			} else {
				p.set(append(slices.Clone(v), r.anything(1)))
			}
		case string:
			p.set(one(r, v+"a", "", v+v, "zzz", "A-"+v))
		case float64:
			p.set(one[any](r, v+1, -v, v*100, v+0.5, "7"))
		default:
			p.set(r.anything(0))
		}
	}
}
