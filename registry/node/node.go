package node

import "github.com/keelson-dev/keelson/registry"

// Kinds returns the kinds of the group in discovery order.
func Kinds() []registry.Kind {
	return []registry.Kind{runtimeClasses()}
}
