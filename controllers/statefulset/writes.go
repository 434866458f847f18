package statefulset

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/keelson-dev/keelson/controllers"
)

// writes are what the controller has written for each StatefulSet since it last saw that the caches had all of it.
type writes struct {
	mu   sync.Mutex
	sets map[controllers.Key]*wrote
}

// wrote has the latest resource version written to each resource, and the pods deleted.
type wrote struct {
	sets, pods, claims string
	deleted            map[string]types.UID
}

func newWrites() *writes { return &writes{sets: map[controllers.Key]*wrote{}} }

// record calls f with what was written for the set.
func (w *writes) record(set metav1.Object, f func(*wrote)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := controllers.KeyOf(set)
	if w.sets[key] == nil {
		w.sets[key] = &wrote{deleted: map[string]types.UID{}}
	}
	f(w.sets[key])
}

func (w *writes) set(set, written metav1.Object) {
	w.record(set, func(r *wrote) { r.sets = later(r.sets, written) })
}

func (w *writes) pod(set, written metav1.Object) {
	w.record(set, func(r *wrote) { r.pods = later(r.pods, written) })
}

func (w *writes) claim(set, written metav1.Object) {
	w.record(set, func(r *wrote) { r.claims = later(r.claims, written) })
}

func (w *writes) podDeleted(set, pod metav1.Object) {
	w.record(set, func(r *wrote) { r.deleted[pod.GetName()] = pod.GetUID() })
}

// forget drops what was written for a set.
func (w *writes) forget(key controllers.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sets, key)
}

// seen reports whether the caches have all that was written for a set; if so, it is forgotten.
func (w *writes) seen(key controllers.Key, in Sources) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.sets[key]
	if r == nil {
		return true
	}
	if !reached(in.StatefulSets.LastVersion(), r.sets) || !reached(in.Pods.LastVersion(), r.pods) || !reached(in.Claims.LastVersion(), r.claims) {
		return false
	}
	for name, uid := range r.deleted {
		if pod, ok := in.Pods.Get(key.Namespace, name); ok && pod.UID == uid && pod.DeletionTimestamp == nil {
			return false
		}
	}
	delete(w.sets, key)
	return true
}

// later returns the later of two resource versions.
func later(version string, of metav1.Object) string {
	if version != "" && reached(version, of.GetResourceVersion()) {
		return version
	}
	return of.GetResourceVersion()
}

// reached reports whether a cache at one resource version has another. Versions that cannot be compared, as the empty one
// of what was not written, do not stop the controller.
func reached(at, version string) bool {
	order, err := resourceversion.CompareResourceVersion(at, version)
	return err != nil || order >= 0
}
