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

// Pod is what is remembered of a pod that was admitted.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Resources are what each of its containers was admitted with, by the containers' names.
	Resources map[string]corev1.ResourceRequirements `json:"resources,omitempty"`
	// Backoffs are the waits of containers that keep failing, by the keys of who keeps them.
	Backoffs map[string]Backoff `json:"backoffs,omitempty"`
}

// Backoff is how long the next attempt has to wait, and since when the wait is that long.
type Backoff struct {
	Delay   time.Duration `json:"delay"`
	Updated time.Time     `json:"updated"`
}

// Pods are the pods that a node has admitted. The zero value is empty and writes nothing down;
// Restore makes one that does.
type Pods struct {
	store *Store

	mu         sync.Mutex
	pods       map[types.UID]Pod
	generation uint64 // of pods

	writing sync.Mutex
	written uint64 // the generation that is on disk
}

// Restore returns the pods that were written down in a store. When these cannot be read it returns
// the error and beside it a Pods that is empty, which can be used.
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
		err = fmt.Errorf("which pods were admitted is not known any more: %w", err)
	}
	return p, err
}

// Admit remembers pods with the resources that their specs have now; of one that is known already
// only these change. It is on disk when Admit returns nil. When it fails the pods are remembered all
// the same, and written with what comes next.
func (p *Pods) Admit(pods ...*corev1.Pod) error {
	return p.change(func(m map[types.UID]Pod) bool {
		for _, pod := range pods {
			known := m[pod.UID]
			known.Namespace, known.Name, known.Resources = pod.Namespace, pod.Name, resources(pod)
			m[pod.UID] = known
		}
		return len(pods) > 0
	})
}

// resources are what a pod's containers are to have, but for those that say nothing.
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

// SetBackoff remembers the wait of something of a pod that was admitted; others are ignored.
func (p *Pods) SetBackoff(uid types.UID, key string, b Backoff) error {
	return p.change(func(m map[types.UID]Pod) bool {
		pod, ok := m[uid]
		if !ok {
			return false
		}
		// What was handed out is not changed.
		pod.Backoffs = maps.Clone(pod.Backoffs)
		if pod.Backoffs == nil {
			pod.Backoffs = map[string]Backoff{}
		}
		pod.Backoffs[key] = b
		m[uid] = pod
		return true
	})
}

// Get returns what is remembered of a pod; it is shared and must not be changed.
func (p *Pods) Get(uid types.UID) (Pod, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pod, ok := p.pods[uid]
	return pod, ok
}

// Forget forgets pods of which nothing is left. Those that are not known are fine.
func (p *Pods) Forget(uids ...types.UID) error {
	return p.change(func(m map[types.UID]Pod) bool {
		before := len(m)
		for _, uid := range uids {
			delete(m, uid)
		}
		return len(m) != before
	})
}

// Orphans lists the pods that live does not report, in no order.
func (p *Pods) Orphans(live func(types.UID) bool) ([]types.UID, error) {
	p.mu.Lock()
	known := slices.Collect(maps.Keys(p.pods))
	p.mu.Unlock()
	return slices.DeleteFunc(known, live), nil
}

// change changes what is remembered and writes it down, if there is a change.
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

// write sees to it that a generation is on disk. Changes that are made while one is being written
// share the next write.
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
