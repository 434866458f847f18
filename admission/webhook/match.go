package webhook

import (
	"slices"
	"strings"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// exempt reports whether no webhook sees a request: by reviews of who may do what a cluster could lock itself out,
// and a webhook that judges configurations of webhooks could not be removed any more.
func exempt(r *admission.Request) bool {
	switch r.Resource.Group {
	case "authentication.k8s.io":
		return r.Resource.Resource == "selfsubjectreviews" || r.Resource.Resource == "tokenreviews"
	case "authorization.k8s.io":
		return slices.Contains([]string{
			"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews",
		}, r.Resource.Resource)
	}
	return r.Kind.Group == registrationv1.GroupName && slices.Contains([]string{
		"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	}, r.Kind.Kind)
}

// requested is the version in which the client named the object.
func requested(r *admission.Request) Version {
	v := Version{Kind: r.Kind, Resource: r.Resource}
	if !r.RequestedResource.Empty() {
		v.Kind, v.Resource = r.RequestedKind, r.RequestedResource
	}
	return v
}

// version returns the version in which a webhook is to get a request; false means that its rules do not match. Under
// the policy Equivalent, they may match another version than the one that the client used.
func (h *hook) version(r *admission.Request, served []Version) (Version, bool) {
	asked := requested(r)
	for _, v := range served {
		if v.Resource == asked.Resource {
			asked.FromStored, asked.ToStored = v.FromStored, v.ToStored
		}
	}
	for i := range h.Rules {
		if matches(&h.Rules[i], asked.Resource, r) {
			return asked, true
		}
	}
	if !h.matchesEquivalent() {
		return Version{}, false
	}
	for i := range h.Rules {
		for _, v := range served {
			if matches(&h.Rules[i], v.Resource, r) {
				return v, true
			}
		}
	}
	return Version{}, false
}

// matches reports whether a rule selects a request if it is for the resource in the given version.
func matches(rule *registrationv1.RuleWithOperations, resource schema.GroupVersionResource, r *admission.Request) bool {
	return matchesScope(rule.Scope, resource, r.Namespace) &&
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

// matchesScope takes into account that a request for a namespace, which is cluster-scoped, is in itself.
func matchesScope(scope *registrationv1.ScopeType, resource schema.GroupVersionResource, namespace string) bool {
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

// matchesObject reports whether an object selector selects the new object or the old one.
func (h *hook) matchesObject(r *admission.Request) (bool, error) {
	if h.objectsErr != nil {
		return false, h.objectsErr
	}
	return h.objects.Empty() || selects(h.objects, r.Object) || selects(h.objects, r.OldObject), nil
}

// selects is false for objects without metadata.
func selects(s labels.Selector, obj runtime.Object) bool {
	meta, ok := obj.(metav1.Object)
	return ok && s.Matches(labels.Set(meta.GetLabels()))
}
