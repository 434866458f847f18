package cluster

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/nodelifecycle"
	"github.com/keelson-dev/keelson/controllers/podgc"
	"github.com/keelson-dev/keelson/controllers/tainteviction"
)

func newNodeLifecycle(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	in := nodelifecycle.Sources{
		Nodes:  shared[*corev1.Node](c.informers, coreResource("nodes"), &err),
		Pods:   shared[*corev1.Pod](c.informers, coreResource("pods"), &err),
		Leases: shared[*coordinationv1.Lease](c.informers, schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}, &err),
	}
	if err != nil {
		return nil, err
	}
	o := nodelifecycle.Options{Logger: c.log}
	if c.options.Seed != nil {
		o.Parallel = 1
	}
	return c.loop(nodelifecycle.New(in, k.client, k.recorder, o)), nil
}

func newTaintEviction(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	in := tainteviction.Sources{
		Nodes: shared[*corev1.Node](c.informers, coreResource("nodes"), &err),
		Pods:  shared[*corev1.Pod](c.informers, coreResource("pods"), &err),
	}
	if err != nil {
		return nil, err
	}
	return c.loop(tainteviction.New(in, k.client, k.recorder)), nil
}

func newPodGC(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	in := podgc.Sources{
		Nodes: shared[*corev1.Node](c.informers, coreResource("nodes"), &err),
		Pods:  shared[*corev1.Pod](c.informers, coreResource("pods"), &err),
	}
	if err != nil {
		return nil, err
	}
	return c.loop(podgc.New(in, k.client, podgc.Options{Logger: c.log})), nil
}
