package scheduler

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// DefaultSchedulerName is the spec.schedulerName of pods that do not choose a scheduler.
const DefaultSchedulerName = corev1.DefaultSchedulerName

// ErrProfile: a Profile cannot be used as it is.
var ErrProfile = errors.New("invalid scheduler profile")

// Profile is a way to choose nodes: predicates and priorities, in the order in which they are
// asked. It is not changed once it is in use, and may then be used by many goroutines.
type Profile struct {
	// SchedulerName is the spec.schedulerName of the pods that the profile is for; empty means
	// DefaultSchedulerName.
	SchedulerName string
	// Predicates are asked in order; the first that refuses a node is the one that counts.
	Predicates []Predicate
	Priorities []Weighted
	// Seed decides between nodes of equal total. Each pair of a pod's and a node's name has a
	// rank that depends on the seed and nothing else, and the highest rank wins: evenly spread
	// like upstream's random choice, but the same in each run.
	Seed uint64
}

// Validate fails with ErrProfile when names are missing or double, or weights below 1.
func (p *Profile) Validate() error {
	names := map[string]bool{}
	for _, predicate := range p.Predicates {
		if predicate == nil || predicate.Name() == "" {
			return fmt.Errorf("%w: a predicate without name", ErrProfile)
		}
		if names[predicate.Name()] {
			return fmt.Errorf("%w: two predicates %q", ErrProfile, predicate.Name())
		}
		names[predicate.Name()] = true
	}
	clear(names)
	for _, w := range p.Priorities {
		if w.Priority == nil || w.Priority.Name() == "" {
			return fmt.Errorf("%w: a priority without name", ErrProfile)
		}
		if names[w.Priority.Name()] {
			return fmt.Errorf("%w: two priorities %q", ErrProfile, w.Priority.Name())
		}
		if w.Weight < 1 {
			return fmt.Errorf("%w: priority %q has weight %d", ErrProfile, w.Priority.Name(), w.Weight)
		}
		names[w.Priority.Name()] = true
	}
	return nil
}

// Schedule chooses a node for a pod. It is a pure function: the pod need not exist, nothing
// is changed, and equal arguments give equal decisions. All nodes are considered, where upstream
// takes a sample of large clusters.
//
// As upstream, a node that is the only one to pass is chosen without asking the priorities.
func (p *Profile) Schedule(pod *corev1.Pod, s *Snapshot) Decision {
	var e evaluation
	e.run(p, nil, pod, s)
	return e.decision()
}

// Held returns the name of the first predicate whose Gate holds the pod back, and why; or "",
// nil.
func (p *Profile) Held(pod *corev1.Pod) (string, *Refusal) {
	for _, predicate := range p.Predicates {
		if g, ok := predicate.(Gate); ok {
			if r := g.Holds(pod); r != nil {
				return predicate.Name(), r
			}
		}
	}
	return "", nil
}

// MayHelp says whether an event is a reason to try a pod again that the named predicates
// refused. A name that the profile does not know is helped by everything, and nothing by an
// event of no kind.
func (p *Profile) MayHelp(pod *corev1.Pod, refusedBy []string, e Event) bool {
	if e.Kind == 0 {
		return false
	}
	for _, name := range refusedBy {
		known := false
		for _, predicate := range p.Predicates {
			if predicate.Name() != name {
				continue
			}
			known = true
			h, ok := predicate.(Hinter)
			if !ok || h.Events()&e.Kind != 0 && h.MayHelp(pod, e) {
				return true
			}
		}
		if !known {
			return true
		}
	}
	return false
}

// events are the kinds of events that may help any pod.
func (p *Profile) events() EventKind {
	var kinds EventKind
	for _, predicate := range p.Predicates {
		if h, ok := predicate.(Hinter); ok {
			kinds |= h.Events()
		} else {
			kinds |= AllEvents
		}
	}
	return kinds
}

func (p *Profile) schedulerName() string {
	if p.SchedulerName == "" {
		return DefaultSchedulerName
	}
	return p.SchedulerName
}
