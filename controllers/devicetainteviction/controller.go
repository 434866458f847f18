package devicetainteviction

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/podstatus"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	Pods   *informer.Informer[*corev1.Pod]
	Claims *informer.Informer[*resourcev1.ResourceClaim]
	Slices *informer.Informer[*resourcev1.ResourceSlice]
	Rules  *informer.Informer[*resourcev1.DeviceTaintRule]
}

// Client is what the controller needs of the server: to read pods past the cache, to patch their status, to delete them,
// and to update the status of rules.
//
//nolint:interfacebloat // composed of the narrow ones that it asks for
type Client interface {
	client.Getter
	client.Patcher
	client.Updater
	client.Deleter
}

// Controller is the device-taint-eviction-controller. Make one with New.
type Controller struct {
	in       Sources
	client   Client
	recorder events.Recorder
	queue    controllers.Queue

	mu      sync.Mutex // guards the rest
	planned map[controllers.Key]types.UID
	evicted map[controllers.Key]types.UID
	counted map[types.UID]int // evicted pods by rule
}

var _ controllers.Controller = (*Controller)(nil)

// byPool is the index of claims by the pools of their devices, and of slices by their pool.
const byPool = "device-pool"

func poolKey(driver, pool string) string { return driver + "/" + pool }

// New makes the controller. It adds indexes, so that the informers must not run yet.
func New(in Sources, c Client, r events.Recorder) *Controller {
	in.Claims.AddIndex(byPool, func(c *resourcev1.ResourceClaim) []string {
		if c.Status.Allocation == nil {
			return nil
		}
		var pools []string
		for i := range c.Status.Allocation.Devices.Results {
			pools = append(pools, poolKey(c.Status.Allocation.Devices.Results[i].Driver, c.Status.Allocation.Devices.Results[i].Pool))
		}
		return pools
	})
	in.Slices.AddIndex(byPool, func(s *resourcev1.ResourceSlice) []string {
		return []string{poolKey(s.Spec.Driver, s.Spec.Pool.Name)}
	})
	return &Controller{
		in: in, client: c, recorder: r,
		planned: map[controllers.Key]types.UID{}, evicted: map[controllers.Key]types.UID{}, counted: map[types.UID]int{},
	}
}

// Name is "device-taint-eviction-controller".
func (*Controller) Name() string { return "device-taint-eviction-controller" }

// Watch enqueues pods by namespace and name, and rules by name.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.queue = q
	pod := func(pod *corev1.Pod) {
		if len(pod.Spec.ResourceClaims) > 0 {
			q.Add(controllers.KeyOf(pod))
		}
	}
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{
		Added: pod, Deleted: pod,
		Updated: func(old, now *corev1.Pod) {
			if old.UID != now.UID || old.Spec.NodeName != now.Spec.NodeName ||
				!apiequality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, now.Status.ResourceClaimStatuses) {
				pod(now)
			}
		},
	})
	c.in.Claims.AddHandler(informer.Handler[*resourcev1.ResourceClaim]{
		Added: c.users, Deleted: c.users,
		Updated: func(old, now *resourcev1.ResourceClaim) {
			c.users(old)
			c.users(now)
		},
	})
	slice := func(s *resourcev1.ResourceSlice) {
		for _, claim := range c.in.Claims.ByIndex(byPool, poolKey(s.Spec.Driver, s.Spec.Pool.Name)) {
			c.users(claim)
		}
	}
	c.in.Slices.AddHandler(informer.Handler[*resourcev1.ResourceSlice]{
		Added: slice, Deleted: slice,
		Updated: func(old, now *resourcev1.ResourceSlice) {
			slice(old)
			slice(now)
		},
	})
	c.in.Rules.AddHandler(informer.Handler[*resourcev1.DeviceTaintRule]{
		Added: c.ruled,
		Updated: func(old, now *resourcev1.DeviceTaintRule) {
			if old.UID != now.UID || !apiequality.Semantic.DeepEqual(old.Spec, now.Spec) {
				c.ruled(now)
			}
		},
		Deleted: func(r *resourcev1.DeviceTaintRule) {
			c.mu.Lock()
			delete(c.counted, r.UID)
			c.mu.Unlock()
			c.ruled(r)
		},
	})
	return []controllers.Synced{c.in.Pods, c.in.Claims, c.in.Slices, c.in.Rules}
}

