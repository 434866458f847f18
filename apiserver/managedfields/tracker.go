package managedfields

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is an object whose fields are tracked.
type Object interface {
	runtime.Object
	metav1.Object
}

// Kind is a kind in all the group-versions in which it is served.
type Kind struct {
	// Versions has the stored version first.
	Versions []Version
	// Default sets unset fields of an object in its stored version to their defaults. It may be nil.
	Default func(Object)
	// Alike means that an object of one version is one of any other as it is. FromStored may drop what its version does not
	// know; then an object that was read in one version is compared without it in all versions.
	Alike bool
}

// Version is a kind in one group-version.
type Version struct {
	schema.GroupVersionKind
	// New returns an empty object of the version.
	New func() Object
	// Schema tells how objects merge that are runtime.Unstructured. nil means that nothing is known of them. It is not
	// used for other objects, whose Go type tells.
	Schema *OpenAPI
	// FromStored and ToStored convert from and to the stored version without changing their
	// argument; nil for the stored version itself. Their errors fail an apply, and let an update keep the managed fields
	// that there were.
	FromStored, ToStored func(Object) (Object, error)
}

// Endpoint is where objects of a kind are written.
type Endpoint struct {
	// Version is the group-version of the endpoint, in which managed fields are recorded.
	Version schema.GroupVersion
	// Subresource is recorded in managed fields; empty for the object itself.
	Subresource string
	// Resets are the fields, such as "status" or "metadata.labels", that a write at this endpoint does not change, with all
	// those below them. Such a write does not make anybody their owner.
	Resets []string
	// ResetsHere means that only who owns fields in the endpoint's version stays the owner of fields in Resets that such a write
	// leaves out.
	ResetsHere bool
}

// Tracker tracks who set which field of the objects written at one endpoint. It is safe for concurrent use.
type Tracker struct {
	kind   Kind
	at     Endpoint
	schema *Schema
	resets []node // as a set
	texts  texts
}

// New returns the tracker of an endpoint of a kind.
func New(s *Schema, k Kind, at Endpoint) *Tracker {
	t := &Tracker{kind: k, at: at, schema: s}
	for _, path := range at.Resets {
		t.resets = insert(t.resets, strings.Split(path, "."))
	}
	return t
}

// Update sets the managed fields of obj, which manager has changed from live. live is the newest state of the object, or an
// empty one for a new object; it is shared and is not changed. Both are in the stored version. Update starts from the
// managed fields of obj, or from those of live if obj has none or invalid ones; an empty list resets them. obj gets live's
// managed fields if the fields of the two cannot be compared: as a schema does not allow them, or a conversion fails.
func (t *Tracker) Update(live, obj Object, manager string) {
	a := arenas.Get().(*arena)
	defer a.release()
	entries := t.before(a, live, obj)
	obj.SetManagedFields(nil)
	if len(entries) == 0 && live.GetUID() != "" {
		return // it has not been tracked so far
	}
	entries, err := t.update(a, entries, live, obj, manager)
	if err != nil {
		obj.SetManagedFields(live.GetManagedFields())
		return
	}
	obj.SetManagedFields(a.write(entries, &t.texts))
}

// KeepTimes gives obj the managed fields of live if it differs from live only in their times: then there is nothing to
// write.
func (t *Tracker) KeepTimes(live, obj Object) {
	was, is := live.GetManagedFields(), obj.GetManagedFields()
	if len(is) == 0 || !slices.EqualFunc(was, is, sameButTime) {
		return
	}
	if slices.EqualFunc(was, is, func(a, b metav1.ManagedFieldsEntry) bool { return a.Time.Equal(b.Time) }) {
		return
	}
	obj.SetManagedFields(was)
	a, b := contents(live), contents(obj)
	if !t.schema.of(a.Type()).equal(a, b) {
		obj.SetManagedFields(is)
	}
}

func sameButTime(a, b metav1.ManagedFieldsEntry) bool {
	if (a.FieldsV1 == nil) != (b.FieldsV1 == nil) || a.FieldsV1 != nil && !a.FieldsV1.Equal(*b.FieldsV1) {
		return false
	}
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion &&
		a.FieldsType == b.FieldsType && a.Subresource == b.Subresource
}

// before returns the entries that a write begins with.
func (t *Tracker) before(a *arena, live, obj Object) []entry {
	if t.at.Subresource == "" {
		own := obj.GetManagedFields()
		if isReset(own) {
			return nil
		}
		if entries, err := a.read(own); err == nil && len(entries) > 0 {
			return entries
		}
	}
	entries, err := a.read(live.GetManagedFields())
	if err != nil {
		return nil
	}
	return entries
}

// isReset tells whether a client asks to forget who owns what: by an empty list, or one with an
// empty item for clients that cannot send an empty list.
func isReset(entries []metav1.ManagedFieldsEntry) bool {
	return entries != nil && len(entries) == 0 || len(entries) == 1 && reflect.ValueOf(entries[0]).IsZero()
}

