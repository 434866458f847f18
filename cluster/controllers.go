package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/clusterroleaggregation"
	"github.com/keelson-dev/keelson/controllers/deployment"
	"github.com/keelson-dev/keelson/controllers/endpoints"
	"github.com/keelson-dev/keelson/controllers/endpointslice"
	"github.com/keelson-dev/keelson/controllers/garbagecollector"
	"github.com/keelson-dev/keelson/controllers/namespace"
	"github.com/keelson-dev/keelson/controllers/replicaset"
	"github.com/keelson-dev/keelson/controllers/rootca"
	"github.com/keelson-dev/keelson/controllers/serviceaccount"
	"github.com/keelson-dev/keelson/informer"
)

// controllerTable is every controller, by upstream's name and service account.
func controllerTable() []component {
	return []component{
		{"deployment-controller", "deployment-controller", newDeployment},
		{"replicaset-controller", "replicaset-controller", newReplicaSet},
		{"endpoints-controller", "endpoint-controller", newEndpoints},
		{"endpointslice-controller", "endpointslice-controller", newEndpointSlice},
		{"garbage-collector-controller", "generic-garbage-collector", newGarbageCollector},
		{"namespace-controller", "namespace-controller", newNamespace},
		{"serviceaccount-controller", "service-account-controller", newServiceAccount},
		{"root-ca-certificate-publisher-controller", "root-ca-cert-publisher", newRootCA},
		{"clusterrole-aggregation-controller", "clusterrole-aggregation-controller", newClusterRoleAggregation},
		{"disruption-controller", "disruption-controller", newDisruption},
		{"node-lifecycle-controller", "node-controller", newNodeLifecycle},
		{"taint-eviction-controller", "node-controller", newTaintEviction},
		{"pod-garbage-collector-controller", "pod-garbage-collector", newPodGC},
		{"resourcequota-controller", "resourcequota-controller", newResourceQuota},
	}
}

func newDeployment(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	in := deployment.Sources{
		Deployments: shared[*appsv1.Deployment](c.informers, appsResource("deployments"), &err),
		ReplicaSets: shared[*appsv1.ReplicaSet](c.informers, appsResource("replicasets"), &err),
		Pods:        shared[*corev1.Pod](c.informers, coreResource("pods"), &err),
	}
	return c.loop(deployment.New(in, k.client, k.recorder, deployment.Options{})), err
}

func newReplicaSet(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	in := replicaset.Sources{
		ReplicaSets: shared[*appsv1.ReplicaSet](c.informers, appsResource("replicasets"), &err),
		Pods:        shared[*corev1.Pod](c.informers, coreResource("pods"), &err),
	}
	o := replicaset.Options{}
	if c.options.Seed != nil {
		o.Parallel = 1
	}
	return c.loop(replicaset.New(in, k.client, k.recorder, o)), err
}

func newEndpoints(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	in := endpoints.Sources{
		Services:  shared[*corev1.Service](c.informers, coreResource("services"), &err),
		Pods:      shared[*corev1.Pod](c.informers, coreResource("pods"), &err),
		Endpoints: shared[*corev1.Endpoints](c.informers, coreResource("endpoints"), &err),
	}
	return c.loop(endpoints.New(in, k.client, k.recorder, endpoints.Options{})), err
}

func newEndpointSlice(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	in := endpointslice.Sources{
		Services:       shared[*corev1.Service](c.informers, coreResource("services"), &err),
		Pods:           shared[*corev1.Pod](c.informers, coreResource("pods"), &err),
		Nodes:          shared[*corev1.Node](c.informers, coreResource("nodes"), &err),
		EndpointSlices: shared[*discoveryv1.EndpointSlice](c.informers, schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}, &err),
	}
	return c.loop(endpointslice.New(in, k.client, k.recorder, endpointslice.Options{})), err
}

func newGarbageCollector(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	var kinds []garbagecollector.Kind
	for _, res := range c.registry.Resources() {
		if !res.Stored() {
			continue
		}
		kind := garbagecollector.Kind{
			GroupVersionKind: res.GroupVersion.WithKind(res.Names.Kind), Resource: res.Plural, Namespaced: res.Namespaced,
		}
		if res.Plural != "events" { // which are collected by their age
			kind.Objects = shared[informer.Object](c.informers, res.GroupResource(), &err)
		}
		kinds = append(kinds, kind)
	}
	return c.loop(garbagecollector.New(kinds, k.client, k.recorder)), err
}

func newNamespace(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	namespaces := shared[*corev1.Namespace](c.informers, coreResource("namespaces"), &err)
	return c.loop(namespace.New(namespaces, k.client, c.deletable, namespace.Options{})), err
}

func newServiceAccount(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	in := serviceaccount.Sources{
		Namespaces:      shared[*corev1.Namespace](c.informers, coreResource("namespaces"), &err),
		ServiceAccounts: shared[*corev1.ServiceAccount](c.informers, coreResource("serviceaccounts"), &err),
	}
	return c.loop(serviceaccount.New(in, k.client, serviceaccount.Options{})), err
}

func newRootCA(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	in := rootca.Sources{
		Namespaces: shared[*corev1.Namespace](c.informers, coreResource("namespaces"), &err),
		ConfigMaps: shared[*corev1.ConfigMap](c.informers, coreResource("configmaps"), &err),
	}
	return c.loop(rootca.New(in, k.client, c.options.Server.RootCA)), err
}

func newClusterRoleAggregation(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	in := clusterroleaggregation.Sources{
		ClusterRoles: shared[*rbacv1.ClusterRole](c.informers, rbacResource("clusterroles"), &err),
	}
	return c.loop(clusterroleaggregation.New(in, k.client)), err
}

// deletable are the namespaced resources that have objects to delete.
func (c *Cluster) deletable() ([]schema.GroupVersionResource, error) {
	var list []schema.GroupVersionResource
	for _, res := range c.registry.Resources() {
		if res.Namespaced && res.Stored() {
			list = append(list, res.GroupVersion.WithResource(res.Plural))
		}
	}
	return list, nil
}
