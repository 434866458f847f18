package core

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// binding is the subresource by which a scheduler assigns a pod to a node.
func binding() registry.Action {
	return registry.Action{
		GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Binding"),
		New:              func() runtime.Object { return &corev1.Binding{} },
		Run: func(ctx context.Context, a registry.Access, at registry.ObjectKey, body runtime.Object, dryRun bool) (runtime.Object, error) {
			return bind(ctx, a, at, body.(*corev1.Binding), dryRun)
		},
	}
}

// bindings is the kind Binding: a create binds the pod of the same name.
func bindings() registry.Kind {
	return registry.Review[*corev1.Binding]{
		Names:        registry.Names{Kind: "Binding", Plural: "bindings", Singular: "binding"},
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *corev1.Binding { return &corev1.Binding{} },
		Answer: func(ctx context.Context, a registry.Access, namespace string, b *corev1.Binding) (runtime.Object, error) {
			at := registry.ObjectKey{Resource: corev1.Resource("pods"), Namespace: namespace, Name: b.Name}
			return bind(ctx, a, at, b, false)
		},
	}.Kind()
}

// bind assigns a pod without a node to b's target. The binding's UID and resource version, if set, must be the
// pod's; its annotations and labels are copied to the pod.
func bind(ctx context.Context, a registry.Access, at registry.ObjectKey, b *corev1.Binding, dryRun bool) (runtime.Object, error) {
	if b.Name != at.Name {
		return nil, registry.Errorf(registry.ErrBadRequest, at, "name in URL does not match name in Binding object")
	}
	if errs := validateBinding(b); len(errs) > 0 {
		// Upstream's errors name no kind here, and so become internal errors.
		return nil, errs.ToAggregate()
	}
	_, err := a.Modify(ctx, at, func(obj registry.Object) error {
		pod := obj.(*corev1.Pod)
		if err := samePod(at, pod, b); err != nil {
			return err
		}
		return assign(at, pod, b)
	}, dryRun)
	if err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

func validateBinding(b *corev1.Binding) field.ErrorList {
	var errs field.ErrorList
	kind, name := field.NewPath("target", "kind"), field.NewPath("target", "name")
	toNode := b.Target.Kind == "" || b.Target.Kind == "Node"
	if !toNode {
		errs = append(errs, field.NotSupported(kind, b.Target.Kind, []string{"Node", "<empty>"}))
	}
	switch {
	case b.Target.Name == "":
		errs = append(errs, field.Required(name, ""))
	case toNode:
		for _, msg := range apivalidation.NameIsDNSSubdomain(b.Target.Name, false) {
			errs = append(errs, field.Invalid(name, b.Target.Name, msg))
		}
	}
	return errs
}

// samePod checks that the pod is the one that was scheduled.
func samePod(at registry.ObjectKey, pod *corev1.Pod, b *corev1.Binding) error {
	const format = "StorageError: invalid object, Code: 4, Key: /registry/pods/%s/%s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: %s"
	if b.UID != "" && b.UID != pod.UID {
		return registry.Errorf(registry.ErrConflict, at, format, at.Namespace, at.Name,
			fmt.Sprintf("UID in precondition: %s, UID in object meta: %s", b.UID, pod.UID))
	}
	if b.ResourceVersion != "" && b.ResourceVersion != pod.ResourceVersion {
		return registry.Errorf(registry.ErrConflict, at, format, at.Namespace, at.Name,
			fmt.Sprintf("ResourceVersion in precondition: %s, ResourceVersion in object meta: %s", b.ResourceVersion, pod.ResourceVersion))
	}
	return nil
}

func assign(at registry.ObjectKey, pod *corev1.Pod, b *corev1.Binding) error {
	of := registry.ObjectKey{Resource: schema.GroupResource{Resource: "pods/binding"}, Name: at.Name}
	switch {
	case pod.DeletionTimestamp != nil:
		return registry.Errorf(registry.ErrConflict, of, "pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return registry.Errorf(registry.ErrConflict, of, "pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return registry.Errorf(registry.ErrConflict, of, "pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	pod.Spec.NodeName = b.Target.Name
	pod.Status.NominatedNodeName = ""
	pod.Annotations = merged(pod.Annotations, b.Annotations)
	pod.Labels = merged(pod.Labels, b.Labels)
	setPodCondition(&pod.Status, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, time.Now())
	return nil
}

func merged(into, from map[string]string) map[string]string {
	if into == nil && len(from) > 0 {
		into = map[string]string{}
	}
	maps.Copy(into, from)
	return into
}
