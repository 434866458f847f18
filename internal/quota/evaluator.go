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
	// scope tells whether an object lies in a scope; nil for objects that know none.
	scope func(*corev1.ScopedResourceSelectorRequirement, runtime.Object) bool
	// constrain refuses objects that do not say what must be known of them; nil refuses none.
	constrain func(required []corev1.ResourceName, obj runtime.Object) error
	// rises tells whether an update may take more than before; nil for objects that only count.
	rises func(obj, old runtime.Object) bool
}

// For returns the evaluator of a resource. Those that quotas know nothing particular about are
// counted.
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

// Ignored tells of a resource that quotas do not count: its objects come and go by themselves.
func Ignored(gr schema.GroupResource) bool {
	return gr.Resource == "events" && (gr.Group == "" || gr.Group == "events.k8s.io")
}

// Known are the resources that quotas know by names of their own. Usage of them is told, as none,
// even by servers that do not have them.
func Known() []schema.GroupResource {
	list := []schema.GroupResource{{Group: resourcev1.GroupName, Resource: "resourceclaims"}}
	for _, name := range []string{
		"configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services",
	} {
		list = append(list, schema.GroupResource{Resource: name})
	}
	return list
}

// CountName is the name under which the objects of a resource are counted.
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

// Tracks tells whether objects may be of consequence to a limit of that name.
func (e Evaluator) Tracks(name corev1.ResourceName) bool { return e.tracks(name) }

// Usage is what an object takes of all the names that are tracked. It may lessen with time: of
// a pod that should be gone, only the object counts.
func (e Evaluator) Usage(obj runtime.Object, now time.Time) corev1.ResourceList {
	return e.usage(obj, now)
}

// Counts tells whether every object takes the same.
func (e Evaluator) Counts() bool { return e.rises == nil }

// Handles tells whether a write can take anything: old is nil in a create.
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

// InScope tells whether an object lies in all scopes of a quota.
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
