package core

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// namespaces is the kind Namespace. A deleted namespace stays, terminating, until a controller has emptied it
// and removes its spec.finalizers by the subresource finalize.
func namespaces() registry.Kind {
	return registry.Definition[*corev1.Namespace]{
		Names:        registry.Names{Kind: "Namespace", Plural: "namespaces", Singular: "namespace", Short: []string{"ns"}},
		GroupVersion: corev1.SchemeGroupVersion,
		New:          func() *corev1.Namespace { return &corev1.Namespace{} },
		NewList:      func() runtime.Object { return &corev1.NamespaceList{} },
		Rules: registry.Rules[*corev1.Namespace]{
			Default:       defaultNamespace,
			PrepareCreate: prepareNamespaceCreate,
			PrepareUpdate: func(_ context.Context, ns, old *corev1.Namespace) {
				before := old.DeepCopy()
				ns.Spec.Finalizers, ns.Status = before.Spec.Finalizers, before.Status
			},
			Validate:       validateNamespace,
			ValidateUpdate: func(ns, _ *corev1.Namespace) field.ErrorList { return validateNamespace(ns) },
			ValidateName:   apivalidation.ValidateNamespaceName,
			Deletion: registry.Deletion[*corev1.Namespace]{
				Begin:         func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceTerminating },
				Singly:        true,
				Held:          func(ns *corev1.Namespace) bool { return len(ns.Spec.Finalizers) > 0 },
				ReturnsObject: true,
			},
		},
		Fields: func(ns *corev1.Namespace) fields.Set {
			return fields.Set{"status.phase": string(ns.Status.Phase)}
		},
		Sub: registry.Subresources[*corev1.Namespace]{Views: map[string]registry.View[*corev1.Namespace]{
			"status": {
				PrepareUpdate: func(_ context.Context, ns, old *corev1.Namespace) {
					ns.Spec = *old.Spec.DeepCopy()
				},
				ValidateUpdate: validateNamespaceStatus,
			},
			"finalize": {
				PrepareUpdate: func(_ context.Context, ns, old *corev1.Namespace) {
					ns.Status = *old.Status.DeepCopy()
				},
				ValidateUpdate: validateNamespaceFinalize,
			},
		}},
		Columns: namespaceColumns(),
	}.Kind()
}

func defaultNamespace(ns *corev1.Namespace) {
	labelNamespace(ns)
	if ns.Status.Phase == "" {
		ns.Status.Phase = corev1.NamespaceActive
	}
}

// labelNamespace makes the name available to label selectors (KEP-2161).
func labelNamespace(ns *corev1.Namespace) {
	if ns.Name == "" {
		return
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

func prepareNamespaceCreate(_ context.Context, ns *corev1.Namespace) {
	labelNamespace(ns) // the defaults do not know a generated name
	ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

func validateNamespace(ns *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	for _, f := range ns.Spec.Finalizers {
		errs = append(errs, validateFinalizer(f, field.NewPath("spec", "finalizers"))...)
	}
	return errs
}

func validateNamespaceFinalize(ns, _ *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	for i, f := range ns.Spec.Finalizers {
		errs = append(errs, validateFinalizer(f, field.NewPath("spec", "finalizers").Index(i))...)
	}
	return errs
}

// validateFinalizer requires a qualified name, with a domain unless it is one of Kubernetes' own.
func validateFinalizer(name corev1.FinalizerName, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateFinalizerName(string(name), path)
	own := []string{string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}
	if !strings.Contains(string(name), "/") && !slices.Contains(own, string(name)) {
		errs = append(errs, field.Invalid(path, string(name), "name is neither a standard finalizer name nor is it fully qualified"))
	}
	return errs
}

// validateNamespaceStatus requires the phase that matches the deletion timestamp.
func validateNamespaceStatus(ns, _ *corev1.Namespace) field.ErrorList {
	path := field.NewPath("status", "Phase")
	switch {
	case ns.DeletionTimestamp.IsZero() && ns.Status.Phase != corev1.NamespaceActive:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")}
	case !ns.DeletionTimestamp.IsZero() && ns.Status.Phase != corev1.NamespaceTerminating:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
	return nil
}
