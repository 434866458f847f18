package eviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Observation is how much of something is available, out of how much, and when that was observed.
type Observation struct {
	Available, Capacity resource.Quantity // of the signal
	At                  time.Time         // when it was observed
}

// Observations are the known values of signals.
type Observations map[Signal]Observation

// Observe reads observations from a summary.
func Observe(s *v1alpha1.Summary) Observations {
	out := Observations{}
	if m := s.Node.Memory; m != nil && m.AvailableBytes != nil && m.WorkingSetBytes != nil {
		out.add(MemoryAvailable, *m.AvailableBytes, *m.AvailableBytes+*m.WorkingSetBytes, m.Time.Time)
	}
	for i := range s.Node.SystemContainers {
		c := &s.Node.SystemContainers[i]
		if m := c.Memory; c.Name == v1alpha1.SystemContainerPods && m != nil && m.AvailableBytes != nil && m.WorkingSetBytes != nil {
			out.add(AllocatableMemory, *m.AvailableBytes, *m.AvailableBytes+*m.WorkingSetBytes, m.Time.Time)
		}
	}
	out.addFilesystem(NodeFsAvailable, NodeFsInodesFree, s.Node.Fs)
	if s.Node.Runtime != nil {
		out.addFilesystem(ImageFsAvailable, ImageFsInodesFree, s.Node.Runtime.ImageFs)
		out.addFilesystem(ContainerFsAvailable, ContainerFsInodesFree, s.Node.Runtime.ContainerFs)
	}
	if r := s.Node.Rlimit; r != nil && r.MaxPID != nil && r.NumOfRunningProcesses != nil {
		out[PIDAvailable] = Observation{
			Available: *resource.NewQuantity(*r.MaxPID-*r.NumOfRunningProcesses, resource.DecimalSI),
			Capacity:  *resource.NewQuantity(*r.MaxPID, resource.DecimalSI), At: r.Time.Time,
		}
	}
	return out
}

func (o Observations) add(s Signal, available, capacity uint64, at time.Time) {
	format := resource.BinarySI
	if s.resource() == inodes {
		format = resource.DecimalSI
	}
	o[s] = Observation{
		Available: *resource.NewQuantity(int64(available), format), Capacity: *resource.NewQuantity(int64(capacity), format), At: at,
	}
}

func (o Observations) addFilesystem(available, free Signal, fs *v1alpha1.FsStats) {
	if fs == nil {
		return
	}
	if fs.AvailableBytes != nil && fs.CapacityBytes != nil {
		o.add(available, *fs.AvailableBytes, *fs.CapacityBytes, fs.Time.Time)
	}
	if fs.InodesFree != nil && fs.Inodes != nil {
		o.add(free, *fs.InodesFree, *fs.Inodes, fs.Time.Time)
	}
}

// met returns the thresholds that the observations are below; with reclaim, the minimum reclaim is added to each. A
// signal without an observation meets no threshold.
func met(thresholds []Threshold, o Observations, reclaim bool) []Threshold {
	var out []Threshold
	for _, t := range thresholds {
		seen, ok := o[t.Signal]
		if !ok {
			continue
		}
		want := t.Value.of(seen.Capacity)
		if reclaim {
			want.Add(t.MinReclaim.of(seen.Capacity))
		}
		if want.Cmp(seen.Available) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// Core remembers which thresholds have been met, and since when. Make one with NewCore.
type Core struct {
	thresholds []Threshold
	transition time.Duration

	firstMet    map[string]time.Time
	unresolved  []Threshold
	conditionAt map[corev1.NodeConditionType]time.Time
	conditions  []corev1.NodeConditionType
	last        Observations
}

// NewCore makes a Core with the thresholds. Conditions last for the transition period after their thresholds were last
// met.
func NewCore(thresholds []Threshold, transition time.Duration) *Core {
	return &Core{
		thresholds: thresholds, transition: transition,
		firstMet: map[string]time.Time{}, conditionAt: map[corev1.NodeConditionType]time.Time{},
	}
}

// Look takes new observations and returns the thresholds that require action now, the most urgent first: those that
// have been met for longer than their grace period, according to observations newer than the last, or whose minimum has
// not been reclaimed since.
func (c *Core) Look(now time.Time, o Observations) []Threshold {
	starved := met(c.thresholds, o, false)
	for _, t := range met(c.unresolved, o, true) {
		if !slices.ContainsFunc(starved, func(s Threshold) bool { return s.key() == t.key() }) {
			starved = append(starved, t)
		}
	}
	first := map[string]time.Time{}
	for _, t := range starved {
		at, before := c.firstMet[t.key()]
		if !before {
			at = now
		}
		first[t.key()] = at
		c.conditionAt[t.Signal.condition()] = now
	}
	c.firstMet = first
	c.conditions = nil
	for _, condition := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		// A condition that was never observed is the zero time, long over.
		if at := c.conditionAt[condition]; at.Equal(now) || now.Sub(at) < c.transition {
			c.conditions = append(c.conditions, condition)
		}
	}
	c.unresolved = slices.DeleteFunc(starved, func(t Threshold) bool { return now.Sub(first[t.key()]) < t.GracePeriod })
	urgent := slices.DeleteFunc(slices.Clone(c.unresolved), func(t Threshold) bool {
		at := o[t.Signal].At
		return !at.IsZero() && !at.After(c.last[t.Signal].At)
	})
	c.last = o
	slices.SortStableFunc(urgent, byUrgency)
	return urgent
}

// Relieved reports whether nothing is short any more after a reclaim, with the minimum reclaim included.
func (c *Core) Relieved(o Observations) bool { return len(met(c.thresholds, o, true)) == 0 }

// Conditions returns the node's conditions as of the last Look, in the order memory, disk, process IDs.
func (c *Core) Conditions() []corev1.NodeConditionType { return slices.Clone(c.conditions) }
