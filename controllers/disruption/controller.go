package disruption

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	Pods        *informer.Informer[*corev1.Pod]
	Budgets     *informer.Informer[*policyv1.PodDisruptionBudget]
	Deployments *informer.Informer[*appsv1.Deployment]
	ReplicaSets *informer.Informer[*appsv1.ReplicaSet]
}

// Client is what the controller needs of the server: to read scales and update the status of budgets.
type Client interface {
	client.Getter
	client.Updater
}

// Served describes how the objects of a kind are served.
type Served struct {
	Resource schema.GroupVersionResource
	// Scalable means that they have the scale subresource.
	Scalable bool
}

// Options of a Controller. The zero value behaves as upstream on a server whose only controllers of pods are
// Deployments and ReplicaSets.
type Options struct {
	// Served finds the resource of a kind, in any version if the given one is not served. Nil, and false, mean that the
	// kind is not served.
	Served func(context.Context, schema.GroupVersionKind) (Served, bool)
}

// Controller is the disruption-controller without StaleTargets. Make one with New.
type Controller struct {
	in       Sources
	client   Client
	recorder events.Recorder
	served   func(context.Context, schema.GroupVersionKind) (Served, bool)
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller.
func New(in Sources, c Client, r events.Recorder, o Options) *Controller {
	if o.Served == nil {
		o.Served = func(context.Context, schema.GroupVersionKind) (Served, bool) { return Served{}, false }
	}
	return &Controller{in: in, client: c, recorder: r, served: o.Served}
}

// Name is "disruption-controller".
func (*Controller) Name() string { return "disruption-controller" }

func budgetKind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), Resource: "poddisruptionbudgets"}
}

// Watch enqueues budgets that change, and the budgets of pods that change. Changes of the pods' controllers soon show
// in their pods.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.in.Budgets.AddHandler(informer.Handler[*policyv1.PodDisruptionBudget]{
		Added:   func(budget *policyv1.PodDisruptionBudget) { q.Add(controllers.KeyOf(budget)) },
		Updated: func(_, budget *policyv1.PodDisruptionBudget) { q.Add(controllers.KeyOf(budget)) },
	})
	changed := func(pod *corev1.Pod) {
		if budget := c.budgetOf(pod); budget != nil {
			q.Add(controllers.KeyOf(budget))
		}
	}
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{
		Added:   changed,
		Updated: func(_, pod *corev1.Pod) { changed(pod) },
		Deleted: changed,
	})
	return []controllers.Synced{c.in.Pods, c.in.Budgets, c.in.ReplicaSets, c.in.Deployments}
}

// budgetOf returns the first budget that selects the pod, or nil. If several select it, only that one is enqueued at
// once.
func (c *Controller) budgetOf(pod *corev1.Pod) *policyv1.PodDisruptionBudget {
	var first *policyv1.PodDisruptionBudget
	for _, budget := range c.in.Budgets.List(pod.Namespace) {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if first != nil {
			c.record(pods.Kind(), pod, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
				fmt.Sprintf("Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.Namespace, pod.Name, first.Name))
			break
		}
		first = budget
	}
	return first
}

func (c *Controller) record(kind ownership.Kind, about metav1.Object, eventType, reason, message string) {
	c.recorder.Record(events.Event{
		Regarding: events.About(kind.GroupVersionKind, about),
		Type:      eventType, Reason: reason, Message: message,
	})
}
