package managedfields

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// beforeFirst is the manager of the fields that an untracked object has when it is first applied to.
const beforeFirst = "before-first-apply"

// unknown is the manager of what was written by a client without a name.
const unknown = "unknown"

// kubectl is the manager that may take over with server-side apply what it owns by client-side apply.
const kubectl = "kubectl"

// ConfigError says that an applied configuration is not one for the object.
type ConfigError struct {
	Message string // for the client
}

// Error implements error.
func (e *ConfigError) Error() string { return e.Message }

// managed is who owns what, in the library's form.
type managed struct {
	sets  fieldpath.ManagedFields
	times map[string]*metav1.Time
	owner map[string]owner // by identifier
}

// Apply merges a configuration into live, which is shared and is not changed, and returns a new object in the stored version,
// with its managed fields. live is empty if there is no object yet. force takes over fields that others own; without it
// the error is a *ConflictError. A configuration that is not one for the object is a *ConfigError. An error of a conversion is
// wrapped.
func (t *Tracker) Apply(live Object, config *unstructured.Unstructured, manager string, force bool) (Object, error) {
	m, err := decodeManaged(live.GetManagedFields())
	if err != nil {
		return nil, fmt.Errorf("failed to decode managed fields: %w", err)
	}
	version := t.version(t.at.Version.String())
	if gvk := config.GroupVersionKind(); version == nil || gvk != version.GroupVersionKind {
		return nil, &ConfigError{fmt.Sprintf("invalid object type: %v", gvk)}
	}
	if len(m.sets) == 0 {
		if m, err = t.firstApply(version, live); err != nil {
			return nil, fmt.Errorf("failed to create manager for existing fields: %w", err)
		}
	}
	if config.GetManagedFields() != nil {
		return nil, &ConfigError{"metadata.managedFields must be nil"}
	}
	merged := application{tracker: t, version: version, live: live, config: config, by: manager}
	obj, m, err := merged.run(m, force)
	if err != nil {
		return nil, err
	}
	if manager == kubectl {
		if err := syncLastApplied(obj, config); err != nil {
			return nil, err
		}
	}
	obj.SetManagedFields(m.encode())
	return obj, nil
}

// firstApply tracks an object from now on.
func (t *Tracker) firstApply(version *Version, live Object) (*managed, error) {
	a := arenas.Get().(*arena)
	defer a.release()
	if t.kind.Alike {
		var err error
		if live, err = version.from(live); err != nil {
			return nil, err
		}
	}
	empty := t.kind.Versions[0].New()
	if u, ok := empty.(runtime.Unstructured); ok {
		u.GetObjectKind().SetGroupVersionKind(version.GroupVersionKind)
	}
	entries, err := t.update(a, nil, empty, live, beforeFirst)
	if err != nil {
		return nil, err
	}
	return decodeManaged(a.write(entries, nil))
}

// application is one apply.
type application struct {
	tracker *Tracker
	version *Version
	live    Object
	config  *unstructured.Unstructured
	by      string
}

// run applies, for kubectl also over conflicts with what it applied itself from the client's side.
func (p *application) run(m *managed, force bool) (Object, *managed, error) {
	obj, after, err := p.merge(m, force)
	var conflicts merge.Conflicts
	if !errors.As(err, &conflicts) {
		return obj, after, err
	}
	if p.by == kubectl {
		if allowed, err := p.lastApplied(); err == nil {
			if conflicts = beyond(conflicts, allowed); len(conflicts) == 0 {
				return p.merge(m, true)
			}
		}
	}
	return nil, nil, newConflictError(conflicts, m)
}

