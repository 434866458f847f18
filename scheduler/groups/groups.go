package groups

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/scheduler"
)

// Sources are the informers that a Groups reads. All are required; the caller runs them.
type Sources struct {
	Namespaces             *informer.Informer[*corev1.Namespace]
	Services               *informer.Informer[*corev1.Service]
	ReplicationControllers *informer.Informer[*corev1.ReplicationController]
	ReplicaSets            *informer.Informer[*appsv1.ReplicaSet]
	StatefulSets           *informer.Informer[*appsv1.StatefulSet]
}

// Groups knows which pods belong together. It implements scheduler.Objects. Make one with New.
type Groups struct {
	in Sources
}

// New returns a Groups that follows its sources. It starts nothing.
func New(in Sources) *Groups { return &Groups{in} }

// Watch implements scheduler.Objects. Upstream's plugins do not wait for events about these objects.
func (*Groups) Watch(func(scheduler.Event)) {}

// WaitSynced implements scheduler.Objects.
func (g *Groups) WaitSynced(ctx context.Context) error {
	for _, synced := range []func(context.Context) error{
		g.in.Namespaces.WaitSynced, g.in.Services.WaitSynced, g.in.ReplicationControllers.WaitSynced,
		g.in.ReplicaSets.WaitSynced, g.in.StatefulSets.WaitSynced,
	} {
		if err := synced(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Version is another one after each change of a namespace: what Namespaces returned since a call of Version still holds if
// another call returns the same.
func (g *Groups) Version() string { return g.in.Namespaces.LastVersion() }

// Namespaces returns the names of the namespaces whose labels match, sorted.
func (g *Groups) Namespaces(selector labels.Selector) []string {
	var names []string
	for _, ns := range g.in.Namespaces.List("") {
		if selector.Matches(labels.Set(ns.Labels)) {
			names = append(names, ns.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Labels returns the labels of a namespace, nil if it does not exist. The map must not be changed.
func (g *Groups) Labels(namespace string) labels.Set {
	ns, ok := g.in.Namespaces.Get("", namespace)
	if !ok {
		return nil
	}
	return ns.Labels
}

// Selector returns a selector of the pods that belong together with a pod: all that the services do which select it, and
// the replication controller, replica set or stateful set that controls it. It is empty if there is none of these.
func (g *Groups) Selector(pod *corev1.Pod) labels.Selector {
	set := labels.Set{}
	for _, service := range g.in.Services.List(pod.Namespace) {
		if service.Spec.Selector != nil && labels.SelectorFromValidatedSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			set = labels.Merge(set, service.Spec.Selector)
		}
	}
	selector := set.AsSelector()
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return selector
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return selector
	}
	switch gv.WithKind(owner.Kind) {
	case corev1.SchemeGroupVersion.WithKind("ReplicationController"):
		if rc, ok := g.in.ReplicationControllers.Get(pod.Namespace, owner.Name); ok {
			return labels.Merge(set, rc.Spec.Selector).AsSelector()
		}
	case appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):
		if rs, ok := g.in.ReplicaSets.Get(pod.Namespace, owner.Name); ok {
			return and(selector, rs.Spec.Selector)
		}
	case appsv1.SchemeGroupVersion.WithKind("StatefulSet"):
		if set, ok := g.in.StatefulSets.Get(pod.Namespace, owner.Name); ok {
			return and(selector, set.Spec.Selector)
		}
	}
	return selector
}

// and returns the selector with the requirements of another.
func and(selector labels.Selector, other *metav1.LabelSelector) labels.Selector {
	if parsed, err := metav1.LabelSelectorAsSelector(other); err == nil {
		if requirements, ok := parsed.Requirements(); ok {
			return selector.Add(requirements...)
		}
	}
	return selector
}
