package daemonset

import (
	"context"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/expectations"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources is what the controller reads.
type Sources struct {
	DaemonSets *informer.Informer[*appsv1.DaemonSet]
	Revisions  *informer.Informer[*appsv1.ControllerRevision]
	Pods       *informer.Informer[*corev1.Pod]
	Nodes      *informer.Informer[*corev1.Node]
}

// Client is what the controller needs of the server: to create, delete and patch pods and revisions, to update revisions
// and the status of DaemonSets, and to read both past the cache.
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
	// Burst is how many pods of a DaemonSet are created and deleted before the cache has to show them; 0 means 250.
	Burst int
	// Parallel is how many pods of a batch are created or deleted concurrently; 0 means all of them. With 1 the order
	// of requests is always the same.
	Parallel int
}

// Controller is the daemonset-controller. Make one with New.
type Controller struct {
	in       Sources
	client   Client
	recorder events.Recorder
	options  Options
	failures *backoff
	seen     seen
	queue    controllers.Queue
}

// seen is what the caches do not show yet: pods created and deleted by the key of their set, and the last version
// written of each set, pod and revision.
type seen struct {
	expected              *expectations.Dependents
	sets, pods, revisions *expectations.Versions
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. It adds indexes to the informers, so they must not be running yet.
func New(in Sources, c Client, r events.Recorder, o Options) *Controller {
	ownership.AddIndex(in.Pods)
	ownership.AddIndex(in.Revisions)
	pods.IndexByNode(in.Pods)
	if o.Burst <= 0 {
		o.Burst = 250
	}
	return &Controller{
		in: in, client: c, recorder: r, options: o, failures: newBackoff(),
		seen: seen{
			expected: expectations.NewDependents(),
			sets:     expectations.NewVersions(), pods: expectations.NewVersions(), revisions: expectations.NewVersions(),
		},
	}
}

// Name is "daemonset-controller".
func (*Controller) Name() string { return "daemonset-controller" }

func kind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), Resource: "daemonsets"}
}

// Watch implements controllers.Controller. Nodes are enqueued like sets; their keys have no namespace.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.queue = q
	c.in.DaemonSets.AddHandler(informer.Handler[*appsv1.DaemonSet]{
		Added:   func(set *appsv1.DaemonSet) { q.Add(controllers.KeyOf(set)) },
		Updated: func(_, set *appsv1.DaemonSet) { q.Add(controllers.KeyOf(set)) },
		Deleted: func(set *appsv1.DaemonSet) {
			// A new set with the same name starts without expectations.
			c.seen.expected.Forget(controllers.KeyOf(set))
			q.Add(controllers.KeyOf(set))
		},
	})
	r := revisionWatch{Controller: c, queue: q}
	c.in.Revisions.AddHandler(informer.Handler[*appsv1.ControllerRevision]{Added: r.added, Updated: r.updated, Deleted: r.gone})
	p := podWatch{Controller: c, queue: q}
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{Added: p.added, Updated: p.updated, Deleted: p.gone})
	c.in.Nodes.AddHandler(informer.Handler[*corev1.Node]{
		Added: func(node *corev1.Node) { q.Add(controllers.Key{Name: node.Name}) },
		Updated: func(old, node *corev1.Node) {
			if !maps.Equal(old.Labels, node.Labels) || !equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) {
				q.Add(controllers.Key{Name: node.Name})
			}
		},
	})
	return []controllers.Synced{c.in.Pods, c.in.Nodes, c.in.Revisions, c.in.DaemonSets}
}

// Reconcile implements controllers.Controller.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	if key.Namespace == "" {
		c.changed(key.Name)
		return controllers.Result{}, nil
	}
	set, ok := c.in.DaemonSets.Get(key.Namespace, key.Name)
	if !ok {
		c.seen.expected.Forget(key)
		c.seen.sets.Forget(key)
		return controllers.Result{}, nil
	}
	if c.seen.sets.Behind(set, set.UID) {
		return controllers.Result{}, nil // enqueued again when the cache has caught up
	}
	if s := set.Spec.Selector; s != nil && len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		c.record(set, corev1.EventTypeWarning, "SelectingAll", "This daemon set is selecting all pods. A non-empty selector is required.")
		return controllers.Result{}, nil
	}
	if set.DeletionTimestamp != nil {
		return controllers.Result{}, nil // its revisions may be gone before its pods, so there is no status to tell
	}
	return c.sync(ctx, set)
}

// changed enqueues the sets to which a node that has changed matters.
func (c *Controller) changed(name string) {
	node, ok := c.in.Nodes.Get("", name)
	if !ok {
		return
	}
	there := map[controllers.Key]bool{}
	for _, pod := range pods.OnNode(c.in.Pods, name) {
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.Kind == kind().Kind {
			there[controllers.Key{Namespace: pod.Namespace, Name: ref.Name}] = true
		}
	}
	for _, set := range c.in.DaemonSets.List("") {
		key := controllers.KeyOf(set)
		run, stay := placementOf(&set.Spec.Template).on(node)
		if there[key] && (!stay || set.Status.NumberMisscheduled > 0) || !there[key] && run {
			c.queue.Add(key)
		}
	}
}

func (c *Controller) record(set *appsv1.DaemonSet, eventType, reason, message string) {
	c.recorder.Record(events.Event{
		Regarding: events.About(kind().GroupVersionKind, set),
		Type:      eventType, Reason: reason, Message: message,
	})
}
