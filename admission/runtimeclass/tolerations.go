package runtimeclass

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// mergeTolerations returns the tolerations of both lists that no other covers; of equal ones the first.
func mergeTolerations(own, more []corev1.Toleration) []corev1.Toleration {
	all := slices.Concat(own, more)
	var merged []corev1.Toleration
	for i := range all {
		t := all[i]
		covered := slices.ContainsFunc(merged, func(kept corev1.Toleration) bool { return covers(kept, t) }) ||
			slices.ContainsFunc(all[i+1:], func(next corev1.Toleration) bool { return !same(next, t) && covers(next, t) })
		if !covered {
			merged = append(merged, t)
		}
	}
	return merged
}

func same(a, b corev1.Toleration) bool { return equality.Semantic.DeepEqual(a, b) }

// covers reports whether a tolerates everything that b does.
func covers(a, b corev1.Toleration) bool {
	if same(a, b) {
		return true
	}
	anyKey := a.Key == "" && a.Operator == corev1.TolerationOpExists
	if a.Key != b.Key && !anyKey || a.Effect != b.Effect && a.Effect != "" {
		return false
	}
	if a.Effect == corev1.TaintEffectNoExecute && a.TolerationSeconds != nil &&
		(b.TolerationSeconds == nil || *b.TolerationSeconds > *a.TolerationSeconds) {
		return false
	}
	switch a.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return b.Operator == corev1.TolerationOpEqual && a.Value == b.Value
	default:
		return false
	}
}
