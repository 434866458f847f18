package managedfields

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scaleVersion is the version of Scale objects.
func scaleVersion() string { return autoscalingv1.SchemeGroupVersion.String() }

// Scaled maps the owners of an object's replica count to those of its Scale and back. As upstream does, it makes the entries
// of a Scale from the object's for each request.
type Scaled struct {
	// Replicas is the path of the count, such as "spec", "replicas", in each served version by name.
	Replicas map[string][]string
	// Version is the version of the object whose scale subresource is written.
	Version string
}

// ToScale returns the managed fields of the Scale of an object with the given ones.
func (s Scaled) ToScale(object []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	a := arenas.Get().(*arena)
	defer a.release()
	entries, err := a.read(object)
	if err != nil {
		return nil, err
	}
	replicas := insert(nil, []string{"spec", "replicas"})
	var of []entry
	for _, e := range entries {
		if path := s.Replicas[e.version]; path != nil && a.has(e.set, path) {
			of = append(of, entry{owner: e.owner, version: scaleVersion(), set: replicas, time: e.time})
		}
	}
	return a.write(of, nil), nil
}

// FromScale returns the managed fields of an object that had those of object, after its Scale was written.
func (s Scaled) FromScale(object, scale []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	a := arenas.Get().(*arena)
	defer a.release()
	return s.fromScale(a, object, scale)
}

func (s Scaled) fromScale(a *arena, object, scale []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	before, err := a.read(object)
	if err != nil {
		return nil, err
	}
	written, err := a.read(scale)
	if err != nil {
		return nil, err
	}
	var after []entry
	scales, kept := places{arena: a}, make([]bool, len(written))
	for _, e := range before {
		path, served := s.Replicas[e.version]
		if !served {
			continue
		}
		if path != nil && a.has(e.set, path) {
			if i := scales.of(written, e.owner); i >= 0 {
				kept[i] = true // it owns the count as before
			} else if e.set, e.written = a.subtract(e.set, insert(nil, path)), nil; len(e.set) == 0 {
				continue
			}
		}
		after = append(after, e)
	}
	objects, afters := places{arena: a}, places{arena: a}
	for n, e := range written {
		if kept[n] || !a.has(e.set, []string{"spec", "replicas"}) {
			continue
		}
		got := entry{owner: e.owner, version: s.Version, set: insert(nil, s.Replicas[s.Version])}
		if i := objects.of(before, e.owner); i >= 0 {
			got.time = before[i].time
		}
		if i := afters.of(after, e.owner); i >= 0 {
			after[i] = got // what is written is in another order anyway
			continue
		}
		after = append(after, got)
	}
	return a.write(after, nil), nil
}

// has tells whether a path is in a set.
func (a *arena) has(set []node, path []string) bool {
	at := 0
	n := a.find(set, &at, fieldKey(path[0]))
	switch {
	case n == nil:
		return false
	case len(path) == 1:
		return n.is != 0
	}
	return a.has(n.children, path[1:])
}
