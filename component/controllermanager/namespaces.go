package controllermanager

import (
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
	return p.Loop(namespace.New(namespaces, p.Client, func() ([]schema.GroupVersionResource, error) {
		return namespaced(p.Cluster)
	}, namespace.Options{})), nil
}

// namespaced returns the resources to delete with a namespace.
func namespaced(c component.Cluster) (list []schema.GroupVersionResource, err error) {
	all, err := c.Resources()
	for _, r := range all {
		if r.Namespaced {
			list = append(list, r.GroupVersionResource)
		}
	}
	return list, err
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
	all, err := p.Cluster.Resources()
	if err != nil {
		return nil, err
	}
	kinds := make([]garbagecollector.Kind, len(all))
	for i, r := range all {
		kinds[i] = garbagecollector.Kind{GroupVersionKind: r.GroupVersionKind(), Resource: r.Resource, Namespaced: r.Namespaced}
		if r.Resource != "events" { // events expire by age
			kinds[i].Objects = component.Metadata(p.Informers, r.GroupVersionResource)
		}
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(garbagecollector.New(kinds, p.Client, p.Recorder)), nil
}

func newResourceQuota(p *component.Parts) (lifecycle.Runnable, error) {
	all, err := p.Cluster.Resources()
	if err != nil {
		return nil, err
	}
	in := resourcequota.Sources{
		Quotas:   component.Informer[*corev1.ResourceQuota](p.Informers, corev1.SchemeGroupVersion.WithResource("resourcequotas")),
		Pods:     component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Services: component.Informer[*corev1.Service](p.Informers, corev1.SchemeGroupVersion.WithResource("services")),
		Counted:  map[schema.GroupResource]*informer.Informer[informer.Object]{},
	}
	for _, r := range all {
		gr := r.GroupResource()
		if !r.Namespaced || resourcequota.Ignored(gr) {
			continue
		}
		switch gr {
		case corev1.Resource("resourcequotas"), corev1.Resource("pods"), corev1.Resource("services"):
		default:
			in.Counted[gr] = component.Metadata(p.Informers, r.GroupVersionResource)
		}
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(resourcequota.New(in, p.Client, resourcequota.Options{})), nil
}
