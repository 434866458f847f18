package static

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/podspec/origin"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
)

// IsMirrorOf reports whether a pod in the API represents exactly this static pod.
func IsMirrorOf(mirror, pod *corev1.Pod) bool {
	hash, ok := mirror.Annotations[origin.MirrorAnnotation]
	return ok && mirror.Name == pod.Name && mirror.Namespace == pod.Namespace && hash == pod.Annotations[origin.HashAnnotation]
}

// Action is what to do about a mirror pod.
type Action struct {
	// Delete deletes the existing mirror; Create creates one afterwards.
	Delete, Create bool
}

// Decide returns what to do about the mirror of a static pod. Pod is nil if there is no such static pod any more,
// mirror if there is none in the API, and node if it is not in the API.
func Decide(pod, mirror *corev1.Pod, node *corev1.Node) Action {
	if mirror != nil && !origin.Mirror(mirror) {
		return Action{} // somebody else's pod has the name
	}
	if pod == nil {
		return Action{Delete: mirror != nil}
	}
	stale := mirror != nil && (mirror.DeletionTimestamp != nil || !IsMirrorOf(mirror, pod))
	welcome := node != nil && node.UID != "" && node.DeletionTimestamp == nil
	return Action{Delete: stale, Create: welcome && (stale || mirror == nil)}
}

// MirrorOf returns the mirror of a static pod on a node, which owns the mirror.
func MirrorOf(pod *corev1.Pod, node *corev1.Node) *corev1.Pod {
	mirror := pod.DeepCopy()
	mirror.UID, mirror.ResourceVersion, mirror.Generation = "", "", 0
	if mirror.Annotations == nil {
		mirror.Annotations = map[string]string{}
	}
	mirror.Annotations[origin.MirrorAnnotation] = pod.Annotations[origin.HashAnnotation]
	controller := true
	mirror.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: node.Name, UID: node.UID, Controller: &controller,
	}}
	return mirror
}

// Client is how Mirrors uses the API server.
type Client interface {
	client.Creator
	client.Deleter
}

// Reconcile carries out what Decide returns, as the node's own user, and returns the mirror that it created, if any. A
// mirror that is already gone or was replaced is not deleted; if somebody else has just created one, that will be
// reconciled when it is observed. Errors are the server's.
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

// deleteMirror deletes exactly this mirror, without a grace period: none of its containers runs.
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
