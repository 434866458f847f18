package static

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
)

// IsStatic reports whether a pod comes from elsewhere than the API.
func IsStatic(pod *corev1.Pod) bool {
	source, ok := pod.Annotations[annotationSource]
	return ok && source != sourceAPI
}

// IsMirror reports whether a pod of the API stands for a static one. Nothing of it is run.
func IsMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[annotationMirror]
	return ok
}

// IsMirrorOf reports whether a pod of the API stands for just this static pod.
func IsMirrorOf(mirror, pod *corev1.Pod) bool {
	hash, ok := mirror.Annotations[annotationMirror]
	return ok && mirror.Name == pod.Name && mirror.Namespace == pod.Namespace && hash == pod.Annotations[annotationHash]
}

// Action is what has to be done about a mirror pod.
type Action struct {
	// Delete removes the mirror that there is, Create makes one afterwards.
	Delete, Create bool
}

// Decide says what to do about the mirror of a static pod: pod is nil when there is no such static
// pod any more, mirror when the API has none, and node when it is not known to the API.
func Decide(pod, mirror *corev1.Pod, node *corev1.Node) Action {
	if mirror != nil && !IsMirror(mirror) {
		return Action{} // somebody else's pod has the name
	}
	if pod == nil {
		return Action{Delete: mirror != nil}
	}
	stale := mirror != nil && (mirror.DeletionTimestamp != nil || !IsMirrorOf(mirror, pod))
	welcome := node != nil && node.UID != "" && node.DeletionTimestamp == nil
	return Action{Delete: stale, Create: welcome && (stale || mirror == nil)}
}

// MirrorOf makes the mirror of a static pod on a node, which owns it.
func MirrorOf(pod *corev1.Pod, node *corev1.Node) *corev1.Pod {
	mirror := pod.DeepCopy()
	mirror.UID, mirror.ResourceVersion, mirror.Generation = "", "", 0
	if mirror.Annotations == nil {
		mirror.Annotations = map[string]string{}
	}
	mirror.Annotations[annotationMirror] = pod.Annotations[annotationHash]
	controller := true
	mirror.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: node.Name, UID: node.UID, Controller: &controller,
	}}
	return mirror
}

// Client is what Mirrors does at the API server.
type Client interface {
	client.Creator
	client.Deleter
}

// Reconcile does what Decide says, as the node's own user, and returns the mirror that it made, if it
// did. A mirror that is gone already, or is another by now, needs no deletion; one that somebody else
// has just made needs no creation and will be looked at when it is seen. It fails with the server's
// errors.
func Reconcile(ctx context.Context, c Client, pod, mirror *corev1.Pod, node *corev1.Node) (made *corev1.Pod, err error) {
	action := Decide(pod, mirror, node)
	if action.Delete {
		deleted, err := deleteMirror(ctx, c, mirror)
		if err != nil {
			return nil, fmt.Errorf("deleting mirror pod %s/%s: %w", mirror.Namespace, mirror.Name, err)
		}
		if !deleted {
			return nil, nil
		}
	}
	if !action.Create {
		return nil, nil
	}
	obj, err := c.Create(ctx, target(pod, ""), MirrorOf(pod, node), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("creating mirror pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	made, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("creating mirror pod %s/%s: the server returned a %T", pod.Namespace, pod.Name, obj)
	}
	return made, nil
}

// deleteMirror removes just this mirror, at once: nothing of it runs.
func deleteMirror(ctx context.Context, c Client, mirror *corev1.Pod) (bool, error) {
	now := int64(0)
	err := c.Delete(ctx, target(mirror, mirror.Name), metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &mirror.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	return err == nil, err
}

func target(pod *corev1.Pod, name string) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: pod.Namespace, Name: name}
}
