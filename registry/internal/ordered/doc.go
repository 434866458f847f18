// Package ordered has a set of values sorted by their keys: a B-tree with copy-on-write clones that knows how
// many values precede a key. A Tree may be read concurrently; a write must be exclusive. Clones are independent
// of each other, even if they are used concurrently.
package ordered