// users enqueues the pods for which a claim is reserved.
func (c *Controller) users(claim *resourcev1.ResourceClaim) {
	for _, r := range claim.Status.ReservedFor {
		if r.APIGroup == "" && r.Resource == "pods" {
			c.queue.Add(controllers.Key{Namespace: claim.Namespace, Name: r.Name})
		}
	}
}

// ruled enqueues a rule that has changed, and all pods that may be concerned: rules change rarely.
func (c *Controller) ruled(r *resourcev1.DeviceTaintRule) {
	c.queue.Add(controllers.Key{Name: r.Name})
	for _, claim := range c.in.Claims.List("") {
		if claim.Status.Allocation != nil {
			c.users(claim)
		}
	}
}

// Reconcile evicts a pod, or says when, or updates the status of a rule.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	if key.Namespace == "" {
		return c.tell(ctx, key.Name)
	}
	pod, ok := c.in.Pods.Get(key.Namespace, key.Name)
	if !ok {
		c.forget(key)
		return controllers.Result{}, nil
	}
	f := c.world().fateOfPod(pod)
	if !c.plan(key, pod, f != nil) || f == nil {
		return controllers.Result{}, nil
	}
	c.later(f.rules)
	if wait := time.Until(f.at); wait > 0 {
		return controllers.Result{RequeueAfter: wait}, nil
	}
	did, err := c.evict(ctx, pod)
	if err != nil {
		return controllers.Result{}, fmt.Errorf("evicting pod %s: %w", key, err)
	}
	c.mu.Lock()
	c.evicted[key] = pod.UID
	delete(c.planned, key)
	if did {
		for _, r := range f.rules {
			c.counted[r.UID]++
		}
	}
	c.mu.Unlock()
	return controllers.Result{}, nil
}

// world is what the caches show.
func (c *Controller) world() *world {
	return &world{claim: c.in.Claims.Get, rules: c.in.Rules.List(""), pool: func(driver, pool string) []*resourcev1.ResourceSlice {
		return c.in.Slices.ByIndex(byPool, poolKey(driver, pool))
	}}
}

// plan notes whether a pod is to be evicted, and tells it if it is not any more. It returns false for a pod that has been
// evicted.
func (c *Controller) plan(key controllers.Key, pod *corev1.Pod, leaves bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.evicted[key] == pod.UID {
		return false
	}
	if leaves {
		c.planned[key] = pod.UID
		return true
	}
	if c.planned[key] == pod.UID {
		c.record(pod, "Cancelling deletion")
	}
	delete(c.planned, key)
	return true
}

func (c *Controller) forget(key controllers.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.planned, key)
	delete(c.evicted, key)
}

// later updates the status of rules once more pods may have changed.
func (c *Controller) later(rules []rule) {
	for _, r := range rules {
		c.queue.AddAfter(controllers.Key{Name: r.Name}, statusPeriod)
	}
}

// evict deletes a pod after its status says why. It returns false if another did so, or the pod is gone.
func (c *Controller) evict(ctx context.Context, cached *corev1.Pod) (did bool, err error) {
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: cached.Namespace, Name: cached.Name}
	obj, err := c.client.Get(ctx, at)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	pod, ok := obj.(*corev1.Pod)
	switch {
	case !ok:
		return false, fmt.Errorf("the server answered with a %T", obj)
	case pod.UID != cached.UID:
		return false, nil
	case pod.DeletionTimestamp != nil:
		return true, nil
	}
	c.record(pod, "Marking for deletion")
	status := pod.Status.DeepCopy()
	if podstatus.Disrupt(pod, status, "DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint") {
		if err := podstatus.Patch(ctx, c.client, pod, status); err != nil {
			return false, notGone(err)
		}
	}
	if err := c.client.Delete(ctx, at, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}); err != nil {
		return false, notGone(err)
	}
	return true, nil
}

func notGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (c *Controller) record(pod *corev1.Pod, message string) {
	c.recorder.Record(events.Event{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Type:      corev1.EventTypeNormal, Reason: "DeviceTaintManagerEviction", Message: message,
	})
}
