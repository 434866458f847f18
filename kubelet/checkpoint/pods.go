package checkpoint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const podsName = "pods"

// Pod is the record of an admitted pod.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Resources are the resources that each of its containers was admitted with, or given last by a resize, by the
	// containers' names.
	Resources map[string]corev1.ResourceRequirements `json:"resources,omitempty"`
	// PodResources are those of the pod as a whole.
	PodResources *corev1.ResourceRequirements `json:"podResources,omitempty"`
	// InForce are the resources in force while a resize to Resources is in progress.
	InForce *Allocation `json:"inForce,omitempty"`
	// Backoffs are the back-offs of failing containers, by keys that the caller chooses.
	Backoffs map[string]Backoff `json:"backoffs,omitempty"`
}

// Allocation is the resources of a pod.
type Allocation struct {
	// Pod are those of the pod as a whole, Containers those of its containers, by name.
	Pod        *corev1.ResourceRequirements           `json:"pod,omitempty"`
	Containers map[string]corev1.ResourceRequirements `json:"containers,omitempty"`
}

// Backoff is how long the next attempt has to wait, and since when the wait has had that length.
type Backoff struct {
	Delay   time.Duration `json:"delay"`
	Updated time.Time     `json:"updated"`
}

// Pods records the pods that a node has admitted. The zero value is empty and saves nothing; Restore makes one that
// does.
type Pods struct {
	store *Store

	mu         sync.Mutex
	pods       map[types.UID]Pod
	generation uint64 // of pods

	writing sync.Mutex
	written uint64 // the generation that is on disk
}

// Restore returns the pods saved in a store. If they cannot be read, it returns the error together with an empty Pods
// that can be used.
func Restore(store *Store) (*Pods, error) {
	p := &Pods{store: store, pods: map[types.UID]Pod{}}
	if store == nil {
		return p, errors.New("pods are restored from a store")
	}
	err := store.Load(podsName, &p.pods)
	if err != nil {
		p.pods = map[types.UID]Pod{}
	}
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("the checkpoint of admitted pods cannot be read: %w", err)
	}
	return p, err
}

// Admit records pods with the current resources of their specs; for a known pod, only these change. The record is on
// disk when Admit returns nil. If it fails, the pods are still remembered, and saved with the next change.
func (p *Pods) Admit(pods ...*corev1.Pod) error {
	return p.change(func(m map[types.UID]Pod) bool {
		for _, pod := range pods {
			known := m[pod.UID]
			known.Namespace, known.Name = pod.Namespace, pod.Name
			known.Resources, known.PodResources = resources(pod), pod.Spec.Resources.DeepCopy()
			m[pod.UID] = known
		}
		return len(pods) > 0
	})
}

// Resize records that an admitted pod was given the resources of its spec. Unless others are recorded as in force
// already, those from before are.
func (p *Pods) Resize(pod *corev1.Pod) error {
	return p.change(func(m map[types.UID]Pod) bool {
		known, ok := m[pod.UID]
		if !ok {
			return false
		}
		if known.InForce == nil {
			known.InForce = &Allocation{Pod: known.PodResources, Containers: known.Resources}
		}
		known.Resources, known.PodResources = resources(pod), pod.Spec.Resources.DeepCopy()
		m[pod.UID] = known
		return true
	})
}

// SetInForce records which resources are in force for an admitted pod; nil means those that it was given. Other pods are
// ignored.
func (p *Pods) SetInForce(uid types.UID, a *Allocation) error {
	return p.change(func(m map[types.UID]Pod) bool {
		known, ok := m[uid]
		if !ok || known.InForce == nil && a == nil {
			return false
		}
		known.InForce = a
		m[uid] = known
		return true
	})
}

// resources returns the resources of a pod's containers, without those that set none.
func resources(pod *corev1.Pod) map[string]corev1.ResourceRequirements {
	out := map[string]corev1.ResourceRequirements{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			if len(r.Requests) > 0 || len(r.Limits) > 0 {
				out[list[i].Name] = corev1.ResourceRequirements{Requests: r.Requests.DeepCopy(), Limits: r.Limits.DeepCopy()}
			}
		}
	}
	return out
}

// SetBackoff records a back-off of an admitted pod; other pods are ignored.
func (p *Pods) SetBackoff(uid types.UID, key string, b Backoff) error {
	return p.change(func(m map[types.UID]Pod) bool {
		pod, ok := m[uid]
		if !ok {
			return false
		}
		// Maps that were handed out are never changed.
		pod.Backoffs = maps.Clone(pod.Backoffs)
		if pod.Backoffs == nil {
			pod.Backoffs = map[string]Backoff{}
		}
		pod.Backoffs[key] = b
		m[uid] = pod
		return true
	})
}

// Get returns the record of a pod; it is shared and must not be modified.
func (p *Pods) Get(uid types.UID) (Pod, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pod, ok := p.pods[uid]
	return pod, ok
}

// Forget removes the records of pods of which nothing is left. Unknown pods are ignored.
func (p *Pods) Forget(uids ...types.UID) error {
	return p.change(func(m map[types.UID]Pod) bool {
		before := len(m)
		for _, uid := range uids {
			delete(m, uid)
		}
		return len(m) != before
	})
}

// Orphans lists the pods for which live returns false, in no order.
func (p *Pods) Orphans(live func(types.UID) bool) ([]types.UID, error) {
	p.mu.Lock()
	known := slices.Collect(maps.Keys(p.pods))
	p.mu.Unlock()
	return slices.DeleteFunc(known, live), nil
}

// change applies f to the records and saves them if they changed.
func (p *Pods) change(f func(map[types.UID]Pod) bool) error {
	p.mu.Lock()
	if p.pods == nil {
		p.pods = map[types.UID]Pod{}
	}
	if !f(p.pods) {
		p.mu.Unlock()
		return nil
	}
	p.generation++
	mine := p.generation
	p.mu.Unlock()
	if p.store == nil {
		return nil
	}
	return p.write(mine)
}

// write makes sure that a generation is on disk. Changes made during a write share the next one.
func (p *Pods) write(generation uint64) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.written >= generation {
		return nil
	}
	p.mu.Lock()
	pods, now := maps.Clone(p.pods), p.generation
	p.mu.Unlock()
	if err := p.store.Save(podsName, pods); err != nil {
		return err
	}
	p.written = now
	return nil
}
