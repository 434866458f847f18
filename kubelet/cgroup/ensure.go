package cgroup

import (
	"context"
	"fmt"
	"path"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Prepare creates the cgroups of the root and of the classes and sets their limits. Ensure does so if it has not been
// done; calling Prepare first reports problems early.
func (t *Tree) Prepare(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.prepare()
}

// prepare is called with the lock held.
func (t *Tree) prepare() error {
	if t.prepared {
		return nil
	}
	t.adopt()
	unbounded := map[int64]int64{}
	for _, size := range pageSizes() {
		unbounded[size] = 1 << 62
	}
	node := NodeLimits(t.options.Offered)
	if node.CPUShares == 0 {
		node.CPUShares = sharesPerCPU
	}
	classes := []struct {
		path   string
		limits Limits
	}{
		{t.root, node},
		{path.Join(t.root, burstableName), Limits{CPUShares: t.burstableShares(), Hugepages: unbounded}},
		{path.Join(t.root, bestEffortName), Limits{CPUShares: minShares, Hugepages: unbounded}},
	}
	for _, class := range classes {
		if err := t.layout.create(class.path); err != nil {
			return fmt.Errorf("making cgroup %s: %w", class.path, err)
		}
		if err := t.layout.limit(class.path, class.limits); err != nil {
			// Pods may already use more than the new limit. Reducing that is up to eviction; the failure must not stop
			// the pods.
			t.log.Warn("limiting a class of pods failed", "cgroup", class.path, "error", err)
		}
	}
	t.shares = t.burstableShares()
	t.prepared = true
	return nil
}

// adopt counts the burstable pods left from before a restart, so that their class keeps its weight.
func (t *Tree) adopt() {
	class := path.Join(t.root, burstableName)
	found, err := t.podsBelow(class)
	if err != nil {
		t.log.Warn("looking for burstable pods failed", "error", err)
	}
	for uid := range found {
		if _, known := t.pods[uid]; !known {
			shares := t.layout.shares(path.Join(class, podPrefix+string(uid)))
			t.pods[uid] = applied{burstable: int64(shares*1000+sharesPerCPU-1) / sharesPerCPU}
		}
	}
}

// Ensure creates a pod's cgroup with the limits of its spec, or updates an existing one, and returns its path for the
// runtime. It is quick when nothing has changed.
func (t *Tree) Ensure(ctx context.Context, pod *corev1.Pod) (string, error) {
	if err := checkUID(pod.UID); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	want := applied{parent: t.PodPath(pod), limits: PodLimits(pod, t.quotas(pod.UID)), burstable: burstableRequest(pod)}
	want.limits.Pids = t.options.PodPids
	known, err := t.admit(pod.UID, want)
	if err != nil {
		return "", err
	}
	if known && exists(t.layout.dirs(want.parent)) {
		return want.parent, nil
	}
	err = t.layout.create(want.parent)
	if err != nil {
		t.lose() // perhaps somebody removed the classes
		return "", fmt.Errorf("making cgroup %s: %w", want.parent, err)
	}
	if err := t.layout.limit(want.parent, want.limits); err != nil {
		return "", fmt.Errorf("limiting cgroup %s: %w", want.parent, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pods[pod.UID] = want
	return want.parent, nil
}

// admit adds a pod to its class, and reports whether its cgroup is already up to date.
func (t *Tree) admit(uid types.UID, want applied) (known bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.prepare(); err != nil {
		return false, err
	}
	if reflect.DeepEqual(t.pods[uid], want) {
		return true, nil
	}
	t.pods[uid] = applied{burstable: want.burstable}
	t.weigh()
	return false, nil
}

// Weigh recomputes the weight of the burstable class from the pods that run, in case others were removed or changed
// some other way. Pods not in the list no longer count.
func (t *Tree) Weigh(pods []*corev1.Pod) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.prepare(); err != nil {
		return err
	}
	next := make(map[types.UID]applied, len(pods))
	for _, pod := range pods {
		a := t.pods[pod.UID]
		a.burstable = burstableRequest(pod)
		next[pod.UID] = a
	}
	t.pods = next
	t.weigh()
	return nil
}

// weigh writes the weight of the burstable class if it changed. The lock is held.
func (t *Tree) weigh() {
	shares := t.burstableShares()
	if !t.prepared || shares == t.shares {
		return
	}
	if err := t.layout.limit(path.Join(t.root, burstableName), Limits{CPUShares: shares}); err != nil {
		t.log.Warn("weighing the burstable pods failed", "error", err)
		return
	}
	t.shares = shares
}

func (t *Tree) burstableShares() uint64 {
	sum := int64(0)
	for _, pod := range t.pods {
		sum += pod.burstable
	}
	return Shares(sum)
}

// lose makes the next call prepare again.
func (t *Tree) lose() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prepared = false
}
