package registry

import (
	"sync"
	"sync/atomic"
	"weak"

	"github.com/keelson-dev/keelson/registry/codec"
)

// Item is one state of one object: the decoded object, shared by all readers, and its encodings, which are kept
// once a reader has asked for them.
type Item struct {
	Object Object
	// Revision is that of the write that made this state (for a deleted object, of the deletion).
	Revision int64

	key  string
	size int // of the stored form
	// pending tells that the object is hidden: see Initialization.
	pending bool
	space   *encodings
	forms   atomic.Pointer[form]
	fields  atomic.Pointer[fieldList]
}

// selectable returns all selectable fields of the object. They are computed once: every kubelet's watch needs
// them at every change of a pod.
func (i *Item) selectable(kind *Kind) fieldList {
	if set := i.fields.Load(); set != nil {
		return *set
	}
	set := fieldsOf(kind, i.Object)
	i.fields.Store(&set)
	return set
}

// Form names one encoding of an object, such as one media type in one group-version.
type Form struct {
	GroupVersion string // such as "apps/v1"
	Media        string // the media type
}

// form is one cached encoding, or the object in another version; they form an immutable list, since an object has very few.
type form struct {
	name   Form
	bytes  []byte
	object Object
	next   *form
}

// form returns what is cached under a name, or nil.
func (i *Item) form(name Form) *form {
	for f := i.forms.Load(); f != nil; f = f.next {
		if f.name == name {
			return f
		}
	}
	return nil
}

// add caches a form of a size.
func (i *Item) add(f *form, size int) {
	if i.space == nil {
		return
	}
	for {
		f.next = i.forms.Load()
		if i.forms.CompareAndSwap(f.next, f) {
			i.space.keep(i, size)
			return
		}
	}
}

// converted is the media type of objects that are cached as such.
const converted = "object"

// Converted returns the object in a group-version, converting it at first use: for conversions that cost more than memory.
// It is shared and must not be changed.
func (i *Item) Converted(groupVersion string, convert func(Object) (Object, error)) (Object, error) {
	name := Form{GroupVersion: groupVersion, Media: converted}
	if f := i.form(name); f != nil {
		return f.object, nil
	}
	obj, err := convert(i.Object)
	if err == nil {
		i.add(&form{name: name, object: obj}, i.size)
	}
	return obj, err
}

// HasConverted reports whether Converted need not convert.
func (i *Item) HasConverted(groupVersion string) bool {
	return i.form(Form{GroupVersion: groupVersion, Media: converted}) != nil
}

// Encoded returns the encoding of the given form, building it at first use. Concurrent first uses may build it
// twice. The bytes are shared and must not be changed.
func (i *Item) Encoded(name Form, build func(Object) ([]byte, error)) ([]byte, error) {
	if f := i.form(name); f != nil {
		return f.bytes, nil
	}
	b, err := build(i.Object)
	if err == nil {
		i.add(&form{name: name, bytes: b}, len(b))
	}
	return b, err
}

// Once returns the item for a single answer: encodings that it lacks are not kept.
func (i *Item) Once() *Item {
	once := &Item{Object: i.Object, Revision: i.Revision, key: i.key, size: i.size, pending: i.pending}
	once.forms.Store(i.forms.Load())
	return once
}

// JSON returns the object's JSON in its stored version, without apiVersion and kind.
func (i *Item) JSON() ([]byte, error) {
	return i.Encoded(Form{Media: "json"}, func(o Object) ([]byte, error) { return codec.Body(o) })
}

// Raw returns the object's protobuf message in its stored version, without the envelope.
func (i *Item) Raw() ([]byte, error) {
	return i.Encoded(Form{Media: "protobuf"}, func(o Object) ([]byte, error) { return codec.Raw(o) })
}

// encodings bounds the bytes of cached encodings: the oldest are dropped first. An unreferenced item is
// garbage-collected with its encodings before that.
type encodings struct {
	budget int

	mu    sync.Mutex
	used  int
	queue []kept
	head  int
}

type kept struct {
	item  weak.Pointer[Item]
	bytes int
}

func (e *encodings) keep(i *Item, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used += n
	e.queue = append(e.queue, kept{weak.Make(i), n})
	for e.used > e.budget && e.head < len(e.queue) {
		old := e.queue[e.head]
		e.queue[e.head] = kept{}
		e.head++
		e.used -= old.bytes
		if item := old.item.Value(); item != nil {
			item.forms.Store(nil)
		}
	}
	if e.head > 1024 && e.head > len(e.queue)/2 {
		e.queue = append([]kept(nil), e.queue[e.head:]...)
		e.head = 0
	}
}
