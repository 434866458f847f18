package statefulset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
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

// Plan returns what a plan says to do, phase by phase, and whether a rolling update may follow.
func Plan(set *appsv1.StatefulSet, pods []*corev1.Pod, claims map[string]*corev1.PersistentVolumeClaim, now time.Time) string {
	template := version{"new", &set.Spec.Template}
	w := &world{
		set: set, current: template, update: template, pods: pods, now: now,
		claim: func(name string) *corev1.PersistentVolumeClaim { return claims[name] },
	}
	p := w.plan(w.arrange())
	text := ""
	for _, phase := range p.phases {
		for _, steps := range phase {
			for _, s := range steps {
				text += []string{"create", "update", "remove", "claims", "retain"}[s.action] + " " + s.pod.Name + ", "
			}
		}
	}
	if p.settled {
		text += "settled"
	}
	return text
}

// Writes are what the controller remembers of its writes for a set.
type Writes struct{ w *writes }

// NewWrites returns Writes that remember nothing.
func NewWrites() Writes { return Writes{newWrites()} }

// Wrote remembers a write for the set.
func (w Writes) Wrote(set, obj metav1.Object) {
	switch obj.(type) {
	case *appsv1.StatefulSet:
		w.w.set(set, obj)
	case *corev1.Pod:
		w.w.pod(set, obj)
	case *corev1.PersistentVolumeClaim:
		w.w.claim(set, obj)
	}
}

// Deleted remembers that a pod was deleted for the set.
func (w Writes) Deleted(set, pod metav1.Object) { w.w.podDeleted(set, pod) }

// Forget drops what is remembered.
func (w Writes) Forget(set metav1.Object) { w.w.forget(controllers.KeyOf(set)) }

// Seen reports whether the caches have it all.
func (w Writes) Seen(set metav1.Object, in Sources) bool { return w.w.seen(controllers.KeyOf(set), in) }
