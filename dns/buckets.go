package dns

import (
	"strings"

	"github.com/keelson-dev/keelson/informer"
)

// buckets are objects by the hash of something that they have. Whoever reads them checks that the objects have it.
type buckets[T informer.Object] map[uint64]*node[T]

type node[T informer.Object] struct {
	obj  T
	next *node[T]
}

// bucketOp is an object and where it belongs.
type bucketOp interface {
	add()
	remove()
}

type entry[T informer.Object] struct {
	in   buckets[T]
	hash uint64
	obj  T
}

func (e entry[T]) add() { e.in[e.hash] = &node[T]{e.obj, e.in[e.hash]} }

// remove removes one entry of the object, which it recognizes by its name.
func (e entry[T]) remove() {
	var before *node[T]
	for n := e.in[e.hash]; n != nil; before, n = n, n.next {
		switch {
		case compare(n.obj, e.obj) != 0:
			continue
		case before != nil:
			before.next = n.next
		case n.next != nil:
			e.in[e.hash] = n.next
		default:
			delete(e.in, e.hash)
		}
		return
	}
}

// compare orders objects by namespace and name.
func compare[T informer.Object](a, b T) int {
	if c := strings.Compare(a.GetNamespace(), b.GetNamespace()); c != 0 {
		return c
	}
	return strings.Compare(a.GetName(), b.GetName())
}
