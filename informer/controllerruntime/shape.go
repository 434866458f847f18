package controllerruntime

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/informer"
)

// shaped returns a source whose objects have the type of a shape.
func shaped(source informer.Source[informer.Object], gvk schema.GroupVersionKind, as shape) informer.Source[informer.Object] {
	switch as {
	case dynamic:
		return informer.Transform(source, func(obj informer.Object) (informer.Object, error) { return toDynamic(obj, gvk) }, nil)
	case metadata:
		return informer.Transform(source, func(obj informer.Object) (informer.Object, error) { return toMetadata(obj, gvk), nil }, nil)
	}
	return source
}

func toDynamic(obj informer.Object, gvk schema.GroupVersionKind) (informer.Object, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %T %s/%s: %w", obj, obj.GetNamespace(), obj.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// toMetadata shares the data that obj's metadata refers to, which is never changed.
func toMetadata(obj informer.Object, gvk schema.GroupVersionKind) informer.Object {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		m = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), GenerateName: obj.GetGenerateName(), Namespace: obj.GetNamespace(),
			UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
			Generation: obj.GetGeneration(), CreationTimestamp: obj.GetCreationTimestamp(),
			DeletionTimestamp: obj.GetDeletionTimestamp(), DeletionGracePeriodSeconds: obj.GetDeletionGracePeriodSeconds(),
			Labels: obj.GetLabels(), Annotations: obj.GetAnnotations(), OwnerReferences: obj.GetOwnerReferences(),
			Finalizers: obj.GetFinalizers(), ManagedFields: obj.GetManagedFields(),
		}}
		m.SetGroupVersionKind(gvk)
	}
	return m
}
