package podgc

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/podstatus"
	"github.com/keelson-dev/keelson/informer"
)

// Sources is what the controller reads.
type Sources struct {
	Nodes *informer.Informer[*corev1.Node]
	Pods  *informer.Informer[*corev1.Pod]
}

// Client is what the controller needs of the server, as the service account pod-garbage-collector: to read nodes past
// the cache, to patch the status of pods, and to delete them.
type Client interface {
	client.Getter
	client.Patcher
	client.Deleter
}

// Options of a Controller. The zero value behaves as upstream.
type Options struct {
	// Period is the time between two rounds; 0 means 20 s.
	Period time.Duration
	// Quarantine is how long a node must be missing before its pods are deleted; 0 means 40 s.
	Quarantine time.Duration
	// Terminated is how many ended pods are kept; 0 means 12500, negative all.
	Terminated int
	// Logger logs failed requests; nil discards.
	Logger *slog.Logger
}

// Controller is the pod-garbage-collector-controller. Make one with New.
type Controller struct {
	in      Sources
	client  Client
	options Options
	log     *slog.Logger
	missing map[string]time.Time // used by Reconcile only: missing nodes, and when to ask for them
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller.
func New(in Sources, c Client, o Options) *Controller {
	o.Period = cmp.Or(o.Period, 20*time.Second)
	o.Quarantine = cmp.Or(o.Quarantine, 40*time.Second)
	o.Terminated = cmp.Or(o.Terminated, 12500)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Controller{in: in, client: c, options: o, log: o.Logger, missing: map[string]time.Time{}}
}

// Name is "pod-garbage-collector-controller".
func (*Controller) Name() string { return "pod-garbage-collector-controller" }

// firstRound is how long after the start the first round begins; upstream takes that long to notice that its caches are
// in sync.
const firstRound = 100 * time.Millisecond

// Watch enqueues the controller's only key; each round schedules the next.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	q.AddAfter(controllers.Key{Name: "(round)"}, firstRound)
	return []controllers.Synced{c.in.Pods, c.in.Nodes}
}

// Reconcile runs one round.
func (c *Controller) Reconcile(ctx context.Context, _ controllers.Key) (controllers.Result, error) {
	pods := c.in.Pods.List("")
	c.remove(ctx, "terminated", surplus(pods, c.options.Terminated), nil)
	c.remove(ctx, "terminating on an out-of-service node", c.outOfService(pods), nil)
	c.remove(ctx, "orphaned", c.orphaned(ctx, pods), disrupted)
	c.remove(ctx, "terminating and unscheduled", unscheduled(pods), nil)
	return controllers.Result{RequeueAfter: c.options.Period}, nil
}

// ended reports whether a pod's phase is not one of a live pod.
func ended(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodPending, corev1.PodRunning, corev1.PodUnknown:
		return false
	}
	return true
}

func evicted(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "Evicted"
}

// surplus returns the ended pods beyond the number to keep; negative keeps all.
func surplus(pods []*corev1.Pod, keep int) []*corev1.Pod {
	if keep < 0 {
		return nil
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !ended(pod) })
	if len(pods) <= keep {
		return nil
	}
	first(pods)
	return pods[:len(pods)-keep]
}

// first sorts evicted pods first, then by age.
func first(pods []*corev1.Pod) {
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		if e := evicted(a); e != evicted(b) {
			if e {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

// outOfService returns the pods being deleted on nodes that were declared out of service.
func (c *Controller) outOfService(pods []*corev1.Pod) []*corev1.Pod {
	var dead []*corev1.Pod
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			continue
		}
		node, ok := c.in.Nodes.Get("", pod.Spec.NodeName)
		if ok && !ready(node) && declaredDead(node) {
			dead = append(dead, pod)
		}
	}
	first(dead)
	return dead
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func declaredDead(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// orphaned returns the pods on nodes that have been missing for the quarantine and do not exist on the server.
func (c *Controller) orphaned(ctx context.Context, pods []*corev1.Pod) []*corev1.Pod {
	now := time.Now()
	var due []string
	for _, node := range slices.Sorted(maps.Keys(c.missing)) {
		if !now.Before(c.missing[node]) {
			due = append(due, node)
			delete(c.missing, node)
		}
	}
	for _, pod := range pods {
		name := pod.Spec.NodeName
		if _, waits := c.missing[name]; name != "" && !waits && !c.there(name) {
			c.missing[name] = now.Add(c.options.Quarantine)
		}
	}
	gone := map[string]bool{}
	for _, node := range due {
		gone[node] = !c.there(node) && c.deleted(ctx, node)
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !gone[pod.Spec.NodeName] })
}

func (c *Controller) there(node string) bool {
	_, ok := c.in.Nodes.Get("", node)
	return ok
}

// deleted asks the server and reports whether a node does not exist.
func (c *Controller) deleted(ctx context.Context, node string) bool {
	_, err := c.client.Get(ctx, client.Target{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: node})
	if err != nil && !apierrors.IsNotFound(err) {
		c.log.Warn("asking for a missing node failed", "node", node, "error", err)
	}
	return apierrors.IsNotFound(err)
}

// unscheduled returns the pods being deleted that have no node whose kubelet could terminate them.
func unscheduled(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp == nil || pod.Spec.NodeName != ""
	})
}

// disrupted records in a pod's status that its node is gone.
func disrupted(pod *corev1.Pod, status *corev1.PodStatus) {
	podstatus.Disrupt(pod, status, "DeletionByPodGC", "PodGC: node no longer exists")
}

// remove marks pods Failed and deletes them without grace period.
func (c *Controller) remove(ctx context.Context, why string, pods []*corev1.Pod, mark func(*corev1.Pod, *corev1.PodStatus)) {
	for _, pod := range pods {
		if ctx.Err() != nil {
			return
		}
		if err := c.removeOne(ctx, pod, mark); err != nil && !apierrors.IsNotFound(err) {
			c.log.Warn("removing a pod failed", "pod", pod.Namespace+"/"+pod.Name, "why", why, "error", err)
		}
	}
}

func (c *Controller) removeOne(ctx context.Context, pod *corev1.Pod, mark func(*corev1.Pod, *corev1.PodStatus)) error {
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		status := pod.Status.DeepCopy()
		status.Phase = corev1.PodFailed
		status.ObservedGeneration = pod.Generation
		if mark != nil {
			mark(pod, status)
		}
		if err := podstatus.Patch(ctx, c.client, pod, status); err != nil {
			return err
		}
	}
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: pod.Namespace, Name: pod.Name}
	if err := c.client.Delete(ctx, at, *metav1.NewDeleteOptions(0)); err != nil {
		return fmt.Errorf("deleting: %w", err)
	}
	return nil
}
