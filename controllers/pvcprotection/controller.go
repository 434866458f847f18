package pvcprotection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/informer"
)

// Finalizer keeps a claim that is in use.
const Finalizer = "kubernetes.io/pvc-protection"

// Sources are what the controller reads.
type Sources struct {
	Claims *informer.Informer[*corev1.PersistentVolumeClaim]
	Pods   *informer.Informer[*corev1.Pod]
}

// Client is what the controller needs of the server, as the service account pvc-protection-controller: to update claims
// and their status, and to list pods past the cache.
type Client interface {
	client.Lister
	client.Updater
}

// Controller is the persistentvolumeclaim-protection-controller. Make one with New.
type Controller struct {
	in     Sources
	client Client
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. It adds an index to the informer of pods.
func New(in Sources, c Client) *Controller {
	pods.IndexByClaim(in.Pods)
	return &Controller{in: in, client: c}
}

// Name is "persistentvolumeclaim-protection-controller".
func (*Controller) Name() string { return "persistentvolumeclaim-protection-controller" }

// Watch enqueues claims with something to do, and those of pods that change.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	claim := func(claim *corev1.PersistentVolumeClaim) {
		if unprotected(claim) || leaving(claim) || unused(claim.Status.Conditions) == nil {
			q.Add(controllers.KeyOf(claim))
		}
	}
	pod := func(pod *corev1.Pod) {
		for _, name := range pods.Claims(pod) {
			q.Add(controllers.Key{Namespace: pod.Namespace, Name: name})
		}
	}
	c.in.Claims.AddHandler(informer.Handler[*corev1.PersistentVolumeClaim]{
		Added: claim, Updated: func(_, now *corev1.PersistentVolumeClaim) { claim(now) },
	})
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{
		Added: pod, Updated: func(_, now *corev1.Pod) { pod(now) }, Deleted: pod,
	})
	return []controllers.Synced{c.in.Claims, c.in.Pods}
}

// Reconcile sets the condition and adds or removes the finalizer of a claim.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	claim, ok := c.in.Claims.Get(key.Namespace, key.Name)
	if !ok {
		return controllers.Result{}, nil
	}
	if claim.DeletionTimestamp == nil && claim.Status.Phase == corev1.ClaimBound { // the binder has finished with it
		used, err := c.anyPod(ctx, claim, refers)
		if err != nil {
			return controllers.Result{}, err
		}
		if next, changed := withUnused(claim, used, metav1.Now()); changed {
			if claim, err = c.update(ctx, next, "status"); err != nil {
				return controllers.Result{}, err
			}
		}
	}
	return controllers.Result{}, c.protect(ctx, claim)
}

func (c *Controller) protect(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	next := claim.DeepCopy()
	switch {
	case leaving(claim):
		if used, err := c.anyPod(ctx, claim, holds); err != nil || used {
			return err
		}
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == Finalizer })
	case unprotected(claim):
		next.Finalizers = append(next.Finalizers, Finalizer)
	default:
		return nil
	}
	_, err := c.update(ctx, next, "")
	return err
}

// leaving reports whether only the finalizer, maybe among others, keeps a claim.
func leaving(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, Finalizer)
}

func unprotected(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp == nil && !slices.Contains(claim.Finalizers, Finalizer)
}

func (c *Controller) update(ctx context.Context, claim *corev1.PersistentVolumeClaim, subresource string) (*corev1.PersistentVolumeClaim, error) {
	at := client.Target{
		Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), Namespace: claim.Namespace, Name: claim.Name, Subresource: subresource,
	}
	stored, err := client.As[*corev1.PersistentVolumeClaim](c.client.Update(ctx, at, claim, metav1.UpdateOptions{}))
	if err != nil {
		return nil, fmt.Errorf("updating: %w", err)
	}
	return stored, nil
}

// anyPod reports whether a pod uses a claim in the given sense. The server is asked unless the cache has such a pod,
// since the newest pods may not be there.
func (c *Controller) anyPod(ctx context.Context, claim *corev1.PersistentVolumeClaim, uses func(*corev1.Pod, *corev1.PersistentVolumeClaim) bool) (bool, error) {
	for _, pod := range pods.UsingClaim(c.in.Pods, claim.Namespace, claim.Name) {
		if uses(pod, claim) {
			return true, nil
		}
	}
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: claim.Namespace}
	list, err := client.As[*corev1.PodList](c.client.List(ctx, at, metav1.ListOptions{}))
	if err != nil {
		return false, fmt.Errorf("live list of pods failed: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(pod corev1.Pod) bool { return uses(&pod, claim) }), nil
}
