package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
)

// Scheme returns a scheme with the Go types of the given kinds, their lists, further versions and subresources,
// for clients that need a runtime.Scheme.
func Scheme(kinds []Kind) *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	seen := map[schema.GroupVersion]bool{{Version: "v1"}: true}
	add := func(gv schema.GroupVersion, kind string, obj runtime.Object) {
		if !seen[gv] {
			seen[gv] = true
			metav1.AddToGroupVersion(s, gv)
		}
		s.AddKnownTypeWithName(gv.WithKind(kind), obj)
	}
	for _, k := range kinds {
		if k.Answer != nil {
			add(k.GroupVersion, k.Names.Kind, k.NewRequest())
			continue
		}
		add(k.GroupVersion, k.Names.Kind, k.New())
		add(k.GroupVersion, k.ListKind(), k.NewList())
		for _, v := range k.Also {
			add(v.GroupVersion, v.Names.Kind, v.New())
			add(v.GroupVersion, v.ListKind(), v.NewList())
		}
		for _, a := range k.Sub.Actions {
			add(a.GroupVersionKind.GroupVersion(), a.GroupVersionKind.Kind, a.New())
		}
		if k.Sub.Scale != nil {
			add(autoscalingv1.SchemeGroupVersion, "Scale", &autoscalingv1.Scale{})
		}
	}
	return s
}
