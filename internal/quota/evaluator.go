package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Evaluator measures the objects of one resource. Get one from For.
type Evaluator struct {
	tracks func(corev1.ResourceName) bool
	usage  func(obj runtime.Object, now time.Time) corev1.ResourceList
	// scope reports whether an object is in a scope; nil for objects without scopes.
	scope func(*corev1.ScopedResourceSelectorRequirement, runtime.Object) bool
	// constrain rejects objects that lack required values; nil rejects none.
	constrain func(required []corev1.ResourceName, obj runtime.Object) error
	// rises reports whether an update may increase the usage; nil for objects that are only counted.
	rises func(obj, old runtime.Object) bool
}

// For returns the evaluator of a resource. Objects of resources without special rules are only counted.
func For(gr schema.GroupResource) Evaluator {
	if gr == (schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"}) {
		return deviceEvaluator()
	}
	if gr.Group != "" {
		return counted(gr, "")
	}
	switch gr.Resource {
	case "pods":
		return podEvaluator()
	case "services":
		return serviceEvaluator()
	case "persistentvolumeclaims":
		return claimEvaluator()
	case "configmaps", "replicationcontrollers", "resourcequotas", "secrets":
		return counted(gr, corev1.ResourceName(gr.Resource))
	}
	return counted(gr, "")
}

// Ignored reports whether quotas ignore a resource, because its objects come and go by themselves.
func Ignored(gr schema.GroupResource) bool {
	return gr.Resource == "events" && (gr.Group == "" || gr.Group == "events.k8s.io")
}

// Known returns the resources for which quotas have special names. Even servers without these resources report their
// usage, as none.
func Known() []schema.GroupResource {
	list := []schema.GroupResource{{Group: resourcev1.GroupName, Resource: "resourceclaims"}}
	for _, name := range []string{
		"configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services",
	} {
		list = append(list, schema.GroupResource{Resource: name})
	}
	return list
}

// CountName returns the name under which the objects of a resource are counted.
func CountName(gr schema.GroupResource) corev1.ResourceName {
	return corev1.ResourceName("count/" + gr.String())
}

func counted(gr schema.GroupResource, alias corev1.ResourceName) Evaluator {
	name := CountName(gr)
	return Evaluator{
		tracks: func(n corev1.ResourceName) bool { return n == name || alias != "" && n == alias },
		usage: func(runtime.Object, time.Time) corev1.ResourceList {
			list := corev1.ResourceList{name: count(1)}
			if alias != "" {
				list[alias] = count(1)
			}
			return list
		},
	}
}

// Tracks reports whether objects may affect a limit of that name.
func (e Evaluator) Tracks(name corev1.ResourceName) bool { return e.tracks(name) }

// Usage returns an object's usage under all tracked names. It may decrease with time: for a pod that should be gone,
// only the object counts.
func (e Evaluator) Usage(obj runtime.Object, now time.Time) corev1.ResourceList {
	return e.usage(obj, now)
}

// Counts reports whether every object has the same usage.
func (e Evaluator) Counts() bool { return e.rises == nil }

// Handles reports whether a write can increase usage; old is nil for a create.
func (e Evaluator) Handles(subresource string, obj, old runtime.Object) bool {
	switch {
	case old == nil:
		return subresource == ""
	case e.rises == nil:
		return false
	case subresource == "resize":
		_, pod := obj.(*corev1.Pod)
		return pod
	}
	return subresource == "" && e.rises(obj, old)
}

// InScope reports whether an object is in all scopes of a quota.
func (e Evaluator) InScope(spec *corev1.ResourceQuotaSpec, obj runtime.Object) bool {
	for _, scope := range spec.Scopes {
		r := corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}
		if e.scope == nil || !e.scope(&r, obj) {
			return false
		}
	}
	if spec.ScopeSelector == nil {
		return true
	}
	for i := range spec.ScopeSelector.MatchExpressions {
		if e.scope == nil || !e.scope(&spec.ScopeSelector.MatchExpressions[i], obj) {
			return false
		}
	}
	return true
}
