// Package registrytest holds kinds to what a registry relies on: names that do not collide,
// types that belong together, and rules that neither panic nor change what they must not,
// whatever was decoded. Call Kinds from the tests of a package that defines kinds.
package registrytest
