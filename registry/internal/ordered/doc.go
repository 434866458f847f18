// Package ordered is a set of values in the order of their keys: a B-tree whose clones share what neither has
// changed since, and which knows how many values lie before a key. A Tree may be read by many at once; writes need it to
// themselves. Trees that were cloned from each other are independent of each other, also of what others do at the
// same time.
package ordered
