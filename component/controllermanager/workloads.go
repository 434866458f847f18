package controllermanager

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/cronjob"
	"github.com/keelson-dev/keelson/controllers/daemonset"
	"github.com/keelson-dev/keelson/controllers/deployment"
	"github.com/keelson-dev/keelson/controllers/disruption"
	"github.com/keelson-dev/keelson/controllers/replicaset"
	"github.com/keelson-dev/keelson/controllers/replicationcontroller"
	"github.com/keelson-dev/keelson/controllers/statefulset"
	"github.com/keelson-dev/keelson/lifecycle"
)

func newDeployment(p *component.Parts) (lifecycle.Runnable, error) {
	in := deployment.Sources{
		Deployments: component.Informer[*appsv1.Deployment](p.Informers, appsv1.SchemeGroupVersion.WithResource("deployments")),
		ReplicaSets: component.Informer[*appsv1.ReplicaSet](p.Informers, appsv1.SchemeGroupVersion.WithResource("replicasets")),
		Pods:        component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(deployment.New(in, p.Client, p.Recorder, deployment.Options{})), nil
}

func newReplicaSet(p *component.Parts) (lifecycle.Runnable, error) {
	in := replicaset.Sources{
		ReplicaSets: component.Informer[*appsv1.ReplicaSet](p.Informers, appsv1.SchemeGroupVersion.WithResource("replicasets")),
		Pods:        component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	o := replicaset.Options{}
	if p.Pace.InOrder() {
		o.Parallel = 1
	}
	return p.Loop(replicaset.New(in, p.Client, p.Recorder, o)), nil
}

func newCronJob(p *component.Parts) (lifecycle.Runnable, error) {
	in := cronjob.Sources{
		CronJobs: component.Informer[*batchv1.CronJob](p.Informers, batchv1.SchemeGroupVersion.WithResource("cronjobs")),
		Jobs:     component.Informer[*batchv1.Job](p.Informers, batchv1.SchemeGroupVersion.WithResource("jobs")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(cronjob.New(in, p.Client, p.Recorder)), nil
}

func newReplicationController(p *component.Parts) (lifecycle.Runnable, error) {
	in := replicationcontroller.Sources{
		ReplicationControllers: component.Informer[*corev1.ReplicationController](p.Informers, corev1.SchemeGroupVersion.WithResource("replicationcontrollers")),
		Pods:                   component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	o := replicationcontroller.Options{}
	if p.Pace.InOrder() {
		o.Parallel = 1
	}
	return p.Loop(replicationcontroller.New(in, p.Client, p.Recorder, o)), nil
}

func newDaemonSet(p *component.Parts) (lifecycle.Runnable, error) {
	in := daemonset.Sources{
		DaemonSets: component.Informer[*appsv1.DaemonSet](p.Informers, appsv1.SchemeGroupVersion.WithResource("daemonsets")),
		Revisions:  component.Informer[*appsv1.ControllerRevision](p.Informers, appsv1.SchemeGroupVersion.WithResource("controllerrevisions")),
		Pods:       component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Nodes:      component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	o := daemonset.Options{}
	if p.Pace.InOrder() {
		o.Parallel = 1
	}
	return p.Loop(daemonset.New(in, p.Client, p.Recorder, o)), nil
}

func newStatefulSet(p *component.Parts) (lifecycle.Runnable, error) {
	in := statefulset.Sources{
		StatefulSets: component.Informer[*appsv1.StatefulSet](p.Informers, appsv1.SchemeGroupVersion.WithResource("statefulsets")),
		Pods:         component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Claims:       component.Informer[*corev1.PersistentVolumeClaim](p.Informers, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")),
		Revisions:    component.Informer[*appsv1.ControllerRevision](p.Informers, appsv1.SchemeGroupVersion.WithResource("controllerrevisions")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	o := statefulset.Options{}
	if p.Pace.InOrder() {
		o.Parallel = 1
	}
	return p.Loop(statefulset.New(in, p.Client, p.Recorder, o)), nil
}

func newDisruption(p *component.Parts) (lifecycle.Runnable, error) {
	in := disruption.Sources{
		Pods:        component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Budgets:     component.Informer[*policyv1.PodDisruptionBudget](p.Informers, policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")),
		Deployments: component.Informer[*appsv1.Deployment](p.Informers, appsv1.SchemeGroupVersion.WithResource("deployments")),
		ReplicaSets: component.Informer[*appsv1.ReplicaSet](p.Informers, appsv1.SchemeGroupVersion.WithResource("replicasets")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return lifecycle.Group(
		p.Loop(disruption.New(in, p.Client, p.Recorder, disruption.Options{Served: served(p.Cluster)})),
		p.Loop(disruption.NewStaleTargets(in.Pods, p.Client)),
	), nil
}

// served returns how a kind is served, and whether its objects can be scaled.
func served(c component.Cluster) func(context.Context, schema.GroupVersionKind) (disruption.Served, bool) {
	return func(ctx context.Context, gvk schema.GroupVersionKind) (disruption.Served, bool) {
		all, _ := c.Resources(ctx) // what is not known is not served
		for _, r := range all {
			if r.Group == gvk.Group && r.Kind == gvk.Kind {
				return disruption.Served{Resource: r.GroupVersionResource, Scalable: r.Scalable}, true
			}
		}
		return disruption.Served{}, false
	}
}
