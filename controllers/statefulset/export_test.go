package statefulset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// The pure parts, for tables.
var (
	Identity = identity
	Owners   = owners
	Complete = complete
	Changed  = changed
	Again    = again
	// MaxUnavailable is how many pods a rolling update may make unavailable.
	MaxUnavailable = maxUnavailable
)

// Victims returns the names of the pods that a rolling update to the revision "new" deletes next.
func Victims(set *appsv1.StatefulSet, pods []*corev1.Pod, now time.Time) ([]string, error) {
	w := &world{set: set, update: version{name: "new"}, now: now}
	victims, err := w.victims(pods)
	var names []string
	for _, pod := range victims {
		names = append(names, pod.Name)
	}
	return names, err
}
