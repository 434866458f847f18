// Package replicas keeps the desired number of pods running for objects that can be viewed as ReplicaSets: ReplicaSets
// themselves and ReplicationControllers. The controllers of both are made of it.
//
// Errors are returned by Reconcile, to be retried. A Controller is safe for concurrent use.
package replicas

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

// byOwner indexes sets by the uid of their controller.
const byOwner = "replicas owner"

// Kind adapts a kind of sets. All but Terminating must be set.
type Kind[T informer.Object] struct {
	ownership.Kind
	// View returns a set as a ReplicaSet, which may share its memory.
	View func(T) *appsv1.ReplicaSet
	// SetStatus changes the status of a set.
	SetStatus func(T, appsv1.ReplicaSetStatus)
	// Terminating tells that the status counts pods that are being deleted.
	Terminating bool
}

// Sources is what the controller reads.
type Sources[T informer.Object] struct {
	Sets *informer.Informer[T]
	Pods *informer.Informer[*corev1.Pod]
}

// Client is what the controller needs of the server: to create, delete and patch pods, to read sets past the cache and
// to update their status.
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
	// Burst is how many pods of a set are created or deleted before the cache has to show them; 0 means 500.
	Burst int
	// Parallel is how many pods of a batch are created or deleted concurrently; 0 means all of them.
	Parallel int
}

// Controller does the work for one kind. Make one with New.
type Controller[T informer.Object] struct {
	kind     Kind[T]
	in       Sources[T]
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

// New makes a controller. It adds indexes to the informers, so they must not be running yet.
func New[T informer.Object](kind Kind[T], in Sources[T], c Client, r events.Recorder, o Options) *Controller[T] {
	ownership.AddIndex(in.Pods)
	in.Sets.AddIndex(byOwner, func(set T) []string {
		if ref := metav1.GetControllerOfNoCopy(set); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	})
	if o.Burst <= 0 {
		o.Burst = 500
	}
	return &Controller[T]{
		kind: kind, in: in, client: c, recorder: r, burst: o.Burst, parallel: o.Parallel,
		expected: expectations.NewDependents(), written: expectations.NewVersions(), writtenPods: expectations.NewVersions(),
	}
}

// Watch is that of a controllers.Controller.
func (c *Controller[T]) Watch(q controllers.Queue) []controllers.Synced {
	c.in.Sets.AddHandler(informer.Handler[T]{
		Added:   func(set T) { q.Add(controllers.KeyOf(set)) },
		Updated: func(_, set T) { q.Add(controllers.KeyOf(set)) },
		Deleted: func(set T) {
			// A new set with the same name starts without expectations.
			c.expected.Forget(controllers.KeyOf(set))
			q.Add(controllers.KeyOf(set))
		},
	})
	w := podWatch[T]{Controller: c, queue: q}
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{Added: w.added, Updated: w.updated, Deleted: w.gone})
	return []controllers.Synced{c.in.Pods, c.in.Sets}
}

// podWatch finds the sets affected by a change of a pod.
type podWatch[T informer.Object] struct {
	*Controller[T]
	queue controllers.Queue
}

func (w podWatch[T]) added(pod *corev1.Pod) {
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

func (w podWatch[T]) updated(old, pod *corev1.Pod) {
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
	if pods.Ready(old) || !pods.Ready(pod) {
		return
	}
	if least := w.kind.View(set).Spec.MinReadySeconds; least > 0 {
		w.queue.AddAfter(controllers.KeyOf(set), time.Duration(least)*time.Second)
	}
}

func (w podWatch[T]) gone(pod *corev1.Pod) {
	w.writtenPods.Forget(controllers.KeyOf(pod))
	w.deleted(pod)
}

func (w podWatch[T]) deleted(pod *corev1.Pod) {
	if set, ok := w.owner(pod.Namespace, metav1.GetControllerOfNoCopy(pod)); ok {
		w.expected.Deleted(controllers.KeyOf(set), pod.Name)
		w.queue.Add(controllers.KeyOf(set))
	}
}

func (w podWatch[T]) owner(namespace string, ref *metav1.OwnerReference) (T, bool) {
	return ownership.Resolve(w.in.Sets, w.kind.Kind.Kind, namespace, ref)
}

// orphan enqueues every set that could adopt the pod.
func (w podWatch[T]) orphan(pod *corev1.Pod) {
	if len(pod.Labels) == 0 {
		return
	}
	for _, set := range w.in.Sets.List(pod.Namespace) {
		selector, err := metav1.LabelSelectorAsSelector(w.kind.View(set).Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) {
			w.queue.Add(controllers.KeyOf(set))
		}
	}
}