// merge merges the configuration, takes away what it no longer has, and works out who owns what.
func (p *application) merge(m *managed, force bool) (Object, *managed, error) {
	t := p.tracker
	found, err := p.version.from(p.live)
	if err != nil {
		return nil, nil, err
	}
	config, err := t.schema.parse(p.version).FromUnstructured(p.config.UnstructuredContent())
	if err != nil {
		return nil, nil, fmt.Errorf("failed to create typed patch object (%s): %w", p.describe(), err)
	}
	live, err := t.schema.typed(p.version, found, typed.AllowDuplicates)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to create typed live object (%s): %w", describe(found, p.version.GroupVersionKind), err)
	}
	updater := merge.UpdaterBuilder{Converter: converter{t}, IgnoreFilter: t.ignored()}
	by := owner{name: cmp.Or(p.by, unknown), operation: metav1.ManagedFieldsOperationApply, subresource: t.at.Subresource}
	version := fieldpath.APIVersion(t.at.Version.String())
	others, err := t.crowd(m, by.identifier(), live)
	if err != nil {
		return nil, nil, err
	}
	merged, sets, err := updater.BuildUpdater().Apply(live, config, version, others.sets(m), by.identifier(), force)
	if err != nil {
		return nil, nil, others.conflicts(err)
	}
	after := m.with(others.after(sets), by)
	if merged == nil { // nothing changed but who owns what
		obj := p.live.DeepCopyObject().(Object)
		return obj, after, nil
	}
	obj, err := t.schema.object(p.version, merged)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to convert new object (%s) to proper version: %w", p.describe(), err)
	}
	if obj, err = p.version.to(obj); err != nil {
		return nil, nil, err
	}
	if u, ok := obj.(runtime.Unstructured); ok && p.live.GetObjectKind().GroupVersionKind().Empty() {
		delete(u.UnstructuredContent(), "apiVersion")
		delete(u.UnstructuredContent(), "kind")
	}
	if t.kind.Default != nil {
		t.kind.Default(obj)
	}
	after.times[by.identifier()] = now()
	return obj, after, nil
}

// describe names the configuration in errors.
func (p *application) describe() string {
	return describe(p.config, p.config.GroupVersionKind())
}

// with returns what is managed after an apply by an owner.
func (m *managed) with(sets fieldpath.ManagedFields, by owner) *managed {
	id := by.identifier()
	after := &managed{sets: sets, times: map[string]*metav1.Time{}, owner: map[string]owner{id: by}}
	for other := range sets {
		if o, ok := m.owner[other]; ok {
			after.owner[other], after.times[other] = o, m.times[other]
		}
	}
	if own, ok := sets[id]; ok {
		if kept := own.Set().Difference(unowned()); kept.Empty() {
			delete(sets, id)
		} else {
			sets[id] = fieldpath.NewVersionedSet(kept, own.APIVersion(), own.Applied())
		}
	}
	return after
}

