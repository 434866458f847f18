package informer

import (
	"slices"
	"strings"
)

// entry is one object in the cache.
type entry[T Object] struct {
	// path is namespace/name (or name), in whose byte order lists are.
	path string
	obj  T
	// asGiven is a deep copy made when obj arrived, if mutations are looked for.
	asGiven T
	// values are what each index, by its position, says of obj.
	values [][]string
}

// chunkSize bounds what one insertion has to move.
const chunkSize = 256

// sorted is a set of entries in the order of their paths, cut into chunks so that an insertion
// into a large set stays cheap. No chunk is empty.
type sorted[T Object] struct {
	chunks [][]*entry[T]
	size   int
}

// find returns where path is, or where it belongs.
func (s *sorted[T]) find(path string) (chunk, at int, found bool) {
	chunk, _ = slices.BinarySearchFunc(s.chunks, path, func(c []*entry[T], path string) int {
		return strings.Compare(c[len(c)-1].path, path)
	})
	if chunk == len(s.chunks) {
		if chunk == 0 {
			return 0, 0, false
		}
		return chunk - 1, len(s.chunks[chunk-1]), false
	}
	at, found = slices.BinarySearchFunc(s.chunks[chunk], path, func(e *entry[T], path string) int {
		return strings.Compare(e.path, path)
	})
	return chunk, at, found
}

// insert adds an entry whose path is not there.
func (s *sorted[T]) insert(e *entry[T]) {
	s.size++
	if len(s.chunks) == 0 {
		s.chunks = [][]*entry[T]{{e}}
		return
	}
	chunk, at, _ := s.find(e.path)
	c := slices.Insert(s.chunks[chunk], at, e)
	if len(c) > chunkSize {
		half := len(c) / 2
		s.chunks = slices.Insert(s.chunks, chunk+1, slices.Clone(c[half:]))
		clear(c[half:])
		c = c[:half:half]
	}
	s.chunks[chunk] = c
}

// remove takes out the entry with that path, if there is one.
func (s *sorted[T]) remove(path string) {
	chunk, at, found := s.find(path)
	if !found {
		return
	}
	s.size--
	c := slices.Delete(s.chunks[chunk], at, at+1)
	if len(c) == 0 {
		s.chunks = slices.Delete(s.chunks, chunk, chunk+1)
		return
	}
	s.chunks[chunk] = c
}

// objects returns a new slice of the objects in order.
func (s *sorted[T]) objects() []T {
	if s == nil {
		return nil
	}
	out := make([]T, 0, s.size)
	for _, c := range s.chunks {
		for _, e := range c {
			out = append(out, e.obj)
		}
	}
	return out
}
