package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Merge returns the tolerations of both lists without those that another one covers. Of equal ones the first stays.
func Merge(first, second []corev1.Toleration) []corev1.Toleration {
	all := append(first[:len(first):len(first)], second...)
	var merged []corev1.Toleration
	for i, t := range all {
		if !covered(t, merged, false) && !covered(t, all[i+1:], true) {
			merged = append(merged, t)
		}
	}
	return merged
}

// Allowed reports whether each toleration is covered by one of the list. An empty list allows all.
func Allowed(tolerations, list []corev1.Toleration) bool {
	for _, t := range tolerations {
		if len(list) > 0 && !covered(t, list, false) {
			return false
		}
	}
	return true
}

// covered reports whether one of others tolerates all that t does; more, if properly is set.
func covered(t corev1.Toleration, others []corev1.Toleration, properly bool) bool {
	for _, o := range others {
		equal := equality.Semantic.DeepEqual(t, o)
		if equal && !properly || !equal && covers(o, t) {
			return true
		}
	}
	return false
}

// covers reports whether wide tolerates all that narrow does, which is another toleration.
func covers(wide, narrow corev1.Toleration) bool {
	everyKey := wide.Key == "" && wide.Operator == corev1.TolerationOpExists
	if narrow.Key != wide.Key && !everyKey || narrow.Effect != wide.Effect && wide.Effect != "" {
		return false
	}
	if limit := wide.TolerationSeconds; wide.Effect == corev1.TaintEffectNoExecute && limit != nil &&
		(narrow.TolerationSeconds == nil || *narrow.TolerationSeconds > *limit) {
		return false
	}
	switch wide.Operator {
	case corev1.TolerationOpEqual, "":
		return narrow.Operator == corev1.TolerationOpEqual && narrow.Value == wide.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
