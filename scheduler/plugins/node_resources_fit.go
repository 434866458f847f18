package plugins

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// NodeResourcesFit refuses nodes whose allocatable resources, less their pods' requests, do not suffice for the
// pod: the reasons are "Too many pods" and "Insufficient NAME". If the node would be too small even when empty,
// the refusal is unresolvable.
//
// It prefers the least requested nodes, with this pod: the mean over CPU and memory of the free share of the
// allocatable amount. For this, containers without requests count with 100m CPU and 200Mi memory. As upstream,
// the scores, unlike the refusals, ignore pod-level requests (KEP-2837).
type NodeResourcesFit struct {
	// Ignored are names of extended resources to ignore, IgnoredGroups the parts of such names before the slash
	// (ignoredResources and ignoredResourceGroups upstream).
	Ignored, IgnoredGroups []string
	// Scoring is the preference; the zero value is the one above.
	Scoring Scoring
}

// Name returns "NodeResourcesFit".
func (NodeResourcesFit) Name() string { return "NodeResourcesFit" }

// Check compares the pod's requests with the free resources.
func (f NodeResourcesFit) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	return f.fit(scheduler.Requests(pod), node)
}

// Prepare sums up the pod once.
func (f NodeResourcesFit) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	requests := scheduler.Requests(pod)
	return scheduler.Prepared{Check: func(n *scheduler.NodeInfo) *scheduler.Refusal { return f.fit(requests, n) }}, nil
}

func (f NodeResourcesFit) fit(want scheduler.Resources, node *scheduler.NodeInfo) *scheduler.Refusal {
	var r *scheduler.Refusal
	refuse := func(reason string, unresolvable bool) {
		if r == nil {
			r = &scheduler.Refusal{}
		}
		r.Reasons = append(r.Reasons, reason)
		r.Unresolvable = r.Unresolvable || unresolvable
	}
	has, used := &node.Allocatable, &node.Requested
	if int64(len(node.Pods))+1 > has.Pods {
		refuse("Too many pods", false)
	}
	if want.MilliCPU > 0 && want.MilliCPU > has.MilliCPU-used.MilliCPU {
		refuse("Insufficient cpu", want.MilliCPU > has.MilliCPU)
	}
	if want.Memory > 0 && want.Memory > has.Memory-used.Memory {
		refuse("Insufficient memory", want.Memory > has.Memory)
	}
	if want.EphemeralStorage > 0 && want.EphemeralStorage > has.EphemeralStorage-used.EphemeralStorage {
		refuse("Insufficient ephemeral-storage", want.EphemeralStorage > has.EphemeralStorage)
	}
	if len(want.Scalars) == 0 {
		return r
	}
	for _, name := range slices.Sorted(maps.Keys(want.Scalars)) {
		n := want.Scalars[name]
		if n > has.Scalars[name]-used.Scalars[name] && !f.ignores(name) {
			refuse("Insufficient "+string(name), n > has.Scalars[name])
		}
	}
	return r
}

// ignores reports whether to ignore an extended resource; those of Kubernetes itself always count.
func (f NodeResourcesFit) ignores(name corev1.ResourceName) bool {
	group, _, extended := strings.Cut(string(name), "/")
	if !extended || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix) {
		return false
	}
	return slices.Contains(f.Ignored, string(name)) || slices.Contains(f.IgnoredGroups, group)
}

// Signature appends the pod's requests.
func (NodeResourcesFit) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.Requests(b, pod)
}

// Events returns pods that free resources, added nodes, and nodes that offer more.
func (NodeResourcesFit) Events() scheduler.EventKind {
	return scheduler.AssignedPodDeleted | scheduler.AssignedPodUpdated | scheduler.PodUpdated |
		scheduler.NodeAdded | scheduler.NodeUpdated
}

// MayHelp reports whether there is more room: freed by a pod, or on a node that could hold the pod if it were
// empty.
func (f NodeResourcesFit) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	switch e.Kind {
	case scheduler.AssignedPodDeleted:
		return true
	case scheduler.PodUpdated:
		return e.Change&scheduler.PodScaledDown != 0
	case scheduler.AssignedPodUpdated:
		return e.Change&scheduler.PodScaledDown != 0 &&
			anyMore(scheduler.Requests(pod), scheduler.NewPodInfo(e.OldPod).Requests, scheduler.NewPodInfo(e.Pod).Requests)
	case scheduler.NodeAdded:
		return f.Check(pod, scheduler.NewNodeInfo(e.Node)) == nil
	case scheduler.NodeUpdated:
		if e.Change&scheduler.NodeAllocatableChanged == 0 || f.Check(pod, scheduler.NewNodeInfo(e.Node)) != nil {
			return false
		}
		old, updated := scheduler.ResourcesOf(e.OldNode.Status.Allocatable), scheduler.ResourcesOf(e.Node.Status.Allocatable)
		return updated.Pods > old.Pods || anyMore(scheduler.Requests(pod), updated, old)
	}
	return false
}

// anyMore reports whether a has more than b of a wanted resource.
func anyMore(want, a, b scheduler.Resources) bool {
	if want.MilliCPU > 0 && a.MilliCPU > b.MilliCPU || want.Memory > 0 && a.Memory > b.Memory ||
		want.EphemeralStorage > 0 && a.EphemeralStorage > b.EphemeralStorage {
		return true
	}
	for name := range want.Scalars {
		if a.Scalars[name] > b.Scalars[name] {
			return true
		}
	}
	return false
}

// Score returns the mean share in percent.
func (f NodeResourcesFit) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	of := orCPUAndMemory(f.Scoring.Resources)
	return f.Scoring.score(nonZero(pod, of), of, node)
}

// PrepareScores sums up the pod once.
func (f NodeResourcesFit) PrepareScores(pod *corev1.Pod, _ *scheduler.Snapshot, _ []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	of := orCPUAndMemory(f.Scoring.Resources)
	wanted := nonZero(pod, of)
	return scheduler.PreparedScores{Score: func(n *scheduler.NodeInfo) int64 { return f.Scoring.score(wanted, of, n) }}, nil
}
