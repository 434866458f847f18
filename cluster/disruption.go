package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/disruption"
)

func newDisruption(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	in := disruption.Sources{
		Pods:        shared[*corev1.Pod](c.informers, coreResource("pods"), &err),
		Budgets:     shared[*policyv1.PodDisruptionBudget](c.informers, schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"}, &err),
		Deployments: shared[*appsv1.Deployment](c.informers, appsResource("deployments"), &err),
		ReplicaSets: shared[*appsv1.ReplicaSet](c.informers, appsResource("replicasets"), &err),
	}
	if err != nil {
		return nil, err
	}
	return controllers.Group(
		c.loop(disruption.New(in, k.client, k.recorder, disruption.Options{Served: c.served})),
		c.loop(disruption.NewStaleTargets(in.Pods, k.client)),
	), nil
}

// served says how a kind is served, and whether its objects can be scaled.
func (c *Cluster) served(gvk schema.GroupVersionKind) (disruption.Served, bool) {
	for _, res := range c.registry.Resources() {
		if res.Stored() && res.GroupVersion.Group == gvk.Group && res.Names.Kind == gvk.Kind {
			return disruption.Served{Resource: res.GroupVersion.WithResource(res.Plural), Scalable: res.Sub.Scale != nil}, true
		}
	}
	return disruption.Served{}, false
}
