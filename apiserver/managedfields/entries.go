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
	entries := make([]entry, 0, len(encoded)+1)
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
		if at := indexOf(entries, read.owner); at >= 0 {
			entries[at] = read
			continue
		}
		entries = append(entries, read)
	}
	return entries, nil
}

func indexOf(entries []entry, o owner) int {
	return slices.IndexFunc(entries, func(e entry) bool { return e.owner == o })
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
	var updaters []owner
	for i := range entries {
		if !entries[i].applied() {
			updaters = append(updaters, entries[i].owner)
		}
	}
	left := len(updaters)
	age := func(o owner) int64 { return seconds(entries[indexOf(entries, o)].time) }
	slices.SortFunc(updaters, func(x, y owner) int {
		return cmp.Or(cmp.Compare(age(x), age(y)), cmp.Compare(x.identifier(), y.identifier()))
	})
	first := map[string]owner{} // the oldest of each version
	for _, o := range updaters {
		if left <= maxUpdaters {
			break
		}
		e := entries[indexOf(entries, o)]
		oldest, found := first[e.version]
		if !found {
			first[e.version] = o
			continue
		}
		entries = a.merge(entries, e, oldest)
		left--
	}
	return entries
}

// merge moves an entry into that of the ancient changes of its version, which oldest becomes if
// there is none yet.
func (a *arena) merge(entries []entry, e entry, oldest owner) []entry {
	bucket := owner{name: ancient, operation: metav1.ManagedFieldsOperationUpdate, version: e.version}
	at := indexOf(entries, bucket)
	if at < 0 {
		at = indexOf(entries, oldest)
		entries[at].owner = bucket
	}
	b := &entries[at]
	b.set, b.written = a.union(e.set, b.set), nil
	b.time = e.time // the younger
	return slices.DeleteFunc(entries, func(x entry) bool { return x.owner == e.owner })
}
