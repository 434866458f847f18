package pvbinder

import (
	"strconv"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// store holds the newest known states of objects: those of the cache and, ahead of it, those that the controller wrote
// itself. Binding takes four writes; without these states, the first of their echoes would show the controller an
// unfinished binding again.
type store[T informer.Object] map[controllers.Key]T

// put notes a state and reports whether it is not older than the known one.
func (s store[T]) put(obj T) bool {
	key := controllers.KeyOf(obj)
	if known, ok := s[key]; ok && version(known) > version(obj) {
		return false
	}
	s[key] = obj
	return true
}

func version(obj informer.Object) uint64 {
	v, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return v
}
