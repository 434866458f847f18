package backends

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// Triggers finds the change that caused a change of a service's endpoints, for the annotation
// endpoints.kubernetes.io/last-change-trigger-time. Make one with NewTriggers. It is safe for concurrent use.
type Triggers struct {
	mu       sync.Mutex
	services map[controllers.Key]trigger
}

// trigger is the last known state of a service.
type trigger struct {
	created time.Time
	ready   map[string]time.Time // when the readiness of each pod last changed
}

// NewTriggers returns Triggers without services.
func NewTriggers() *Triggers { return &Triggers{services: map[controllers.Key]trigger{}} }

// Time returns the earliest change since the last call for the service; for a new service, its creation; the zero time
// if there was none.
func (t *Triggers) Time(service *corev1.Service, selected []*corev1.Pod) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := controllers.KeyOf(service)
	before, known := t.services[key]
	now := trigger{created: service.CreationTimestamp.Time, ready: map[string]time.Time{}}
	var first time.Time
	changed := func(at, had time.Time) {
		if at.After(had) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for _, pod := range selected {
		if c := pods.Condition(pod, corev1.PodReady); c != nil {
			now.ready[pod.Name] = c.LastTransitionTime.Time
			changed(c.LastTransitionTime.Time, before.ready[pod.Name])
		}
	}
	changed(now.created, before.created)
	t.services[key] = now
	if !known {
		return now.created
	}
	return first
}

// Forget drops the state of a service.
func (t *Triggers) Forget(key controllers.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.services, key)
}

// Annotate sets or clears the annotation in annotations, which is created if nil, and returns them.
func Annotate(annotations map[string]string, at time.Time) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	if at.IsZero() {
		delete(annotations, corev1.EndpointsLastChangeTriggerTime)
	} else {
		annotations[corev1.EndpointsLastChangeTriggerTime] = at.UTC().Format(time.RFC3339Nano)
	}
	return annotations
}

// Waiting holds the services that wait for the cache to show the last write. Make one with NewWaiting. It is safe for
// concurrent use.
type Waiting struct {
	mu   sync.Mutex
	keys map[controllers.Key]bool
}

// NewWaiting returns a Waiting without services.
func NewWaiting() *Waiting { return &Waiting{keys: map[controllers.Key]bool{}} }

// Add makes a service wait.
func (w *Waiting) Add(key controllers.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys[key] = true
}

// Take removes a service and reports whether it was waiting.
func (w *Waiting) Take(key controllers.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	waited := w.keys[key]
	delete(w.keys, key)
	return waited
}
