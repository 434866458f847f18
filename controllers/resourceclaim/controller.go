package resourceclaim

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	Pods      *informer.Informer[*corev1.Pod]
	Claims    *informer.Informer[*resourcev1.ResourceClaim]
	Templates *informer.Informer[*resourcev1.ResourceClaimTemplate]
}

// Controller is the resourceclaim-controller. Make one with New.
type Controller struct {
	in       Sources
	client   client.Client
	recorder events.Recorder

	mu   sync.Mutex // guards made
	made map[madeFor]*resourcev1.ResourceClaim
}

// madeFor is a pod's reference for which a claim was made that the cache does not show yet.
type madeFor struct {
	pod  types.UID
	name string
}

var _ controllers.Controller = (*Controller)(nil)

// The names of indexes: pods by namespace/name of their claims and templates, claims by the UID of their pod.
const (
	byClaim    = "resource-claim"
	byTemplate = "resource-claim-template"
	byPod      = "pod-uid"
)

// Keys begin with what they are of.
const (
	ofAClaim = "claim:"
	ofAPod   = "pod:"
)

// New makes the controller. It adds indexes, so that the informers must not run yet.
func New(in Sources, c client.Client, r events.Recorder) *Controller {
	in.Pods.AddIndex(byClaim, func(pod *corev1.Pod) []string { return within(pod.Namespace, used(pod)) })
	in.Pods.AddIndex(byTemplate, func(pod *corev1.Pod) []string {
		var names []string
		for i := range pod.Spec.ResourceClaims {
			if name := pod.Spec.ResourceClaims[i].ResourceClaimTemplateName; name != nil {
				names = append(names, *name)
			}
		}
		return within(pod.Namespace, names)
	})
	in.Claims.AddIndex(byPod, func(claim *resourcev1.ResourceClaim) []string {
		if _, uid := owner(claim); uid != "" {
			return []string{string(uid)}
		}
		return nil
	})
	return &Controller{in: in, client: c, recorder: r, made: map[madeFor]*resourcev1.ResourceClaim{}}
}

func within(namespace string, names []string) []string {
	for i := range names {
		names[i] = namespace + "/" + names[i]
	}
	return names
}

// Name is "resourceclaim-controller".
func (*Controller) Name() string { return "resourceclaim-controller" }

// Watch enqueues pods that lack something, claims that change, and claims whose pods end.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	pod := func(pod *corev1.Pod) { c.enqueue(q, pod, false) }
	pods := func(index, namespace, name string) {
		for _, p := range c.in.Pods.ByIndex(index, namespace+"/"+name) {
			pod(p)
		}
	}
	claim := func(claim *resourcev1.ResourceClaim) {
		c.seen(claim)
		q.Add(controllers.Key{Namespace: claim.Namespace, Name: ofAClaim + claim.Name})
		pods(byClaim, claim.Namespace, claim.Name)
	}
	template := func(t *resourcev1.ResourceClaimTemplate) { pods(byTemplate, t.Namespace, t.Name) }
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{
		Added: pod, Updated: func(_, now *corev1.Pod) { pod(now) }, Deleted: func(pod *corev1.Pod) { c.enqueue(q, pod, true) },
	})
	c.in.Claims.AddHandler(informer.Handler[*resourcev1.ResourceClaim]{
		Added: claim, Updated: func(_, now *resourcev1.ResourceClaim) { claim(now) },
		Deleted: func(claim *resourcev1.ResourceClaim) { pods(byClaim, claim.Namespace, claim.Name) },
	})
	c.in.Templates.AddHandler(informer.Handler[*resourcev1.ResourceClaimTemplate]{
		Added: template, Updated: func(_, now *resourcev1.ResourceClaimTemplate) { template(now) },
	})
	return []controllers.Synced{c.in.Pods, c.in.Claims, c.in.Templates}
}

// enqueue enqueues what a pod's change is about.
func (c *Controller) enqueue(q controllers.Queue, pod *corev1.Pod, deleted bool) {
	if deleted || done(pod) {
		names := used(pod)
		if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
			names = append(names, s.ResourceClaimName)
		}
		for _, name := range names {
			q.Add(controllers.Key{Namespace: pod.Namespace, Name: ofAClaim + name})
		}
	}
	if deleted {
		c.forget(pod)
		return
	}
	if lacks(pod, func(name string) (*resourcev1.ResourceClaim, bool) { return c.in.Claims.Get(pod.Namespace, name) }) {
		q.Add(controllers.Key{Namespace: pod.Namespace, Name: ofAPod + pod.Name})
	}
}

// seen forgets a claim that was made once the cache shows it.
func (c *Controller) seen(claim *resourcev1.ResourceClaim) {
	_, uid := owner(claim)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.made, madeFor{uid, claim.Annotations[resourcev1.PodResourceClaimAnnotation]})
}

func (c *Controller) forget(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range pod.Spec.ResourceClaims {
		delete(c.made, madeFor{pod.UID, pod.Spec.ResourceClaims[i].Name})
	}
}

// Reconcile makes what a pod lacks, or ends what a claim is no longer needed for.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	if name, ok := strings.CutPrefix(key.Name, ofAPod); ok {
		return controllers.Result{}, c.provide(ctx, key.Namespace, name)
	}
	name := strings.TrimPrefix(key.Name, ofAClaim)
	claim, ok := c.in.Claims.Get(key.Namespace, name)
	if !ok {
		return controllers.Result{}, nil
	}
	if err := c.release(ctx, claim); err != nil {
		return controllers.Result{}, fmt.Errorf("claim %s/%s: %w", key.Namespace, name, err)
	}
	return controllers.Result{}, nil
}