// unowned are the fields that nobody owns; strip leaves them out of an update's.
func unowned() *fieldpath.Set {
	set := fieldpath.NewSet(fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"), fieldpath.MakePathOrDie("metadata"))
	for _, name := range unownedMeta() {
		set.Insert(fieldpath.MakePathOrDie("metadata", name))
	}
	return set
}

func decodeManaged(entries []metav1.ManagedFieldsEntry) (*managed, error) {
	m := &managed{sets: fieldpath.ManagedFields{}, times: map[string]*metav1.Time{}, owner: map[string]owner{}}
	for i := range entries {
		e := &entries[i]
		if err := checkEntry(e, i); err != nil {
			return nil, err
		}
		set := &fieldpath.Set{}
		if e.FieldsV1 != nil {
			var err error
			if set, err = librarySet(e.FieldsV1.GetRawString()); err != nil {
				return nil, fmt.Errorf("error decoding versioned set from %v: %w", *e, fmt.Errorf("error decoding set: %w", err))
			}
		}
		o := ownerOf(e)
		id := o.identifier()
		m.owner[id], m.times[id] = o, e.Time
		m.sets[id] = fieldpath.NewVersionedSet(set, fieldpath.APIVersion(e.APIVersion), e.Operation == metav1.ManagedFieldsOperationApply)
	}
	return m, nil
}

func (m *managed) encode() []metav1.ManagedFieldsEntry {
	a := arenas.Get().(*arena)
	defer a.release()
	entries := make([]entry, 0, len(m.sets))
	for id, set := range m.sets {
		data, err := set.Set().ToJSON()
		if err != nil {
			continue // only of path elements that are none
		}
		entries = append(entries, entry{
			owner: m.owner[id], version: string(set.APIVersion()), time: m.times[id], written: metav1.NewFieldsV1(string(data)),
		})
	}
	return a.write(entries, nil)
}

// ignored is what the endpoint resets, in the library's form.
func (t *Tracker) ignored() map[fieldpath.APIVersion]fieldpath.Filter {
	if len(t.at.Resets) == 0 {
		return nil
	}
	set := fieldpath.NewSet()
	for _, path := range t.at.Resets {
		var p fieldpath.Path
		for _, name := range strings.Split(path, ".") {
			p = append(p, fieldpath.FieldNameElement(name))
		}
		set.Insert(p)
	}
	by := map[fieldpath.APIVersion]fieldpath.Filter{}
	for i := range t.kind.Versions {
		v := &t.kind.Versions[i]
		if len(t.resetIn(v)) == 0 {
			continue
		}
		by[fieldpath.APIVersion(v.GroupVersion().String())] = fieldpath.NewExcludeSetFilter(set)
	}
	return by
}

// typed returns an object of a version as the library wants it.
func (s *Schema) typed(v *Version, obj Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if u, ok := obj.(runtime.Unstructured); ok {
		content := maps.Clone(u.UnstructuredContent())
		content["apiVersion"], content["kind"] = v.ToAPIVersionAndKind()
		return s.parse(v).FromUnstructured(content, options...)
	}
	// A copy that differs in its type alone: everything below is only read.
	top := reflect.New(reflect.TypeOf(obj).Elem())
	top.Elem().Set(reflect.ValueOf(obj).Elem())
	named := top.Interface().(Object)
	named.GetObjectKind().SetGroupVersionKind(v.GroupVersionKind)
	named.SetManagedFields(nil)
	return s.parse(v).FromStructured(named, options...)
}

// object returns the library's form of an object of a version as one.
func (s *Schema) object(v *Version, value *typed.TypedValue) (Object, error) {
	content, ok := value.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, notObject(value.AsValue().Unstructured())
	}
	obj := v.New()
	if u, ok := obj.(runtime.Unstructured); ok {
		u.SetUnstructuredContent(content)
		return obj, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, obj); err != nil {
		return nil, fmt.Errorf("unable to convert unstructured object to %v: %w", v.GroupVersionKind, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return obj, nil
}

func notObject(v any) error {
	return fmt.Errorf("failed to convert value to unstructured for type %T", v)
}

func (v *Version) to(obj Object) (Object, error) {
	if v.ToStored == nil {
		return obj, nil
	}
	return v.ToStored(obj)
}

// parse returns the library's form of the schema of a version.
func (s *Schema) parse(v *Version) typed.ParseableType {
	obj := v.New()
	if _, ok := obj.(runtime.Unstructured); ok {
		if d := s.declared(v, obj); d != nil {
			return d.ParseableType
		}
		return typed.DeducedParseableType
	}
	t := reflect.TypeOf(obj).Elem()
	shape := s.of(t)
	s.mu.Lock()
	p, ok := s.parsers[t]
	s.mu.Unlock()
	if ok {
		return p
	}
	p = shape.parser() // which reads the types that it meets
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parsers == nil {
		s.parsers = map[reflect.Type]typed.ParseableType{}
	}
	if first, ok := s.parsers[t]; ok {
		return first // typed values mix only if they are of one schema
	}
	s.parsers[t] = p
	return p
}

// errNoVersion: somebody owns fields in a version that is not served.
var errNoVersion = errors.New("no such version")

// converter converts between the versions of a kind for the library.
type converter struct{ *Tracker }

// Convert implements merge.Converter.
func (c converter) Convert(value *typed.TypedValue, version fieldpath.APIVersion) (*typed.TypedValue, error) {
	from := ""
	if v := value.AsValue(); v.IsMap() {
		if name, ok := v.AsMap().Get("apiVersion"); ok && name.IsString() {
			from = name.AsString()
		}
	}
	if from == string(version) {
		return value, nil
	}
	source, target := c.version(from), c.version(string(version))
	if v := value.AsValue(); !v.IsMap() {
		return value, notObject(v.Unstructured()) // nothing was left of it
	}
	if source == nil || target == nil {
		return value, fmt.Errorf("%w: %s", errNoVersion, version)
	}
	obj, err := c.schema.object(source, value)
	if err != nil {
		return value, err
	}
	if !c.kind.Alike {
		if obj, err = source.to(obj); err == nil {
			obj, err = target.from(obj)
		}
	}
	if err != nil {
		return value, err
	}
	return c.schema.typed(target, obj)
}

// IsMissingVersionError implements merge.Converter.
func (c converter) IsMissingVersionError(err error) bool { return errors.Is(err, errNoVersion) }
