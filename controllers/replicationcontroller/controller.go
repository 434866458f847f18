package replicationcontroller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/replicas"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources is what the controller reads.
type Sources struct {
	ReplicationControllers *informer.Informer[*corev1.ReplicationController]
	Pods                   *informer.Informer[*corev1.Pod]
}

// Client is what the controller needs of the server: to create, delete and patch pods, to read ReplicationControllers
// past the cache and to update their status.
//
//nolint:interfacebloat // composed of the narrow ones that it needs
type Client interface {
	client.Getter
	client.Creator
	client.Updater
	client.Patcher
	client.Deleter
}

// Options of a Controller. The zero value behaves as upstream.
type Options struct {
	// Burst is how many pods of a ReplicationController are created or deleted before the cache has to show them; 0
	// means 500.
	Burst int
	// Parallel is how many pods of a batch are created or deleted concurrently; 0 means all of them. With 1 the order
	// of requests is always the same.
	Parallel int
}

// Controller is the replicationcontroller-controller. Make one with New.
type Controller struct {
	replicas *replicas.Controller[*corev1.ReplicationController]
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. It adds indexes to the informers, so they must not be running yet.
func New(in Sources, c Client, r events.Recorder, o Options) *Controller {
	kind := replicas.Kind[*corev1.ReplicationController]{
		Kind:      ownership.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ReplicationController"), Resource: "replicationcontrollers"},
		View:      view,
		SetStatus: setStatus,
	}
	sources := replicas.Sources[*corev1.ReplicationController]{Sets: in.ReplicationControllers, Pods: in.Pods}
	return &Controller{replicas.New(kind, sources, c, r, replicas.Options(o))}
}

// Name is "replicationcontroller-controller".
func (*Controller) Name() string { return "replicationcontroller-controller" }

// Watch implements controllers.Controller.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced { return c.replicas.Watch(q) }

// Reconcile implements controllers.Controller.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	return c.replicas.Reconcile(ctx, key)
}

// view returns a ReplicationController as a ReplicaSet that shares its memory.
func view(rc *corev1.ReplicationController) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{
		ObjectMeta: rc.ObjectMeta,
		Spec: appsv1.ReplicaSetSpec{
			Replicas: rc.Spec.Replicas, MinReadySeconds: rc.Spec.MinReadySeconds,
			Selector: &metav1.LabelSelector{MatchLabels: rc.Spec.Selector},
		},
		Status: appsv1.ReplicaSetStatus{
			Replicas: rc.Status.Replicas, FullyLabeledReplicas: rc.Status.FullyLabeledReplicas,
			ReadyReplicas: rc.Status.ReadyReplicas, AvailableReplicas: rc.Status.AvailableReplicas,
			ObservedGeneration: rc.Status.ObservedGeneration,
		},
	}
	if rc.Spec.Template != nil {
		set.Spec.Template = *rc.Spec.Template
	}
	for _, c := range rc.Status.Conditions {
		set.Status.Conditions = append(set.Status.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return set
}

func setStatus(rc *corev1.ReplicationController, status appsv1.ReplicaSetStatus) {
	rc.Status = corev1.ReplicationControllerStatus{
		Replicas: status.Replicas, FullyLabeledReplicas: status.FullyLabeledReplicas,
		ReadyReplicas: status.ReadyReplicas, AvailableReplicas: status.AvailableReplicas,
		ObservedGeneration: status.ObservedGeneration,
	}
	for _, c := range status.Conditions {
		rc.Status.Conditions = append(rc.Status.Conditions, corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
}
