package deployment

import (
	"maps"
	"math"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Annotations of ReplicaSets, and the first also of Deployments.
const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	// revisionHistory lists the revisions a set had before its template was rolled back to.
	revisionHistory = "deployment.kubernetes.io/revision-history"
	// desiredReplicas is the Deployment's size when the set was last sized. If the Deployment's size differs now, it
	// was scaled; this is not progress of its rollout.
	desiredReplicas = "deployment.kubernetes.io/desired-replicas"
	// maxReplicas is desiredReplicas plus maxSurge.
	maxReplicas = "deployment.kubernetes.io/max-replicas"
)

// historyLength is the maximum length of revisionHistory in bytes.
const historyLength = 2000

// ownAnnotation reports whether an annotation is about the object it is on; such annotations are not copied from a
// Deployment to its ReplicaSets or back.
func ownAnnotation(name string) bool {
	switch name {
	case corev1.LastAppliedConfigAnnotation, revisionAnnotation, revisionHistory, desiredReplicas, maxReplicas, appsv1.DeprecatedRollbackTo:
		return true
	}
	return false
}

// revision returns the revision in the annotations: 0 if there is none, false if it is invalid.
func revision(annotations map[string]string) (int64, bool) {
	value, ok := annotations[revisionAnnotation]
	if !ok {
		return 0, true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil
}

// nextRevision returns the revision after the highest of the old sets.
func nextRevision(old []*appsv1.ReplicaSet) int64 {
	var highest int64
	for _, set := range old {
		if n, ok := revision(set.Annotations); ok {
			highest = max(highest, n)
		}
	}
	return highest + 1
}

// lastRevision returns the second highest revision of the sets.
func lastRevision(all []*appsv1.ReplicaSet) int64 {
	var highest, second int64
	for _, set := range all {
		switch n, ok := revision(set.Annotations); {
		case !ok:
		case n >= highest:
			highest, second = n, highest
		case n > second:
			second = n
		}
	}
	return second
}

// annotate updates the annotations of the current set, which it modifies: those of the Deployment, and a revision above
// those of all old sets. It reports whether anything changed.
func annotate(d *appsv1.Deployment, set *appsv1.ReplicaSet, next int64) bool {
	before := maps.Clone(set.Annotations)
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	for name, value := range d.Annotations {
		if !ownAnnotation(name) {
			set.Annotations[name] = value
		}
	}
	had := set.Annotations[revisionAnnotation]
	n, ok := revision(set.Annotations)
	if had == "" {
		n, ok = 0, true
	}
	if ok && n < next {
		set.Annotations[revisionAnnotation] = strconv.FormatInt(next, 10)
		if had != "" {
			recordRevision(set, had) // a rollback to this set
		}
	}
	return !maps.Equal(before, set.Annotations)
}

// recordRevision appends a revision to the history of a set, dropping the oldest to make room.
func recordRevision(set *appsv1.ReplicaSet, old string) {
	history := set.Annotations[revisionHistory]
	for history != "" && len(history)+len(",")+len(old) > historyLength {
		_, history, _ = strings.Cut(history, ",")
	}
	if history != "" {
		history += ","
	}
	set.Annotations[revisionHistory] = history + old
}

// annotateSize records the size of the Deployment on a set, which it modifies.
func annotateSize(d *appsv1.Deployment, set *appsv1.ReplicaSet) {
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	set.Annotations[desiredReplicas] = strconv.Itoa(int(replicas(d)))
	set.Annotations[maxReplicas] = strconv.Itoa(int(replicas(d) + maxSurge(d)))
}

// countAnnotation reads one of the sizes; false unless it is a non-negative number.
func countAnnotation(set *appsv1.ReplicaSet, name string) (int32, bool) {
	n, err := strconv.ParseUint(set.Annotations[name], 10, 32)
	if err != nil || n > math.MaxInt32 {
		return 0, false
	}
	return int32(n), true
}

// scaled reports whether the Deployment's size differs from the one recorded on its active sets.
func scaled(d *appsv1.Deployment, all []*appsv1.ReplicaSet) bool {
	for _, set := range active(all) {
		if desired, ok := countAnnotation(set, desiredReplicas); ok && desired != replicas(d) {
			return true
		}
	}
	return false
}
