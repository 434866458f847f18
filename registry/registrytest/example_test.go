package registrytest_test

import (
	"testing"

	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// How the test of a package that defines kinds holds them to what a registry relies on; t is the
// test's.
func ExampleKinds() {
	contract := func(t *testing.T) {
		registrytest.Kinds(t, coordination.Kinds())
	}
	_ = contract
}
