package deployment

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/expectations"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources is what the controller reads.
type Sources struct {
	Deployments *informer.Informer[*appsv1.Deployment]
	ReplicaSets *informer.Informer[*appsv1.ReplicaSet]
	Pods        *informer.Informer[*corev1.Pod]
}

// Client is what the controller needs of the server: to read a Deployment past the cache and update it and its status,
// and to create, update, patch and delete ReplicaSets.
//
//nolint:interfacebloat // composed of the narrow ones that it needs
type Client interface {
	client.Getter
	client.Creator
	client.Updater
	client.Patcher
	client.Deleter
}

// Options of a Controller. There are none yet.
type Options struct{}

// Controller is the deployment-controller. Make one with New.
type Controller struct {
	in       Sources
	client   Client
	recorder events.Recorder
	// What the caches do not show yet: new ReplicaSets by the key of their Deployment, and the last version written of
	// each Deployment and ReplicaSet.
	unseen      *expectations.Dependents
	written     *expectations.Versions
	writtenSets *expectations.Versions
}

var (
	_ controllers.Controller = (*Controller)(nil)
	_ controllers.Retrier    = (*Controller)(nil)
)

// New makes the controller. It adds indexes to the informers, so they must not be running yet.
func New(in Sources, c Client, r events.Recorder, _ Options) *Controller {
	ownership.AddIndex(in.Pods)
	return &Controller{
		in: in, client: c, recorder: r,
		unseen: expectations.NewDependents(), written: expectations.NewVersions(), writtenSets: expectations.NewVersions(),
	}
}

// Name is "deployment-controller".
func (c *Controller) Name() string { return "deployment-controller" }

// Retry gives up after fifteen failures in a row, until something changes.
func (c *Controller) Retry() controllers.Retry { return controllers.Retry{Limit: 15} }

func kind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Resource: "deployments"}
}

func setKind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Resource: "replicasets"}
}

// Watch implements controllers.Controller.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.in.Deployments.AddHandler(informer.Handler[*appsv1.Deployment]{
		Added:   func(d *appsv1.Deployment) { q.Add(controllers.KeyOf(d)) },
		Updated: func(_, d *appsv1.Deployment) { q.Add(controllers.KeyOf(d)) },
		Deleted: func(d *appsv1.Deployment) {
			c.unseen.Forget(controllers.KeyOf(d))
			c.written.Forget(controllers.KeyOf(d))
			q.Add(controllers.KeyOf(d))
		},
	})
	w := watch{Controller: c, queue: q}
	c.in.ReplicaSets.AddHandler(informer.Handler[*appsv1.ReplicaSet]{Added: w.setAdded, Updated: w.setUpdated, Deleted: w.setDeleted})
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{Deleted: w.podDeleted})
	return []controllers.Synced{c.in.Pods, c.in.ReplicaSets, c.in.Deployments}
}

// watch finds the Deployments affected by a change of a ReplicaSet or pod.
type watch struct {
	*Controller
	queue controllers.Queue
}

func (w watch) setAdded(set *appsv1.ReplicaSet) {
	ref := metav1.GetControllerOfNoCopy(set)
	if ref == nil {
		if set.DeletionTimestamp == nil {
			w.orphan(set)
		}
		return
	}
	if d, ok := w.owner(set.Namespace, ref); ok {
		w.unseen.Created(controllers.KeyOf(d))
		w.queue.Add(controllers.KeyOf(d))
	}
}

func (w watch) setUpdated(old, set *appsv1.ReplicaSet) {
	moved := !ownership.SameController(old, set)
	if moved {
		w.enqueueOwner(old)
	}
	switch {
	case metav1.GetControllerOfNoCopy(set) != nil:
		w.enqueueOwner(set)
	case moved || !maps.Equal(old.Labels, set.Labels):
		w.orphan(set)
	}
}

func (w watch) setDeleted(set *appsv1.ReplicaSet) {
	w.writtenSets.Forget(controllers.KeyOf(set))
	w.enqueueOwner(set)
}

// podDeleted enqueues a Deployment that may be waiting for its old pods to terminate before it creates new ones.
func (w watch) podDeleted(pod *corev1.Pod) {
	set, ok := ownership.Resolve(w.in.ReplicaSets, setKind().Kind, pod.Namespace, metav1.GetControllerOfNoCopy(pod))
	if !ok {
		return
	}
	d, ok := w.owner(set.Namespace, metav1.GetControllerOfNoCopy(set))
	if ok && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		w.queue.Add(controllers.KeyOf(d))
	}
}

func (w watch) enqueueOwner(set *appsv1.ReplicaSet) {
	if d, ok := w.owner(set.Namespace, metav1.GetControllerOfNoCopy(set)); ok {
		w.queue.Add(controllers.KeyOf(d))
	}
}

func (w watch) owner(namespace string, ref *metav1.OwnerReference) (*appsv1.Deployment, bool) {
	return ownership.Resolve(w.in.Deployments, kind().Kind, namespace, ref)
}

// orphan enqueues every Deployment that could adopt the set.
func (w watch) orphan(set *appsv1.ReplicaSet) {
	if len(set.Labels) == 0 {
		return
	}
	for _, d := range w.in.Deployments.List(set.Namespace) {
		selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(set.Labels)) {
			w.queue.Add(controllers.KeyOf(d))
		}
	}
}
