package informer

import (
	"cmp"
	"slices"
	"strings"
)

// chunkSize bounds what an insertion has to move.
const chunkSize = 256

// sorted is a set of objects in key order, cut into chunks so that an insertion into a large set stays cheap. No chunk
// is empty. It stores only the objects: caching their keys would cost more than reading them.
type sorted[T Object] struct {
	chunks [][]T
	size   int
}

// compare orders keys as the storage of an API server does: by the bytes of namespace/name.
func (k key) compare(other key) int {
	a, b := k.namespace, other.namespace
	if a == b {
		return strings.Compare(k.name, other.name)
	}
	if short := min(len(a), len(b)); short > 0 {
		if c := strings.Compare(a[:short], b[:short]); c != 0 {
			return c
		}
		// One is a prefix of the other: its slash compares with the other's next byte.
		if len(a) > short && a[short] != '/' {
			return cmp.Compare(a[short], '/')
		}
		if len(b) > short && b[short] != '/' {
			return cmp.Compare('/', b[short])
		}
	}
	return strings.Compare(k.path(), other.path())
}

// find returns the position of k, or where it belongs.
func (s *sorted[T]) find(k key) (chunk, at int, found bool) {
	chunk, _ = slices.BinarySearchFunc(s.chunks, k, func(c []T, k key) int {
		return keyOf(c[len(c)-1]).compare(k)
	})
	if chunk == len(s.chunks) {
		if chunk == 0 {
			return 0, 0, false
		}
		return chunk - 1, len(s.chunks[chunk-1]), false
	}
	at, found = slices.BinarySearchFunc(s.chunks[chunk], k, func(obj T, k key) int {
		return keyOf(obj).compare(k)
	})
	return chunk, at, found
}

// set replaces the object with obj's key, or adds obj.
func (s *sorted[T]) set(obj T) {
	if len(s.chunks) == 0 {
		s.chunks, s.size = [][]T{{obj}}, 1
		return
	}
	chunk, at, found := s.find(keyOf(obj))
	c := s.chunks[chunk]
	if found {
		c[at] = obj
		return
	}
	s.size++
	if len(c) < chunkSize {
		s.chunks[chunk] = slices.Insert(c, at, obj)
		return
	}
	// Ordered input fills chunk after chunk; otherwise leave room on both sides.
	cut := len(c) / 2
	if at == len(c) && chunk == len(s.chunks)-1 {
		cut = len(c)
	}
	left, right := slices.Clone(c[:cut]), slices.Clone(c[cut:])
	if at <= cut && cut < len(c) {
		left = slices.Insert(left, at, obj)
	} else {
		right = slices.Insert(right, at-cut, obj)
	}
	s.chunks[chunk] = left
	s.chunks = slices.Insert(s.chunks, chunk+1, right)
}

// remove removes the object with that key and reports whether there was one.
func (s *sorted[T]) remove(k key) bool {
	if s == nil {
		return false
	}
	chunk, at, found := s.find(k)
	if !found {
		return false
	}
	s.size--
	c := slices.Delete(s.chunks[chunk], at, at+1)
	if len(c) == 0 {
		s.chunks = slices.Delete(s.chunks, chunk, chunk+1)
		return true
	}
	s.chunks[chunk] = c
	return true
}

// objects returns a new slice of the objects in order.
func (s *sorted[T]) objects() []T {
	if s == nil {
		return nil
	}
	return slices.Concat(s.chunks...)
}

// in returns a new slice of the objects of a namespace in order.
func (s *sorted[T]) in(namespace string) []T {
	if s == nil {
		return nil
	}
	var objects []T
	chunk, at, _ := s.find(key{namespace, ""})
	for ; chunk < len(s.chunks); chunk, at = chunk+1, 0 {
		for _, obj := range s.chunks[chunk][at:] {
			if obj.GetNamespace() != namespace {
				return objects
			}
			objects = append(objects, obj)
		}
	}
	return objects
}
