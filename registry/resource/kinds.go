package resource

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
)

// Compiler checks an expression of a selector and returns what it costs at most. An error that is not the author's fault is a
// field.Error of the type field.ErrorTypeInternal. It is safe for concurrent use.
type Compiler func(expression string) (cost uint64, err error)

// Options are the options of the kinds. The zero value is valid.
type Options struct {
	// Compile checks the expressions of selectors; nil refuses them.
	Compile Compiler
	// Authorizer decides who may allocate and reserve claims, and who may report the state of a driver's devices; nil lets
	// everybody who may write the status of claims.
	Authorizer authz.Authorizer
	// Namespace returns a namespace, of which a label says whether claims in it may have administrative access to devices;
	// nil gives that access to no claim. It must not lag behind what is stored.
	Namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
}

// Kinds returns the kinds of the group in discovery order.
func Kinds(o Options) []registry.Kind {
	r := rules{compile: o.Compile, access: access{authorizer: o.Authorizer, namespace: o.Namespace}}
	return []registry.Kind{r.deviceClasses(), deviceTaintRules(), r.claims(), r.claimTemplates(), resourceSlices()}
}

// rules are those that depend on the options.
type rules struct {
	compile Compiler
	access  access
}

// older returns the versions in which servers stored a kind before v1, if v1 has all their fields under the same names and
// numbers.
func older(empty func() registry.Object, versions ...string) []registry.Older {
	var out []registry.Older
	for _, version := range versions {
		out = append(out, registry.Older{
			GroupVersion: schema.GroupVersion{Group: resourcev1.GroupName, Version: version},
			New:          func() runtime.Object { return empty() },
			ToStored:     func(obj runtime.Object) registry.Object { return obj.(registry.Object) },
		})
	}
	return out
}
