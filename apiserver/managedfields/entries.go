package managedfields

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	fieldsV1 = "FieldsV1"
	// maxUpdaters is how many entries of updates an object keeps; older ones are merged.
	maxUpdaters = 10
	ancient     = "ancient-changes"
)

// owner is whose fields an entry has. Whoever applies is the same in every version.
type owner struct {
	name        string
	operation   metav1.ManagedFieldsOperationType
	version     string // empty for appliers
	subresource string
}

// entry is one owner's fields in memory.
type entry struct {
	owner
	version string
	set     []node
	time    *metav1.Time
	written *metav1.FieldsV1 // set in its final form, if it was read in it
}

func (e *entry) applied() bool { return e.operation == metav1.ManagedFieldsOperationApply }

func ownerOf(e *metav1.ManagedFieldsEntry) owner {
	o := owner{name: e.Manager, operation: e.Operation, version: e.APIVersion, subresource: e.Subresource}
	if o.operation == metav1.ManagedFieldsOperationApply {
		o.version = ""
	}
	return o
}

// identifier is upstream's name for an owner, by which it sorts.
func (o owner) identifier() string {
	data, err := json.Marshal(&metav1.ManagedFieldsEntry{
		Manager: o.name, Operation: o.operation, APIVersion: o.version, Subresource: o.subresource,
	})
	if err != nil {
		return o.name // strings marshal
	}
	return string(data)
}

// checkEntry tells what is wrong with an entry but for its fields.
func checkEntry(e *metav1.ManagedFieldsEntry, i int) error {
	switch {
	case e.Operation != metav1.ManagedFieldsOperationApply && e.Operation != metav1.ManagedFieldsOperationUpdate:
		return errors.New("operation must be `Apply` or `Update`")
	case e.APIVersion == "":
		return errors.New("apiVersion must not be empty")
	case e.FieldsType == "":
		return fmt.Errorf("missing fieldsType in managed fields entry %d", i)
	case e.FieldsType != fieldsV1:
		return fmt.Errorf("invalid fieldsType %q in managed fields entry %d", e.FieldsType, i)
	}
	return nil
}

// Validate tells what is wrong with the managed fields of an object, in upstream's words.
func Validate(entries []metav1.ManagedFieldsEntry) error {
	a := arenas.Get().(*arena)
	defer a.release()
	_, err := a.read(entries)
	return err
}

// read decodes an object's entries. Of several of one owner, the last one counts.
func (a *arena) read(encoded []metav1.ManagedFieldsEntry) ([]entry, error) {
	entries, known := make([]entry, 0, len(encoded)+1), places{arena: a}
	for i := range encoded {
		e := &encoded[i]
		if err := checkEntry(e, i); err != nil {
			return nil, err
		}
		raw := "{}"
		if e.FieldsV1 != nil {
			raw = e.FieldsV1.GetRawString()
		}
		set, canonical, err := a.decode(raw)
		if err != nil {
			return nil, fmt.Errorf("error decoding versioned set from %v: %w", *e, fmt.Errorf("error decoding set: %w", err))
		}
		read := entry{owner: ownerOf(e), version: e.APIVersion, set: set, time: e.Time}
		if canonical {
			read.written = e.FieldsV1
		}
		if at := known.of(entries, read.owner); at >= 0 {
			entries[at] = read
			continue
		}
		entries = append(entries, read)
	}
	return entries, nil
}

func (a *arena) indexOf(entries []entry, o owner) int {
	a.steps += len(entries)
	return slices.IndexFunc(entries, func(e entry) bool { return e.owner == o })
}

// fewOwners is how many entries are searched one by one. Objects seldom have more, but those of
// somebody who wants to keep the server busy have thousands.
const fewOwners = 16

// places tells where among entries an owner's is, for one after the other of many owners. The
// entries may grow, but who stands where does not change.
type places struct {
	*arena
	at   map[owner]int
	seen int
}

func (p *places) of(entries []entry, o owner) int {
	if len(entries) <= fewOwners {
		return p.indexOf(entries, o)
	}
	if p.at == nil {
		p.at = make(map[owner]int, cap(entries))
	}
	for ; p.seen < len(entries); p.seen++ {
		p.steps++
		p.at[entries[p.seen].owner] = p.seen
	}
	if at, ok := p.at[o]; ok {
		return at
	}
	return -1
}

// texts are some of the fields that were written last. Pods of one controller own the same fields,
// so that one text serves many of them.
type texts [16]atomic.Pointer[metav1.FieldsV1]

