package fakeapi

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
)

// Delete removes an object or a collection. Objects with finalizers, pods with a grace period on
// a node, and namespaces are only marked; they go with the last finalizer, with a delete without
// grace, and with the finalize subresource.
func (s *Server) Delete(_ context.Context, t client.Target, options metav1.DeleteOptions) error {
	if err := s.begin(Action{Verb: Delete, Target: t}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Name != "" {
		return s.remove(t, options)
	}
	selected, err := s.selected(t, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, obj := range selected {
		one := client.Target{Resource: t.Resource, Namespace: obj.GetNamespace(), Name: obj.GetName()}
		if err := s.remove(one, options); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) remove(t client.Target, options metav1.DeleteOptions) error {
	stored, err := s.stored(t)
	if err != nil {
		return err
	}
	if err := precondition(t, options.Preconditions, stored); err != nil {
		return err
	}
	obj := copyOf(stored)
	if policy := options.PropagationPolicy; policy != nil {
		finalizers := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool {
			return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
		})
		switch *policy {
		case metav1.DeletePropagationForeground:
			finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
		case metav1.DeletePropagationOrphan:
			finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
		}
		obj.SetFinalizers(finalizers)
	}
	grace := gracePeriod(obj, options)
	mark(obj, grace)
	switch {
	case done(obj):
		s.drop(t.Resource, obj)
	default:
		s.put(t.Resource, obj, informer.Modified)
	}
	return nil
}

// mark sets the deletion timestamp, or brings it forward when the grace got shorter.
func mark(obj informer.Object, grace int64) {
	if had := obj.GetDeletionGracePeriodSeconds(); obj.GetDeletionTimestamp() != nil && (had == nil || *had <= grace) {
		return
	}
	if obj.GetDeletionTimestamp() == nil && obj.GetGeneration() > 0 {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	at := metav1.NewTime(time.Now().Truncate(time.Second).Add(time.Duration(grace) * time.Second))
	obj.SetDeletionTimestamp(&at)
	obj.SetDeletionGracePeriodSeconds(&grace)
}

// done tells that a marked object waits for nobody any more.
func done(obj informer.Object) bool {
	if obj.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 {
		return false
	}
	if namespace, ok := obj.(*corev1.Namespace); ok && len(namespace.Spec.Finalizers) > 0 {
		return false
	}
	grace := obj.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

func gracePeriod(obj informer.Object, options metav1.DeleteOptions) int64 {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return 0
	}
	if options.GracePeriodSeconds != nil {
		return *options.GracePeriodSeconds
	}
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		return *pod.Spec.TerminationGracePeriodSeconds
	}
	return corev1.DefaultTerminationGracePeriodSeconds
}

func precondition(t client.Target, p *metav1.Preconditions, obj informer.Object) error {
	var reason error
	switch {
	case p == nil:
	case p.UID != nil && *p.UID != obj.GetUID():
		reason = fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, obj.GetUID())
	case p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion():
		reason = fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v",
			*p.ResourceVersion, obj.GetResourceVersion())
	}
	if reason == nil {
		return nil
	}
	return apierrors.NewConflict(t.Resource.GroupResource(), t.Name, reason)
}

// post serves the subresources that are only created.
func (s *Server) post(t client.Target, body runtime.Object) (runtime.Object, error) {
	name := t.Name
	if accessor, ok := body.(metav1.Object); ok && name == "" {
		name = accessor.GetName()
	}
	t.Name = name
	stored, err := s.stored(t)
	if err != nil {
		return nil, err
	}
	switch t.Subresource {
	case "eviction":
		return body, s.remove(t, metav1.DeleteOptions{})
	case "binding":
		binding, isBinding := body.(*corev1.Binding)
		pod, isPod := copyOf(stored).(*corev1.Pod)
		if !isBinding || !isPod {
			return nil, apierrors.NewBadRequest("not a binding of a pod")
		}
		if pod.Spec.NodeName != "" {
			return nil, apierrors.NewConflict(t.Resource.GroupResource(), t.Name,
				fmt.Errorf("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName))
		}
		pod.Spec.NodeName = binding.Target.Name
		s.put(t.Resource, pod, informer.Modified)
		return body, nil
	}
	return nil, apierrors.NewMethodNotSupported(t.Resource.GroupResource(), t.Subresource)
}
