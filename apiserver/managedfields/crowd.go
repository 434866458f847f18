package managedfields

import (
	"errors"
	"maps"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// crowd is everybody who owns fields of an object that somebody else applies to. The library looks at
// every change for each owner it is given, and at all of the object for some, so it is given one for
// each version; what that one loses, its members lose.
type crowd struct {
	applier string
	members map[string]fieldpath.VersionedSet // by identifier
	unions  map[string]fieldpath.VersionedSet // by the identifier of the one that stands for a version
}

// crowd brings everybody's fields in line with the schema, but for the applier's, and unites them. Who
// owns fields in versions that are not served any more is left out.
func (t *Tracker) crowd(m *managed, applier string, live *typed.TypedValue) (*crowd, error) {
	c := &crowd{applier: applier, members: map[string]fieldpath.VersionedSet{}, unions: map[string]fieldpath.VersionedSet{}}
	sets, lives := map[fieldpath.APIVersion][]*fieldpath.Set{}, map[fieldpath.APIVersion]*typed.TypedValue{}
	for id, set := range m.sets {
		version := set.APIVersion()
		if id == applier || t.version(string(version)) == nil {
			continue
		}
		if lives[version] == nil {
			var err error
			if lives[version], err = (converter{t}).Convert(live, version); err != nil {
				return nil, err
			}
		}
		reconciled, err := typed.ReconcileFieldSetWithSchema(set.Set(), lives[version])
		if err != nil {
			return nil, err
		}
		if reconciled != nil {
			set = fieldpath.NewVersionedSet(reconciled, version, set.Applied())
		}
		c.members[id] = set
		sets[version] = append(sets[version], set.Set())
	}
	for version, of := range sets {
		c.unions[representative(version)] = fieldpath.NewVersionedSet(uniteSets(of), version, false)
	}
	return c, nil
}

// representative is who stands for a version. Identifiers are JSON objects.
func representative(version fieldpath.APIVersion) string { return "everybody in " + string(version) }

// uniteSets is the union of sets, in which each path is looked at once for each doubling of their number.
func uniteSets(sets []*fieldpath.Set) *fieldpath.Set {
	if len(sets) == 1 {
		return sets[0]
	}
	half := len(sets) / 2
	return uniteSets(sets[:half]).Union(uniteSets(sets[half:]))
}

// sets is what the library is given.
func (c *crowd) sets(m *managed) fieldpath.ManagedFields {
	sets := maps.Clone(c.unions)
	if own, ok := m.sets[c.applier]; ok {
		sets[c.applier] = own
	}
	return sets
}

// after returns what everybody owns after an apply.
func (c *crowd) after(sets fieldpath.ManagedFields) fieldpath.ManagedFields {
	after := fieldpath.ManagedFields{}
	if own, ok := sets[c.applier]; ok {
		after[c.applier] = own
	}
	same := map[string]bool{}
	for name, left := range sets {
		same[name] = name != c.applier && left.Set().Equals(c.unions[name].Set())
	}
	for id, member := range c.members {
		name := representative(member.APIVersion())
		left, ok := sets[name]
		switch {
		case !ok || member.Set().Empty():
		case same[name]:
			after[id] = member
		default:
			if kept := within(member.Set(), left.Set()); !kept.Empty() {
				after[id] = fieldpath.NewVersionedSet(kept, member.APIVersion(), member.Applied())
			}
		}
	}
	return after
}

// within returns the paths of a small set that are in a large one.
func within(small, large *fieldpath.Set) *fieldpath.Set {
	kept := &fieldpath.Set{}
	small.Iterate(func(p fieldpath.Path) {
		if large.Has(p) {
			kept.Insert(p.Copy())
		}
	})
	return kept
}

// conflicts tells with whom there are the conflicts that the library found, if that is what err is.
func (c *crowd) conflicts(err error) error {
	var found merge.Conflicts
	if !errors.As(err, &found) {
		return err
	}
	over := map[string]*fieldpath.Set{}
	for _, conflict := range found {
		if over[conflict.Manager] == nil {
			over[conflict.Manager] = &fieldpath.Set{}
		}
		over[conflict.Manager].Insert(conflict.Path)
	}
	var conflicts merge.Conflicts
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		member := c.members[id]
		paths, ok := over[representative(member.APIVersion())]
		if !ok {
			continue
		}
		member.Set().Iterate(func(p fieldpath.Path) {
			if paths.Has(p) {
				conflicts = append(conflicts, merge.Conflict{Manager: id, Path: p.Copy()})
			}
		})
	}
	return conflicts
}