func (t *texts) of(text []byte) *metav1.FieldsV1 {
	at := &t[len(text)%len(t)]
	if f := at.Load(); f != nil && bytes.Equal(f.GetRawBytes(), text) {
		return f
	}
	f := metav1.NewFieldsV1(string(text))
	at.Store(f)
	return f
}

// write encodes entries in upstream's order: appliers first, then by time and name. known may be
// nil.
func (a *arena) write(entries []entry, known *texts) []metav1.ManagedFieldsEntry {
	if known == nil {
		known = &texts{}
	}
	if len(entries) == 0 {
		return nil
	}
	encoded := make([]metav1.ManagedFieldsEntry, len(entries))
	for i := range entries {
		e := &entries[i]
		encoded[i] = metav1.ManagedFieldsEntry{
			Manager: e.name, Operation: e.operation, APIVersion: e.version, Time: e.time,
			FieldsType: fieldsV1, FieldsV1: e.written, Subresource: e.subresource,
		}
		if e.written == nil {
			a.text = encode(a.text[:0], e.set, false)
			encoded[i].FieldsV1 = known.of(a.text)
		}
	}
	slices.SortFunc(encoded, func(x, y metav1.ManagedFieldsEntry) int {
		return cmp.Or(cmp.Compare(x.Operation, y.Operation), cmp.Compare(seconds(x.Time), seconds(y.Time)),
			cmp.Compare(x.Manager, y.Manager), cmp.Compare(x.APIVersion, y.APIVersion), cmp.Compare(x.Subresource, y.Subresource))
	})
	return encoded
}

func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}

// now is the time of an entry, as precise as it is stored.
func now() *metav1.Time {
	t := metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	return &t
}

// limit merges the oldest entries of updates, by version, until there are few enough.
func (a *arena) limit(entries []entry) []entry {
	if len(entries) <= maxUpdaters {
		return entries
	}
	updaters := updatersOf(entries)
	merges, left := map[string]*merging{}, len(updaters) // by version
	for _, u := range updaters {
		if left <= maxUpdaters {
			break
		}
		e := &entries[u.at]
		m, found := merges[e.version]
		if !found {
			merges[e.version] = &merging{oldest: u.at, into: ancientOf(entries, updaters, e.version)}
			continue
		}
		m.add(entries, u.at)
		left--
	}
	return a.finish(entries, merges)
}

// updater is an entry of an update, and what it is sorted by.
type updater struct {
	at         int
	age        int64
	identifier string
}

// updatersOf returns the entries of updates, the oldest first.
func updatersOf(entries []entry) []updater {
	var updaters []updater
	for i := range entries {
		if e := &entries[i]; !e.applied() {
			updaters = append(updaters, updater{at: i, age: seconds(e.time), identifier: e.identifier()})
		}
	}
	slices.SortFunc(updaters, func(x, y updater) int {
		return cmp.Or(cmp.Compare(x.age, y.age), cmp.Compare(x.identifier, y.identifier))
	})
	return updaters
}

// ancientOwner owns the ancient changes of a version.
func ancientOwner(version string) owner {
	return owner{name: ancient, operation: metav1.ManagedFieldsOperationUpdate, version: version}
}

// ancientOf returns the entry of the ancient changes of a version, or -1.
func ancientOf(entries []entry, updaters []updater, version string) int {
	i := slices.IndexFunc(updaters, func(u updater) bool { return entries[u.at].owner == ancientOwner(version) })
	if i < 0 {
		return -1
	}
	return updaters[i].at
}

// merging moves entries of one version into that of its ancient changes, which the oldest becomes if
// there is none yet.
type merging struct {
	oldest int // its entry
	into   int // the entry of the ancient changes, or -1
	sets   [][]node
	gone   []int
}

// add moves the entry at a place, which is younger than those before it.
func (m *merging) add(entries []entry, at int) {
	e := &entries[at]
	if m.into < 0 {
		m.into = m.oldest
		entries[m.into].owner = ancientOwner(e.version)
	}
	m.sets, m.gone = append(m.sets, e.set), append(m.gone, at)
	entries[m.into].time = e.time
	if m.into == at { // the ancient changes themselves had their turn
		m.into, m.sets = -1, nil
	}
}

// finish unites what is to be one entry and leaves out what was moved.
func (a *arena) finish(entries []entry, merges map[string]*merging) []entry {
	gone := make([]bool, len(entries))
	for _, m := range merges {
		for _, at := range m.gone {
			gone[at] = true
		}
		if m.into >= 0 && len(m.sets) > 0 {
			b := &entries[m.into]
			b.set, b.written = a.unionAll(append(m.sets, b.set)), nil
		}
	}
	kept := entries[:0]
	for i := range entries {
		if !gone[i] {
			kept = append(kept, entries[i])
		}
	}
	return kept
}
