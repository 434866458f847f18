package replicaset

import (
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/expectations"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// byOwner indexes ReplicaSets by the uid of their controller.
const byOwner = "replicaset owner"

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
	in       Sources
	client   Client
	recorder events.Recorder
	burst    int
	parallel int
	// What the caches do not show yet: pods created and deleted by the key of their set, and the last version written
	// of each set and pod.
	expected    *expectations.Dependents
	written     *expectations.Versions
	writtenPods *expectations.Versions
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. It adds indexes to the informers, so they must not be running yet.
func New(in Sources, c Client, r events.Recorder, o Options) *Controller {
	ownership.AddIndex(in.Pods)
	in.ReplicaSets.AddIndex(byOwner, func(set *appsv1.ReplicaSet) []string {
		if ref := metav1.GetControllerOfNoCopy(set); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	})
	if o.Burst <= 0 {
		o.Burst = 500
	}
	return &Controller{
		in: in, client: c, recorder: r, burst: o.Burst, parallel: o.Parallel,
		expected: expectations.NewDependents(), written: expectations.NewVersions(), writtenPods: expectations.NewVersions(),
	}
}

// Name is "replicaset-controller".
func (c *Controller) Name() string { return "replicaset-controller" }

func kind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Resource: "replicasets"}
}

// Watch implements controllers.Controller.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.in.ReplicaSets.AddHandler(informer.Handler[*appsv1.ReplicaSet]{
		Added:   func(set *appsv1.ReplicaSet) { q.Add(controllers.KeyOf(set)) },
		Updated: func(_, set *appsv1.ReplicaSet) { q.Add(controllers.KeyOf(set)) },
		Deleted: func(set *appsv1.ReplicaSet) {
			// A new set with the same name starts without expectations.
			c.expected.Forget(controllers.KeyOf(set))
			q.Add(controllers.KeyOf(set))
		},
	})
	w := podWatch{Controller: c, queue: q}
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{Added: w.added, Updated: w.updated, Deleted: w.gone})
	return []controllers.Synced{c.in.Pods, c.in.ReplicaSets}
}

// podWatch finds the ReplicaSets affected by a change of a pod.
type podWatch struct {
	*Controller
	queue controllers.Queue
}

func (w podWatch) added(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		w.deleted(pod)
		return
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		w.orphan(pod)
		return
	}
	if set, ok := w.owner(pod.Namespace, ref); ok {
		w.expected.Created(controllers.KeyOf(set))
		w.queue.Add(controllers.KeyOf(set))
	}
}

func (w podWatch) updated(old, pod *corev1.Pod) {
	relabeled := !maps.Equal(old.Labels, pod.Labels)
	if pod.DeletionTimestamp != nil {
		// The deletion timestamp fulfills the expectation: replacements are created before the pod has ended.
		w.deleted(pod)
		if relabeled {
			w.deleted(old)
		}
		return
	}
	moved := !ownership.SameController(old, pod)
	if moved {
		if set, ok := w.owner(old.Namespace, metav1.GetControllerOfNoCopy(old)); ok {
			w.queue.Add(controllers.KeyOf(set))
		}
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		if relabeled || moved {
			w.orphan(pod)
		}
		return
	}
	set, ok := w.owner(pod.Namespace, ref)
	if !ok {
		return
	}
	w.queue.Add(controllers.KeyOf(set))
	if set.Spec.MinReadySeconds > 0 && !pods.Ready(old) && pods.Ready(pod) {
		w.queue.AddAfter(controllers.KeyOf(set), time.Duration(set.Spec.MinReadySeconds)*time.Second)
	}
}

func (w podWatch) gone(pod *corev1.Pod) {
	w.writtenPods.Forget(controllers.KeyOf(pod))
	w.deleted(pod)
}

func (w podWatch) deleted(pod *corev1.Pod) {
	if set, ok := w.owner(pod.Namespace, metav1.GetControllerOfNoCopy(pod)); ok {
		w.expected.Deleted(controllers.KeyOf(set), pod.Name)
		w.queue.Add(controllers.KeyOf(set))
	}
}

func (w podWatch) owner(namespace string, ref *metav1.OwnerReference) (*appsv1.ReplicaSet, bool) {
	return ownership.Resolve(w.in.ReplicaSets, kind().Kind, namespace, ref)
}

// orphan enqueues every ReplicaSet that could adopt the pod.
func (w podWatch) orphan(pod *corev1.Pod) {
	if len(pod.Labels) == 0 {
		return
	}
	for _, set := range w.in.ReplicaSets.List(pod.Namespace) {
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) {
			w.queue.Add(controllers.KeyOf(set))
		}
	}
}
