package registry

import (
	"bytes"
	"strconv"
	"sync"

	"github.com/keelson-dev/keelson/storage"
)

// pending holds the decoded objects of writes in progress, so that their commits need not be decoded again. A
// write is recognised by its key and bytes, whatever the backend.
type pending struct {
	mu     sync.Mutex
	writes map[string][]*write
}

type write struct {
	of     *Resource // in its stored version; another of that name has its objects in another form
	value  []byte
	object Object // shared once Run has taken it
	taken  bool
}

func (p *pending) add(of *Resource, key string, value []byte, obj Object) *write {
	w := &write{of: of, value: value, object: obj}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writes == nil {
		p.writes = map[string][]*write{}
	}
	p.writes[key] = append(p.writes[key], w)
	return w
}

func (p *pending) drop(key string, w *write) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.writes[key]
	for i := range list {
		if list[i] == w {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(p.writes, key)
	} else {
		p.writes[key] = list
	}
}

// take returns the object that e wrote, at its revision, or nil if another process wrote it, or the resource that had the
// name of this one before.
func (p *pending) take(of *Resource, e storage.Event) Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.writes[e.Key] {
		if !w.taken && w.of == of && bytes.Equal(w.value, e.Value) {
			w.taken = true
			w.object.SetResourceVersion(strconv.FormatInt(e.Revision, 10))
			return w.object
		}
	}
	return nil
}
