package namespace

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// report updates the conditions with the result of emptying the namespace, and reports whether any has changed.
func report(status *corev1.NamespaceStatus, left remains, errs failures, now metav1.Time) bool {
	changed := false
	for _, c := range conditions(left, errs) {
		c.LastTransitionTime = now
		i := slices.IndexFunc(status.Conditions, func(have corev1.NamespaceCondition) bool { return have.Type == c.Type })
		if i < 0 {
			status.Conditions = append(status.Conditions, c)
			changed = true
			continue
		}
		have := &status.Conditions[i]
		if have.Status == c.Status && have.Message == c.Message { // a reason alone is not updated
			continue
		}
		if have.Status == c.Status {
			c.LastTransitionTime = have.LastTransitionTime
		}
		*have = c
		changed = true
	}
	return changed
}

// conditions returns all five, in upstream's order and wording.
func conditions(left remains, errs failures) []corev1.NamespaceCondition {
	fine := func(t corev1.NamespaceConditionType, reason, message string) corev1.NamespaceCondition {
		return corev1.NamespaceCondition{Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: message}
	}
	bad := func(c *corev1.NamespaceCondition, reason, format string, args ...any) {
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, reason, fmt.Sprintf(format, args...)
	}
	list := []corev1.NamespaceCondition{
		fine(corev1.NamespaceDeletionDiscoveryFailure, "ResourcesDiscovered", "All resources successfully discovered"),
		fine(corev1.NamespaceDeletionGVParsingFailure, "ParsedGroupVersions", "All legacy kube types successfully parsed"),
		fine(corev1.NamespaceDeletionContentFailure, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
		fine(corev1.NamespaceContentRemaining, "ContentRemoved", "All content successfully removed"),
		fine(corev1.NamespaceFinalizersRemaining, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
	}
	if errs.discovery != nil {
		bad(&list[0], "DiscoveryFailed", "%v", errs.discovery)
	}
	if content := errs.content(); len(content) > 0 {
		texts := make([]string, len(content))
		for i, err := range content {
			texts[i] = err.Error()
		}
		slices.Sort(texts)
		bad(&list[2], "ContentDeletionFailed", "Failed to delete all resource types, %d remaining: %s", len(content), strings.Join(texts, ", "))
	}
	if left.podsOnly {
		return list // upstream omits the totals until the pods are gone
	}
	if len(left.resources) > 0 {
		var texts []string
		for r, n := range left.resources {
			texts = append(texts, fmt.Sprintf("%s.%s has %d resource instances", r.Resource, r.Group, n))
		}
		slices.Sort(texts)
		bad(&list[3], "SomeResourcesRemain", "Some resources are remaining: %s", strings.Join(texts, ", "))
	}
	if len(left.finalizers) > 0 {
		var texts []string
		for f, n := range left.finalizers {
			texts = append(texts, fmt.Sprintf("%s in %d resource instances", f, n))
		}
		slices.Sort(texts)
		bad(&list[4], "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: %s", strings.Join(texts, ", "))
	}
	return list
}
