package resourceclaim

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
)

// manager is the owner of the fields that the controller writes to the status of pods.
const manager = "ResourceClaimController"

func claimAt(namespace, name string) client.Target {
	return client.Target{Resource: resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), Namespace: namespace, Name: name}
}

func podAt(namespace, name string) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: namespace, Name: name}
}

// provide makes the claims that a pod lacks, tells the pod their names, and reserves claims for a pod with a node.
func (c *Controller) provide(ctx context.Context, namespace, name string) error {
	pod, ok := c.in.Pods.Get(namespace, name)
	if !ok || !wants(pod) {
		return nil
	}
	var made []corev1.PodResourceClaimStatus
	for i := range pod.Spec.ResourceClaims {
		ref := &pod.Spec.ResourceClaims[i]
		claim, err := c.ensure(ctx, pod, ref)
		if err != nil {
			c.recorder.Record(events.Event{
				Regarding: events.About(corev1.SchemeGroupVersion.WithKind("Pod"), pod), Type: corev1.EventTypeWarning,
				Reason: "FailedResourceClaimCreation", Message: fmt.Sprintf("PodResourceClaim %s: %v", ref.Name, err),
			})
			return fmt.Errorf("pod %s/%s, PodResourceClaim %s: %w", namespace, name, ref.Name, err)
		}
		if claim != "" {
			made = append(made, corev1.PodResourceClaimStatus{Name: ref.Name, ResourceClaimName: &claim})
		}
	}
	if len(made) > 0 {
		if err := c.tell(ctx, pod, made); err != nil {
			return fmt.Errorf("update pod %s/%s ResourceClaimStatuses: %w", namespace, name, err)
		}
	}
	if pod.Spec.NodeName == "" {
		return nil
	}
	return c.reserve(ctx, pod)
}

// ensure returns the name of the claim that is made for a pod's reference, or nothing if the pod knows its claim.
func (c *Controller) ensure(ctx context.Context, pod *corev1.Pod, ref *corev1.PodResourceClaim) (string, error) {
	if r, ok := refers(pod, ref); ok {
		if r.name == "" {
			return "", nil
		}
		exists, err := c.exists(ctx, pod, r)
		if err != nil {
			return "", fmt.Errorf("checking claim existence: %w", err)
		}
		if exists {
			return "", nil
		}
	}
	if ref.ResourceClaimTemplateName == nil {
		return "", nil
	}
	if claim := c.found(pod, ref.Name); claim != nil {
		return claim.Name, nil
	}
	template, ok := c.in.Templates.Get(pod.Namespace, *ref.ResourceClaimTemplateName)
	if !ok {
		return "", fmt.Errorf("resource claim template %q: %w", *ref.ResourceClaimTemplateName,
			apierrors.NewNotFound(resourcev1.Resource("resourceclaimtemplate"), *ref.ResourceClaimTemplateName))
	}
	created, err := c.client.Create(ctx, claimAt(pod.Namespace, ""), claimFor(pod, ref.Name, template), metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create ResourceClaim : %w", err) // upstream names the claim, which has no name yet
	}
	claim, ok := created.(*resourcev1.ResourceClaim)
	if !ok {
		return "", fmt.Errorf("server answered with a %T", created)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, shown := c.in.Claims.Get(claim.Namespace, claim.Name); !shown {
		c.made[madeFor{pod.UID, ref.Name}] = claim
	}
	return claim.Name, nil
}

// exists reports whether a claim exists and may be the pod's.
func (c *Controller) exists(ctx context.Context, pod *corev1.Pod, r reference) (bool, error) {
	claim, ok := c.in.Claims.Get(pod.Namespace, r.name)
	if !ok {
		obj, err := c.client.Get(ctx, claimAt(pod.Namespace, r.name))
		if err != nil {
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return false, err
		}
		if claim, ok = obj.(*resourcev1.ResourceClaim); !ok {
			return false, fmt.Errorf("server answered with a %T", obj)
		}
	}
	return !r.made || metav1.IsControlledBy(claim, pod), nil
}

// found returns the claim that was made for a pod's reference before, or nil.
func (c *Controller) found(pod *corev1.Pod, name string) *resourcev1.ResourceClaim {
	for _, claim := range c.in.Claims.ByIndex(byPod, string(pod.UID)) {
		if claim.Namespace == pod.Namespace && claim.Annotations[resourcev1.PodResourceClaimAnnotation] == name {
			return claim
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made[madeFor{pod.UID, name}]
}

// tell writes the names of claims to the status of their pod.
func (c *Controller) tell(ctx context.Context, pod *corev1.Pod, made []corev1.PodResourceClaimStatus) error {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"resourceClaimStatuses": made},
	})
	if err != nil {
		return err
	}
	at := podAt(pod.Namespace, pod.Name)
	at.Subresource = "status"
	_, err = c.client.Patch(ctx, at, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{FieldManager: manager})
	return err
}

// reserve reserves allocated claims for a pod that was bound without the scheduler.
func (c *Controller) reserve(ctx context.Context, pod *corev1.Pod) error {
	for i := range pod.Spec.ResourceClaims {
		r, ok := refers(pod, &pod.Spec.ResourceClaims[i])
		if !ok {
			return nil // told of its claim just now: its update brings it back
		}
		if r.name == "" {
			continue
		}
		claim, ok := c.in.Claims.Get(pod.Namespace, r.name)
		switch {
		case !ok:
			return nil
		case r.made && !metav1.IsControlledBy(claim, pod):
			return fmt.Errorf("ResourceClaim %s/%s was not created for Pod %s/%s (Pod is not owner)", claim.Namespace, claim.Name, pod.Namespace, pod.Name)
		case !unreserved(claim, pod):
			continue
		}
		claim = claim.DeepCopy()
		claim.Status.ReservedFor = append(claim.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
		if _, err := c.writeStatus(ctx, claim); err != nil {
			return fmt.Errorf("reserve claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	return nil
}

func (c *Controller) writeStatus(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	at := claimAt(claim.Namespace, claim.Name)
	at.Subresource = "status"
	obj, err := c.client.Update(ctx, at, claim, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	written, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return nil, fmt.Errorf("server answered with a %T", obj)
	}
	return written.DeepCopy(), nil
}
