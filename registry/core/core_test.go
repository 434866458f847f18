package core_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/registry/core"
)

func ExampleKinds() {
	for _, k := range core.Kinds(core.Options{}) {
		fmt.Println(k.Plural, k.Namespaced)
	}
	// Output:
	// bindings true
	// componentstatuses false
	// configmaps true
	// endpoints true
	// events true
	// limitranges true
	// namespaces false
	// nodes false
	// persistentvolumeclaims true
	// persistentvolumes false
	// pods true
	// podtemplates true
	// replicationcontrollers true
	// resourcequotas true
	// secrets true
	// serviceaccounts true
	// services true
}