// update returns the entries after an update of live to obj.
func (t *Tracker) update(a *arena, entries []entry, live, obj Object, manager string) ([]entry, error) {
	own := owner{name: cmp.Or(manager, unknown), operation: metav1.ManagedFieldsOperationUpdate, version: t.at.Version.String(), subresource: t.at.Subresource}
	diffs := differences{tracker: t, arena: a, live: live, obj: obj}
	changed, ok, err := diffs.in(own.version)
	if err != nil {
		return nil, err
	} else if !ok {
		return nil, fmt.Errorf("%s is not served in %s", t.kind.Versions[0].Kind, own.version)
	}
	kept := entries[:0]
	for _, e := range entries {
		diff, ok, err := diffs.in(e.version)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue // of a version that is served no more
		}
		before := e.set
		e.set = a.subtract(diffs.reconcile(e.set, e.version), diff)
		if !identical(before, e.set) {
			e.written = nil
		}
		if len(e.set) > 0 {
			kept = append(kept, e)
		}
	}
	if mine := a.strip(a.set(changed)); len(mine) > 0 {
		kept = a.add(kept, own, mine)
	}
	return a.limit(kept), nil
}

// add gives fields to an owner, now.
func (a *arena) add(entries []entry, o owner, mine []node) []entry {
	at := a.indexOf(entries, o)
	if at < 0 {
		return append(entries, entry{owner: o, version: o.version, set: mine, time: now()})
	}
	e := &entries[at]
	before := e.set
	if e.set = a.union(before, mine); !identical(before, e.set) {
		e.written = nil
	}
	e.time = now()
	return entries
}

// differences are what an update changed, in each version in which somebody owns fields.
type differences struct {
	tracker *Tracker
	*arena
	live, obj Object
	known     []difference
}

type difference struct {
	version string
	shape   *shape
	nodes   []node
}

// in returns what changed in the terms of a version; ok tells that there is such a version.
func (d *differences) in(version string) (nodes []node, ok bool, err error) {
	if i := d.index(version); i >= 0 {
		return d.known[i].nodes, true, nil
	}
	v := d.tracker.version(version)
	if v == nil {
		return nil, false, nil // entries may name any number of these: they are not remembered
	}
	live, obj, err := d.both(v)
	if err != nil {
		return nil, false, err
	}
	found := difference{version: version}
	if by := d.tracker.schema.declared(v, live); by != nil {
		found.shape = by.shape
		found.nodes, err = d.compare(by, v, live, obj)
	} else {
		x, y := contents(live), contents(obj)
		found.shape = d.tracker.schema.of(x.Type())
		found.nodes, err = d.diff(found.shape, x, y, d.tracker.resetIn(v))
	}
	if err != nil {
		return nil, false, err
	}
	d.known = append(d.known, found)
	return found.nodes, true, nil
}

// compare returns what changed by the schema of a version. Only objects of the endpoint's version may have duplicates.
func (d *differences) compare(by *declared, v *Version, live, obj Object) ([]node, error) {
	duplicates := v.GroupVersion() == d.tracker.at.Version
	if err := by.check(obj, duplicates); err != nil {
		return nil, fmt.Errorf("failed to convert new object (%s) to smd typed: %w", describe(obj, v.GroupVersionKind), err)
	}
	if err := by.check(live, duplicates); err != nil {
		return nil, fmt.Errorf("failed to convert live object (%s) to smd typed: %w", describe(live, v.GroupVersionKind), err)
	}
	return by.diff(d.arena, live, obj, d.tracker.resetIn(v)), nil
}

// both returns the two objects in a version.
func (d *differences) both(v *Version) (live, obj Object, err error) {
	if d.tracker.kind.Alike {
		v = d.tracker.version(d.tracker.at.Version.String())
	}
	if live, err = v.from(d.live); err != nil {
		return nil, nil, err
	}
	if obj = d.obj; !d.tracker.kind.Alike {
		obj, err = v.from(d.obj)
	}
	return live, obj, err
}

// resetIn returns the fields of which the owners in a version stay the owners.
func (t *Tracker) resetIn(v *Version) []node {
	if t.at.ResetsHere && v.GroupVersion() != t.at.Version {
		return nil
	}
	return t.resets
}

func (d *differences) index(version string) int {
	return slices.IndexFunc(d.known, func(k difference) bool { return k.version == version })
}

// reconcile brings a set of a version in line with how objects of that version merge now.
func (d *differences) reconcile(set []node, version string) []node {
	s := d.known[d.index(version)].shape
	if s.declared != nil {
		return s.declared.reconcile(d.arena, set)
	}
	return d.arena.reconcile(set, s)
}

// declared returns how the objects of a version merge by the schema that was declared for them, or nil.
func (s *Schema) declared(v *Version, obj Object) *declared {
	if v.Schema == nil {
		return nil
	}
	if _, ok := obj.(runtime.Unstructured); !ok {
		return nil
	}
	return v.Schema.declared(s)
}

// contents is what an object consists of.
func contents(obj Object) reflect.Value {
	if u, ok := obj.(runtime.Unstructured); ok {
		return reflect.ValueOf(u.UnstructuredContent())
	}
	return reflect.ValueOf(obj).Elem()
}

// version returns the version of the kind by its name, or nil. Like upstream's, the endpoints of
// the legacy group know nothing of the others, nor these of it.
func (t *Tracker) version(name string) *Version {
	i := slices.IndexFunc(t.kind.Versions, func(v Version) bool {
		return v.GroupVersion().String() == name && (v.Group == "") == (t.at.Version.Group == "")
	})
	if i < 0 {
		return nil
	}
	return &t.kind.Versions[i]
}

func (v *Version) from(stored Object) (Object, error) {
	if v.FromStored == nil {
		return stored, nil
	}
	return v.FromStored(stored)
}
