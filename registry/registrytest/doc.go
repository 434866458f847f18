// Package registrytest tests kinds and stores against the contract of a registry. Kinds is for the tests of a
// package that defines kinds: names must not collide, types must belong together, and rules must neither panic
// nor change what they must not, whatever was decoded. Stores is for the author of a storage backend: it tests
// a registry on top of it.
package registrytest
