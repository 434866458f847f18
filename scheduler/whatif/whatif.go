package whatif

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

var (
	// ErrProfile means that no profile has the pod's scheduler name.
	ErrProfile = errors.New("no profile of this scheduler name")
	// ErrHeld means that a scheduler would not try the pod yet, such as one with scheduling gates.
	ErrHeld = errors.New("held back")
	// ErrNode means that there is no such node.
	ErrNode = errors.New("no such node")
	// ErrChanged means that a World has changed since the fork that is to be committed.
	ErrChanged = errors.New("the world has changed since it was forked")
)

// World is a state of a cluster. Make one with New or Fork.
type World struct {
	profiles map[string]*profile // by scheduler name
	state    *scheduler.State

	parent *World
	began  *scheduler.Snapshot // the parent's state at the fork
	now    *scheduler.Snapshot // nil if the state has changed since it was taken
}

type profile struct {
	scheduler.Profile
	planner *scheduler.Planner
}

// New returns a world that begins as a snapshot. It fails with scheduler.ErrProfile if a profile is invalid.
func New(s *scheduler.Snapshot, profiles ...scheduler.Profile) (*World, error) {
	w := &World{profiles: map[string]*profile{}, state: s.State(), now: s}
	for _, p := range profiles {
		if err := p.Validate(); err != nil {
			return nil, err
		}
		name := p.SchedulerName
		if name == "" {
			name = scheduler.DefaultSchedulerName
		}
		if w.profiles[name] != nil {
			return nil, fmt.Errorf("%w: duplicate profile with scheduler name %q", scheduler.ErrProfile, name)
		}
		made := &profile{Profile: p}
		made.planner = scheduler.NewPlanner(&made.Profile)
		w.profiles[name] = made
	}
	return w, nil
}

// Fork returns a world that begins as this one. What happens in either is not seen in the other, but by Commit.
func (w *World) Fork() *World {
	now := w.Snapshot()
	return &World{profiles: w.profiles, state: now.State(), now: now, parent: w, began: now}
}

// Commit makes this world's state that of the one from which it was forked. It fails with ErrChanged, and does nothing, if
// that has changed since, or if this world is no fork.
func (w *World) Commit() error {
	if w.parent == nil || w.parent.Snapshot().Generation() != w.began.Generation() {
		return ErrChanged
	}
	now := w.Snapshot()
	w.parent.state, w.parent.now, w.began = now.State(), now, now
	return nil
}

// Snapshot returns the present state. It does not change with the world.
func (w *World) Snapshot() *scheduler.Snapshot {
	if w.now == nil {
		w.now = w.state.Snapshot()
	}
	return w.now
}

// SetNode adds a node or replaces its state.
func (w *World) SetNode(node *corev1.Node) {
	w.now = nil
	w.state.SetNode(node)
}

// RemoveNode removes a node with its pods, and returns these. It fails with ErrNode if there is no such node.
func (w *World) RemoveNode(name string) ([]*corev1.Pod, error) {
	node := w.Snapshot().Node(name)
	if node == nil {
		return nil, fmt.Errorf("%w: %q", ErrNode, name)
	}
	w.now = nil
	pods := make([]*corev1.Pod, len(node.Pods))
	for i, p := range node.Pods {
		pods[i] = p.Pod
		w.state.RemovePod(p.Pod)
	}
	w.state.RemoveNode(name)
	return pods, nil
}

// SetPod adds a pod to the node that it names, or replaces its state. One that names no node is ignored.
func (w *World) SetPod(pod *corev1.Pod) {
	w.now = nil
	w.state.SetPod(pod)
}

// RemovePod removes a pod from the node that it names, and reports whether it was there.
func (w *World) RemovePod(pod *corev1.Pod) bool {
	w.now = nil
	return w.state.RemovePod(pod)
}

// Decide returns the decision about a pod without carrying it out: every node with its scores or the reason why it does not take
// the pod. It does not preempt. It fails with ErrProfile.
func (w *World) Decide(pod *corev1.Pod) (scheduler.Decision, error) {
	p, err := w.profile(pod)
	if err != nil {
		return scheduler.Decision{}, err
	}
	return p.planner.Schedule(pod, w.Snapshot()), nil
}

func (w *World) profile(pod *corev1.Pod) (*profile, error) {
	name := pod.Spec.SchedulerName
	if name == "" {
		name = scheduler.DefaultSchedulerName
	}
	if p := w.profiles[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrProfile, name)
}
