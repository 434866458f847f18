package noderestriction

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kubelet/pkg/apis"

	"github.com/keelson-dev/keelson/admission"
)

// nodeObject lets a node write its own object, and its status, except what determines which pods are scheduled
// to it and who may read what on its behalf.
func nodeObject(q request) error {
	if q.Name != q.node {
		return q.forbidden("node %q is not allowed to modify node %q", q.node, q.Name)
	}
	switch q.Operation {
	case admission.Create:
		node, err := as[*corev1.Node](q, q.Object)
		if err != nil {
			return err
		}
		if node.Spec.ConfigSource != nil {
			return q.forbidden("node %q is not allowed to create pods with a non-nil configSource", q.node)
		}
		if bad := forbiddenLabels(node.Labels, nil); len(bad) > 0 {
			return q.forbidden("node %q is not allowed to set the following labels: %s", q.node, strings.Join(bad, ", "))
		}
	case admission.Update:
		node, err := as[*corev1.Node](q, q.Object)
		if err != nil {
			return err
		}
		old, err := as[*corev1.Node](q, q.OldObject)
		if err != nil {
			return err
		}
		return nodeUpdate(q, node, old)
	}
	return nil
}

func nodeUpdate(q request, node, old *corev1.Node) error {
	// Old kubelets may drop the field in an update of the status.
	if node.Spec.ConfigSource != nil && !equality.Semantic.DeepEqual(node.Spec.ConfigSource, old.Spec.ConfigSource) {
		return q.forbidden("node %q is not allowed to update configSource to a new non-nil configSource", q.node)
	}
	if !equality.Semantic.DeepEqual(node.Spec.Taints, old.Spec.Taints) {
		return q.forbidden("node %q is not allowed to modify taints", q.node)
	}
	if !equality.Semantic.DeepEqual(node.OwnerReferences, old.OwnerReferences) {
		return q.forbidden("node %q is not allowed to modify ownerReferences", q.node)
	}
	if bad := forbiddenLabels(node.Labels, old.Labels); len(bad) > 0 {
		return q.forbidden("is not allowed to modify labels: %s", strings.Join(bad, ", "))
	}
	return nil
}

// forbiddenLabels returns, sorted, the changed labels that nodes may not set.
func forbiddenLabels(labels, old map[string]string) []string {
	var bad []string
	look := func(key string) {
		was, before := old[key]
		is, now := labels[key]
		if (before != now || was != is) && !mayLabel(key) && !slices.Contains(bad, key) {
			bad = append(bad, key)
		}
	}
	for key := range labels {
		look(key)
	}
	for key := range old {
		look(key)
	}
	slices.Sort(bad)
	return bad
}

// mayLabel reports whether a node may set a label on itself: of Kubernetes' own, only labels that describe the
// node, and none of node-restriction.kubernetes.io, by which administrators isolate nodes.
func mayLabel(key string) bool {
	domain, _, qualified := strings.Cut(key, "/")
	switch {
	case !qualified:
		return true
	case within(domain, "kubernetes.io") || within(domain, "k8s.io"):
		return apis.IsKubeletLabel(key)
	}
	return true
}

// within reports whether a domain is parent or below it.
func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}
