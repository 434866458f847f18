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
	// revisionHistory has the revisions a set had before its template was rolled back to.
	revisionHistory = "deployment.kubernetes.io/revision-history"
	// desiredReplicas is the size of the Deployment when the set was sized; a different size
	// now is a scaling of the Deployment, not progress of its rollout.
	desiredReplicas = "deployment.kubernetes.io/desired-replicas"
	// maxReplicas is the same with maxSurge.
	maxReplicas = "deployment.kubernetes.io/max-replicas"
)

// historyLength is how many characters revisionHistory may have.
const historyLength = 2000

// ownAnnotation tells whether an annotation speaks of the object it is on, so that it is not
// carried from a Deployment to its ReplicaSets or back.
func ownAnnotation(name string) bool {
	switch name {
	case corev1.LastAppliedConfigAnnotation, revisionAnnotation, revisionHistory, desiredReplicas, maxReplicas, appsv1.DeprecatedRollbackTo:
		return true
	}
	return false
}

// revision of an object with these annotations; 0 when it has none, false when it has nonsense.
func revision(annotations map[string]string) (int64, bool) {
	value, ok := annotations[revisionAnnotation]
	if !ok {
		return 0, true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil
}

// nextRevision is the one after the highest of the old sets.
func nextRevision(old []*appsv1.ReplicaSet) int64 {
	var highest int64
	for _, set := range old {
		if n, ok := revision(set.Annotations); ok {
			highest = max(highest, n)
		}
	}
	return highest + 1
}

// lastRevision is the second highest of the sets.
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

// annotate brings the annotations of the current set, which is changed, up to date: those of
// the Deployment, and a revision above all old ones. It tells whether anything changed.
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
			recordRevision(set, had) // it is rolled back to
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

// annotateSize notes on a set, which is changed, the size of its Deployment.
func annotateSize(d *appsv1.Deployment, set *appsv1.ReplicaSet) {
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	set.Annotations[desiredReplicas] = strconv.Itoa(int(replicas(d)))
	set.Annotations[maxReplicas] = strconv.Itoa(int(replicas(d) + maxSurge(d)))
}

// countAnnotation reads one of the sizes; false when there is no number from 0 up.
func countAnnotation(set *appsv1.ReplicaSet, name string) (int32, bool) {
	n, err := strconv.ParseUint(set.Annotations[name], 10, 32)
	if err != nil || n > math.MaxInt32 {
		return 0, false
	}
	return int32(n), true
}

// scaled tells whether the Deployment was given another size than its active sets know of.
func scaled(d *appsv1.Deployment, all []*appsv1.ReplicaSet) bool {
	for _, set := range active(all) {
		if desired, ok := countAnnotation(set, desiredReplicas); ok && desired != replicas(d) {
			return true
		}
	}
	return false
}
