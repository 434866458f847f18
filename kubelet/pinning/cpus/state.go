package cpus

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/podspec/restart"
)

// State is which CPUs belong to whom. The zero value is that of a machine whose CPUs were never handed out.
type State struct {
	// Shared are the CPUs of all containers without their own.
	Shared cpuset.CPUSet
	// Own are the CPUs of containers, by pod and name. Init containers may have some of those of others of their pod.
	Own map[types.UID]map[string]cpuset.CPUSet
}

// Clone returns a copy.
func (s State) Clone() State {
	own := make(map[types.UID]map[string]cpuset.CPUSet, len(s.Own))
	for uid, pod := range s.Own {
		own[uid] = maps.Clone(pod)
	}
	return State{Shared: s.Shared, Own: own}
}

// Of returns the CPUs that a container is to run on, and whether it has them to itself.
func (s State) Of(uid types.UID, container string) (set cpuset.CPUSet, own bool) {
	if set, own = s.Own[uid][container]; own {
		return set, true
	}
	return s.Shared, false
}

// Without returns the state without the pods for which live returns false, whose CPUs are shared again.
func (s State) Without(live func(types.UID) bool) State {
	next := s.Clone()
	for uid, pod := range s.Own {
		if live(uid) {
			continue
		}
		delete(next.Own, uid)
		for _, set := range pod {
			next.Shared = next.Shared.Union(set)
		}
	}
	return next
}

// assigned are the CPUs of all containers of a pod.
func (s State) assigned(uid types.UID) cpuset.CPUSet {
	return cpuset.New().Union(slices.Collect(maps.Values(s.Own[uid]))...)
}

// reusable are the CPUs of a pod's init containers that have ended before a container starts, and that no container since then
// has got.
func (s State) reusable(pod *corev1.Pod, container string) cpuset.CPUSet {
	var set cpuset.CPUSet
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name == container {
			return set
		}
		if restart.Sidecar(c) {
			set = set.Difference(s.Own[pod.UID][c.Name])
		} else {
			set = set.Union(s.Own[pod.UID][c.Name])
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Name == container {
			return set
		}
		set = set.Difference(s.Own[pod.UID][c.Name])
	}
	return set
}

// Restore checks a state that was written down earlier, and returns the one to go on with. The CPUs of the machine, and which of
// them are reserved, may have changed in the meantime: then it fails.
func (p *Policy) Restore(s State) (State, error) {
	all := p.topology.All()
	if p.options.StrictReserve {
		all = all.Difference(p.reserved)
	}
	if s.Shared.IsEmpty() {
		if len(s.Own) > 0 {
			return s, errors.New("default cpuset cannot be empty")
		}
		return State{Shared: all}, nil
	}
	switch in := p.reserved.Intersection(s.Shared); {
	case p.options.StrictReserve && !in.IsEmpty():
		return s, fmt.Errorf("some of strictly reserved cpus: %q are present in defaultCpuSet: %q", in.String(), s.Shared.String())
	case !p.options.StrictReserve && !in.Equals(p.reserved):
		return s, fmt.Errorf("not all reserved cpus: %q are present in defaultCpuSet: %q", p.reserved.String(), s.Shared.String())
	}
	known := s.Shared
	for _, uid := range slices.Sorted(maps.Keys(s.Own)) {
		for _, name := range slices.Sorted(maps.Keys(s.Own[uid])) {
			set := s.Own[uid][name]
			if !s.Shared.Intersection(set).IsEmpty() {
				return s, fmt.Errorf("pod: %s, container: %s cpuset: %q overlaps with default cpuset %q", uid, name, set.String(), s.Shared.String())
			}
			known = known.Union(set)
		}
	}
	if !known.Equals(all) {
		return s, fmt.Errorf("current set of available CPUs %q doesn't match with CPUs in state %q", all.String(), known.String())
	}
	return s, nil
}
