// Package registrytest holds kinds and stores to what a registry relies on and promises. Kinds is for
// the tests of a package that defines kinds: names that do not collide, types that belong together,
// and rules that neither panic nor change what they must not, whatever was decoded. Stores is for the
// author of a backend: what a registry shows over it.
package registrytest
