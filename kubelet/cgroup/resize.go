package cgroup

import (
	"context"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

// Limits returns the limits in force on a pod's cgroup, and those of its spec: CPU shares, quota and period, and
// memory. In both, -1 is unlimited and 0 unknown or not set. It fails with fs.ErrNotExist if there is no such cgroup.
func (t *Tree) Limits(ctx context.Context, pod *corev1.Pod) (now, want cri.Resources, err error) {
	if err := checkUID(pod.UID); err != nil {
		return now, want, err
	}
	if err := ctx.Err(); err != nil {
		return now, want, err
	}
	at := t.PodPath(pod)
	if !exists(t.layout.dirs(at)) {
		return now, want, fmt.Errorf("cgroup %s: %w", at, fs.ErrNotExist)
	}
	l := PodLimits(pod, t.quotas(pod.UID))
	return t.layout.limits(at), resourcesOf(l), nil
}

// Limit sets limits on a pod's cgroup: those of CPU shares, CPU quota with its period, and memory that are not 0; -1 is
// unlimited. The pod's class is weighed by its spec.
func (t *Tree) Limit(ctx context.Context, pod *corev1.Pod, set cri.Resources) error {
	if err := checkUID(pod.UID); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	at := t.PodPath(pod)
	l := Limits{CPUShares: uint64(set.CPUShares), CPUQuota: set.CPUQuota, CPUPeriod: uint64(set.CPUPeriod), Memory: set.MemoryLimit}
	if err := t.layout.limit(at, l); err != nil {
		return fmt.Errorf("limiting cgroup %s: %w", at, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.pods[pod.UID]
	if !ok {
		return nil
	}
	known.limits.override(l)
	if set.CPUShares != 0 {
		known.burstable = burstableRequest(pod)
	}
	t.pods[pod.UID] = known
	t.weigh()
	return nil
}

// override replaces limits by those that are set.
func (l *Limits) override(by Limits) {
	if by.CPUShares != 0 {
		l.CPUShares = by.CPUShares
	}
	if by.CPUQuota != 0 {
		l.CPUQuota, l.CPUPeriod = by.CPUQuota, by.CPUPeriod
	}
	if by.Memory != 0 {
		l.Memory = by.Memory
	}
}

func resourcesOf(l Limits) cri.Resources {
	return cri.Resources{
		CPUShares: int64(l.CPUShares), CPUQuota: l.CPUQuota, CPUPeriod: int64(l.CPUPeriod), MemoryLimit: l.Memory,
	}
}
