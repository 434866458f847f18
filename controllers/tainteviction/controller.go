package tainteviction

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/internal/podstatus"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/pause"
)

// Retries of a failed deletion.
const (
	deleteTries = 5
	deletePause = 10 * time.Millisecond
)

// Sources is what the controller reads.
type Sources struct {
	Nodes *informer.Informer[*corev1.Node]
	Pods  *informer.Informer[*corev1.Pod]
}

// Client is what the controller needs of the server, as the service account node-controller: to read pods past the
// cache, to patch their status, and to delete them.
type Client interface {
	client.Getter
	client.Patcher
	client.Deleter
}

// Controller is the taint-eviction-controller. Make one with New.
type Controller struct {
	in       Sources
	client   Client
	recorder events.Recorder
	queue    controllers.Queue
	work     evictions
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. It adds an index to the informer of pods, which must not be running yet.
func New(in Sources, c Client, r events.Recorder) *Controller {
	pods.IndexByNode(in.Pods)
	return &Controller{in: in, client: c, recorder: r, work: newEvictions()}
}

// Name is "taint-eviction-controller".
func (*Controller) Name() string { return "taint-eviction-controller" }

// Watch enqueues nodes whose NoExecute taints change, and pods that are bound, are deleted, or change their
// tolerations.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.queue = q
	c.in.Nodes.AddHandler(informer.Handler[*corev1.Node]{
		Added: func(node *corev1.Node) { q.Add(controllers.Key{Name: node.Name}) },
		Updated: func(old, node *corev1.Node) {
			if !apiequality.Semantic.DeepEqual(noExecute(old), noExecute(node)) {
				q.Add(controllers.Key{Name: node.Name})
			}
		},
	}) // podgc removes the pods of a deleted node
	changed := func(pod *corev1.Pod) {
		key := controllers.KeyOf(pod)
		c.work.touch(key)
		q.Add(key)
	}
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{
		Added: changed,
		Updated: func(old, pod *corev1.Pod) {
			if old.Spec.NodeName != pod.Spec.NodeName || !apiequality.Semantic.DeepEqual(old.Spec.Tolerations, pod.Spec.Tolerations) {
				changed(pod)
			}
		},
		Deleted: changed,
	})
	return []controllers.Synced{c.in.Nodes, c.in.Pods}
}

// Reconcile processes the pods of a node, or one pod: whether to delete it, and when.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	if key.Namespace == "" {
		c.reconcileNode(key.Name)
		return controllers.Result{}, nil
	}
	if c.work.touched(key) {
		c.reconcilePod(key)
	}
	wait, due := c.work.start(key, time.Now())
	if !due {
		return controllers.Result{RequeueAfter: wait}, nil
	}
	defer c.work.done(key)
	return controllers.Result{}, c.evict(ctx, key)
}

// reconcileNode processes all pods of a node whose taints may have changed.
func (c *Controller) reconcileNode(name string) {
	node, ok := c.in.Nodes.Get("", name)
	if !ok {
		return
	}
	taints, now := noExecute(node), time.Now()
	for _, pod := range pods.OnNode(c.in.Pods, name) {
		c.plan(pod, taints, now)
	}
}

// reconcilePod processes a pod that has changed.
func (c *Controller) reconcilePod(key controllers.Key) {
	pod, ok := c.in.Pods.Get(key.Namespace, key.Name)
	if !ok {
		c.cancel(key)
		return
	}
	node, ok := c.in.Nodes.Get("", pod.Spec.NodeName)
	if !ok {
		return
	}
	if taints := noExecute(node); len(taints) > 0 {
		c.plan(pod, taints, time.Now())
	}
}

// plan sets, keeps or cancels a pod's deadline.
func (c *Controller) plan(pod *corev1.Pod, taints []corev1.Taint, now time.Time) {
	key := controllers.KeyOf(pod)
	switch after, leaves := tolerated(taints, pod.Spec.Tolerations); {
	case !leaves:
		c.cancel(key)
	case after < 0:
		c.cancel(key)
		c.set(key, now, now)
	default:
		if c.work.stands(key, now) {
			return
		}
		c.cancel(key)
		c.set(key, now, now.Add(after))
	}
}

func (c *Controller) set(key controllers.Key, now, at time.Time) {
	if c.work.set(key, now, at) {
		c.queue.AddAfter(key, at.Sub(now))
	}
}

// cancel cancels a deadline, and records an event if there was one.
func (c *Controller) cancel(key controllers.Key) {
	if c.work.cancel(key) {
		c.record(key, "Cancelling deletion of Pod "+key.String())
	}
}

// evict deletes a pod.
func (c *Controller) evict(ctx context.Context, key controllers.Key) error {
	c.record(key, "Marking for deletion Pod "+key.String())
	for try := 1; ; try++ {
		err := c.delete(ctx, key)
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		if try == deleteTries || pause.For(ctx, deletePause) != nil {
			return fmt.Errorf("evicting pod %s: %w", key, err)
		}
	}
}

// delete deletes a pod after recording the reason in its status.
func (c *Controller) delete(ctx context.Context, key controllers.Key) error {
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: key.Namespace, Name: key.Name}
	obj, err := c.client.Get(ctx, at)
	if err != nil {
		return err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("the server answered with a %T", obj)
	}
	status := pod.Status.DeepCopy()
	if podstatus.Disrupt(pod, status, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint") {
		if err := podstatus.Patch(ctx, c.client, pod, status); err != nil {
			return err
		}
	}
	return c.client.Delete(ctx, at, metav1.DeleteOptions{})
}

func (c *Controller) record(key controllers.Key, message string) {
	c.recorder.Record(events.Event{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: key.Namespace, Name: key.Name},
		Type:      corev1.EventTypeNormal, Reason: "TaintManagerEviction", Message: message,
	})
}

func noExecute(node *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectNoExecute
	})
}
