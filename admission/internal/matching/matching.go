package matching

import (
	"context"
	"slices"
	"strings"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Review reports whether a request asks who somebody is or may do. Neither webhooks nor policies see such requests, by which
// a cluster could lock itself out.
func Review(r *admission.Request) bool {
	switch r.Resource.Group {
	case "authentication.k8s.io":
		return r.Resource.Resource == "selfsubjectreviews" || r.Resource.Resource == "tokenreviews"
	case "authorization.k8s.io":
		return slices.Contains([]string{
			"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews",
		}, r.Resource.Resource)
	}
	return false
}

// Requested is the version in which the client named the object, with the conversions of the versions that are served.
func Requested(r *admission.Request, served []admission.Version) admission.Version {
	asked := r.Requested()
	for _, v := range served {
		if v.Resource == asked.Resource {
			asked.FromStored, asked.ToStored = v.FromStored, v.ToStored
		}
	}
	return asked
}

// Rule reports whether a rule selects a request if it is for the resource in the given version.
func Rule(rule *registrationv1.RuleWithOperations, resource schema.GroupVersionResource, r *admission.Request) bool {
	return scope(rule.Scope, resource, r.Namespace) &&
		has(rule.Operations, registrationv1.OperationType(r.Operation)) &&
		has(rule.APIGroups, resource.Group) &&
		has(rule.APIVersions, resource.Version) &&
		slices.ContainsFunc(rule.Resources, func(pattern string) bool {
			of, sub, _ := strings.Cut(pattern, "/")
			return (of == "*" || of == resource.Resource) && (sub == "*" || sub == r.Subresource)
		})
}

func has[T ~string](list []T, value T) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}

// scope takes into account that a request for a namespace, which is cluster-scoped, is in itself.
func scope(scope *registrationv1.ScopeType, resource schema.GroupVersionResource, namespace string) bool {
	if scope == nil || *scope == registrationv1.AllScopes {
		return true
	}
	cluster := namespace == "" || resource == schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	switch *scope {
	case registrationv1.ClusterScope:
		return cluster
	case registrationv1.NamespacedScope:
		return !cluster
	}
	return false
}

// Selectors are the selectors of a webhook, policy or binding.
type Selectors struct {
	namespaces, objects       labels.Selector
	namespacesErr, objectsErr error
}

// NewSelectors returns the selectors. A nil selector selects nothing.
func NewSelectors(namespaces, objects *metav1.LabelSelector) (s Selectors) {
	s.namespaces, s.namespacesErr = metav1.LabelSelectorAsSelector(namespaces)
	s.objects, s.objectsErr = metav1.LabelSelectorAsSelector(objects)
	return s
}

// Find returns a namespace, or false if it does not exist.
type Find func(ctx context.Context, name string) (*corev1.Namespace, bool, error)

// Select reports whether both selectors select a request. Its error, which is an *admission.Error, does not matter if
// one of them does not.
func (s *Selectors) Select(ctx context.Context, r *admission.Request, find Find) (bool, error) {
	inNamespace, namespaceErr := s.namespace(ctx, r, find)
	if !inNamespace && namespaceErr == nil {
		return false, nil
	}
	matches, err := s.object(r)
	switch {
	case err == nil && !matches:
		return false, nil
	case namespaceErr != nil:
		return false, namespaceErr
	case err != nil:
		return false, admission.Internal(err)
	}
	return true, nil
}

// namespace reports whether the namespace of a request is selected. Cluster-scoped objects are always selected, except
// that a namespace is in itself.
func (s *Selectors) namespace(ctx context.Context, r *admission.Request, find Find) (bool, error) {
	if r.Namespace == "" && r.Resource.Resource != "namespaces" {
		return true, nil
	}
	if s.namespacesErr != nil {
		return false, admission.Internal(s.namespacesErr)
	}
	if s.namespaces.Empty() {
		return true, nil
	}
	if r.Resource.Resource == "namespaces" && r.Subresource == "" && (r.Operation == admission.Create || r.Operation == admission.Update) {
		return selects(s.namespaces, r.Object), nil // which the caches do not have yet
	}
	ns, ok, err := find(ctx, r.Namespace)
	switch {
	case err != nil:
		return false, admission.Internal(err)
	case !ok:
		return false, admission.NotFound(schema.GroupResource{Resource: "namespaces"}, r.Namespace)
	}
	return selects(s.namespaces, ns), nil
}

// object reports whether the new object or the old one is selected.
func (s *Selectors) object(r *admission.Request) (bool, error) {
	if s.objectsErr != nil {
		return false, s.objectsErr
	}
	return s.objects.Empty() || selects(s.objects, r.Object) || selects(s.objects, r.OldObject), nil
}

// selects is false for objects without metadata.
func selects(s labels.Selector, obj runtime.Object) bool {
	meta, ok := obj.(metav1.Object)
	return ok && s.Matches(labels.Set(meta.GetLabels()))
}

// OptionsKind names the type of a request's options.
func OptionsKind(options runtime.Object) schema.GroupVersionKind {
	kind := ""
	switch options.(type) {
	case *metav1.CreateOptions:
		kind = "CreateOptions"
	case *metav1.UpdateOptions:
		kind = "UpdateOptions"
	case *metav1.PatchOptions:
		kind = "PatchOptions"
	case *metav1.DeleteOptions:
		kind = "DeleteOptions"
	}
	return schema.GroupVersionKind{Group: metav1.GroupName, Version: "v1", Kind: kind}
}
