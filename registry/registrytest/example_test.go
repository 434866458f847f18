package registrytest_test

import (
	"testing"

	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// The test of a package that defines kinds calls Kinds with its own t.
func ExampleKinds() {
	contract := func(t *testing.T) {
		registrytest.Kinds(t, coordination.Kinds())
	}
	_ = contract
}
