package replicaset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/replicas"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources is what the controller reads.
type Sources struct {
	ReplicaSets *informer.Informer[*appsv1.ReplicaSet]
	Pods        *informer.Informer[*corev1.Pod]
}

// Client is what the controller needs of the server: to create, delete and patch pods, to read ReplicaSets past the
// cache and to update their status.
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
	// Burst is how many pods of a ReplicaSet are created or deleted before the cache has to show them; 0 means 500.
	Burst int
	// Parallel is how many pods of a batch are created or deleted concurrently; 0 means all of them. With 1 the order
	// of requests is always the same.
	Parallel int
}

// Controller is the replicaset-controller. Make one with New.
type Controller struct {
	replicas *replicas.Controller[*appsv1.ReplicaSet]
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. It adds indexes to the informers, so they must not be running yet.
func New(in Sources, c Client, r events.Recorder, o Options) *Controller {
	sources := replicas.Sources[*appsv1.ReplicaSet]{Sets: in.ReplicaSets, Pods: in.Pods}
	return &Controller{replicas.New(kind(), sources, c, r, replicas.Options(o))}
}

func kind() replicas.Kind[*appsv1.ReplicaSet] {
	return replicas.Kind[*appsv1.ReplicaSet]{
		Kind:        ownership.Kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Resource: "replicasets"},
		View:        func(set *appsv1.ReplicaSet) *appsv1.ReplicaSet { return set },
		SetStatus:   func(set *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) { set.Status = status },
		Terminating: true,
	}
}

// Name is "replicaset-controller".
func (*Controller) Name() string { return "replicaset-controller" }

// Watch implements controllers.Controller.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced { return c.replicas.Watch(q) }

// Reconcile implements controllers.Controller.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	return c.replicas.Reconcile(ctx, key)
}
