package controllermanager

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/clusterroleaggregation"
	"github.com/keelson-dev/keelson/controllers/garbagecollector"
	"github.com/keelson-dev/keelson/controllers/namespace"
	"github.com/keelson-dev/keelson/controllers/resourcequota"
	"github.com/keelson-dev/keelson/controllers/rootca"
	"github.com/keelson-dev/keelson/controllers/serviceaccount"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

func newNamespace(p *component.Parts) (lifecycle.Runnable, error) {
	namespaces := component.Informer[*corev1.Namespace](p.Informers, corev1.SchemeGroupVersion.WithResource("namespaces"))
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(namespace.New(namespaces, p.Client, func(ctx context.Context) ([]schema.GroupVersionResource, error) {
		return namespaced(ctx, p.Cluster)
	}, namespace.Options{})), nil
}

func newServiceAccount(p *component.Parts) (lifecycle.Runnable, error) {
	in := serviceaccount.Sources{
		Namespaces:      component.Informer[*corev1.Namespace](p.Informers, corev1.SchemeGroupVersion.WithResource("namespaces")),
		ServiceAccounts: component.Informer[*corev1.ServiceAccount](p.Informers, corev1.SchemeGroupVersion.WithResource("serviceaccounts")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(serviceaccount.New(in, p.Client, serviceaccount.Options{})), nil
}

func newRootCA(p *component.Parts) (lifecycle.Runnable, error) {
	in := rootca.Sources{
		Namespaces: component.Informer[*corev1.Namespace](p.Informers, corev1.SchemeGroupVersion.WithResource("namespaces")),
		ConfigMaps: component.Informer[*corev1.ConfigMap](p.Informers, corev1.SchemeGroupVersion.WithResource("configmaps")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(rootca.New(in, p.Client, p.Cluster.RootCA)), nil
}

func newClusterRoleAggregation(p *component.Parts) (lifecycle.Runnable, error) {
	in := clusterroleaggregation.Sources{
		ClusterRoles: component.Informer[*rbacv1.ClusterRole](p.Informers, rbacv1.SchemeGroupVersion.WithResource("clusterroles")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(clusterroleaggregation.New(in, p.Client)), nil
}

func newGarbageCollector(p *component.Parts) (lifecycle.Runnable, error) {
	own, err := stored(p)
	if err != nil {
		return nil, err
	}
	kinds := collected(p.Informers, own, nil)
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	c := garbagecollector.New(kinds, p.Client, p.Recorder)
	return following(p, p.Loop(c), func(ctx context.Context, known, unknown []component.Resource) error {
		return c.Follow(ctx, collected(p.Informers, known, unknown))
	}), nil
}

// collected returns the kinds of the garbage collector. Those whose objects are not known can be owners.
func collected(in *component.Informers, known, unknown []component.Resource) []garbagecollector.Kind {
	kinds := make([]garbagecollector.Kind, 0, len(known)+len(unknown))
	for _, r := range slices.Concat(known, unknown) {
		kind := garbagecollector.Kind{GroupVersionKind: r.GroupVersionKind(), Resource: r.Resource, Namespaced: r.Namespaced}
		if len(kinds) < len(known) && r.Resource != "events" { // events expire by age
			kind.Objects = component.Metadata(in, r.GroupVersionResource)
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

func newResourceQuota(p *component.Parts) (lifecycle.Runnable, error) {
	own, err := stored(p)
	if err != nil {
		return nil, err
	}
	in := resourcequota.Sources{
		Quotas:   component.Informer[*corev1.ResourceQuota](p.Informers, corev1.SchemeGroupVersion.WithResource("resourcequotas")),
		Pods:     component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Services: component.Informer[*corev1.Service](p.Informers, corev1.SchemeGroupVersion.WithResource("services")),
		Counted:  counted(p.Informers, own),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	c := resourcequota.New(in, p.Client, resourcequota.Options{})
	return following(p, p.Loop(c), func(ctx context.Context, known, _ []component.Resource) error {
		return c.Follow(ctx, counted(p.Informers, known))
	}), nil
}

// counted returns the resources that quotas count only by number, with few exceptions.
func counted(in *component.Informers, all []component.Resource) map[schema.GroupResource]*informer.Informer[informer.Object] {
	list := map[schema.GroupResource]*informer.Informer[informer.Object]{}
	for _, r := range all {
		gr := r.GroupResource()
		if !r.Namespaced || resourcequota.Ignored(gr) {
			continue
		}
		switch gr {
		case corev1.Resource("resourcequotas"), corev1.Resource("pods"), corev1.Resource("services"):
		default:
			list[gr] = component.Metadata(in, r.GroupVersionResource)
		}
	}
	return list
}
