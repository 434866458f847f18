package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources is what the controller reads.
type Sources struct {
	StatefulSets *informer.Informer[*appsv1.StatefulSet]
	Pods         *informer.Informer[*corev1.Pod]
	Claims       *informer.Informer[*corev1.PersistentVolumeClaim]
	Revisions    *informer.Informer[*appsv1.ControllerRevision]
}

// Client is what the controller needs of the server: to create and update claims, to create, update, delete and patch
// pods and revisions, to read StatefulSets past the cache and to update their status.
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
	// Parallel is how many pods of a batch are created or deleted concurrently; 0 means all of them. With 1 the order
	// of requests is always the same.
	Parallel int
}

// Controller is the statefulset-controller. Make one with New.
type Controller struct {
	in       Sources
	client   Client
	recorder events.Recorder
	parallel int
	written  *writes
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. It adds indexes to the informers, so they must not be running yet.
func New(in Sources, c Client, r events.Recorder, o Options) *Controller {
	ownership.AddIndex(in.Pods)
	ownership.AddIndex(in.Revisions)
	return &Controller{in: in, client: c, recorder: r, parallel: o.Parallel, written: newWrites()}
}

// Name is "statefulset-controller".
func (c *Controller) Name() string { return "statefulset-controller" }

func kind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), Resource: "statefulsets"}
}

func claimKind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), Resource: "persistentvolumeclaims"}
}

// Watch implements controllers.Controller.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	add := func(set *appsv1.StatefulSet) { q.Add(controllers.KeyOf(set)) }
	c.in.StatefulSets.AddHandler(informer.Handler[*appsv1.StatefulSet]{
		Added: add, Updated: func(_, set *appsv1.StatefulSet) { add(set) }, Deleted: add,
	})
	w := podWatch{Controller: c, queue: q}
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{Added: w.added, Updated: w.updated, Deleted: w.deleted})
	claim := func(claim *corev1.PersistentVolumeClaim) {
		for _, set := range c.in.StatefulSets.List(claim.Namespace) {
			if hasClaim(set, claim) {
				add(set)
			}
		}
	}
	c.in.Claims.AddHandler(informer.Handler[*corev1.PersistentVolumeClaim]{
		Added: claim, Updated: func(_, changed *corev1.PersistentVolumeClaim) { claim(changed) }, Deleted: claim,
	})
	return []controllers.Synced{c.in.StatefulSets, c.in.Pods, c.in.Claims, c.in.Revisions}
}
