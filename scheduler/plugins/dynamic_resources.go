package plugins

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/devices"
)

// DynamicResources places pods where the devices of their resource claims are, or can be, and has devices allocated and
// reserved for the pod before it is bound (KEP-4381). Of nodes with a choice of devices, those score best that have the
// earlier alternatives of a request. If no node can take the pod, it takes devices back that no other pod has and that
// cannot be used where the pod could go.
//
// Without Devices, it refuses pods with claims. Extended resources are left to NodeResourcesFit: they are not taken from
// devices whose class has an extendedResourceName.
type DynamicResources struct {
	Devices *devices.Devices
}

// Name returns "DynamicResources".
func (DynamicResources) Name() string { return "DynamicResources" }

// Holds keeps pods from being tried whose claims do not exist yet.
func (r DynamicResources) Holds(pod *corev1.Pod) *scheduler.Refusal {
	if r.Devices == nil || !devices.Uses(pod) {
		return nil
	}
	return refusalOf(r.Devices.Exist(pod))
}

// refusalOf returns the refusal for an error: what it refuses, or that it failed.
func refusalOf(err error) *scheduler.Refusal {
	var refusal *scheduler.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal):
		return refusal
	}
	return &scheduler.Refusal{Unresolvable: true, Err: err}
}

// Check checks where the pod's devices are, or could be.
func (r DynamicResources) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	prepared, err := r.Prepare(pod, nil)
	switch {
	case err != nil:
		return &scheduler.Refusal{Err: err}
	case prepared.Check != nil:
		return prepared.Check(node)
	}
	return prepared.Refusal
}

// Prepare examines the pod's claims once. It skips pods without claims.
func (r DynamicResources) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	if !devices.Uses(pod) {
		return scheduler.Prepared{Skip: true}, nil
	}
	if r.Devices == nil {
		return scheduler.Prepared{Refusal: unsupportedClaim(pod)}, nil
	}
	claims, err := r.Devices.Of(pod)
	if refusal := refusalOf(err); refusal != nil {
		return scheduler.Prepared{Refusal: refusal}, refusal.Err
	}
	if claims.None() {
		return scheduler.Prepared{Skip: true}, nil
	}
	return scheduler.ByNode(func(n *scheduler.NodeInfo) *scheduler.Refusal {
		_, err := claims.Find(n.Node)
		return refusalOf(err)
	}), nil
}

// unsupportedClaim refuses a pod for its first claim, or the template of it.
func unsupportedClaim(pod *corev1.Pod) *scheduler.Refusal {
	claim := pod.Spec.ResourceClaims[0]
	reason := fmt.Sprintf("pod requires a resourceclaim for %q, which this scheduler does not support", claim.Name)
	if name := claim.ResourceClaimName; name != nil {
		reason = fmt.Sprintf("pod requires resourceclaim %q, which this scheduler does not support", *name)
	}
	return &scheduler.Refusal{Reasons: []string{reason}, Unresolvable: true}
}

// Score returns how well requests with alternatives are met on the node.
func (r DynamicResources) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	prepared, err := r.PrepareScores(pod, nil, nil)
	if err != nil || prepared.Skip {
		return 0
	}
	return prepared.Score(node)
}

// PrepareScores examines the pod's claims once. It skips pods without a request that has alternatives.
func (r DynamicResources) PrepareScores(pod *corev1.Pod, _ *scheduler.Snapshot, _ []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	if r.Devices == nil || !devices.Uses(pod) {
		return scheduler.PreparedScores{Skip: true}, nil
	}
	claims, err := r.Devices.Of(pod)
	if err != nil || !claims.Ranked() {
		return scheduler.PreparedScores{Skip: true}, err
	}
	return scheduler.PreparedScores{Score: func(n *scheduler.NodeInfo) int64 {
		found, err := claims.Find(n.Node)
		if err != nil {
			return 0
		}
		return claims.Score(found)
	}}, nil
}

// Normalize scales the scores by the best.
func (DynamicResources) Normalize(_ *corev1.Pod, scores []int64) { scheduler.Scale(scores, false) }

// Preempt takes the devices of one claim back, if that may help. It names no victims, and leaves the rest to the next
// preemptor.
func (r DynamicResources) Preempt(ctx context.Context, t *scheduler.Trial) (*scheduler.Nomination, error) {
	if r.Devices == nil || !devices.Uses(t.Pod()) {
		return nil, scheduler.Refuse()
	}
	var nodes []*corev1.Node
	for _, v := range t.Decision().Verdicts {
		if v.RefusedBy == r.Name() {
			if info, _ := t.Node(v.Node); info != nil {
				nodes = append(nodes, info.Node)
			}
		}
	}
	released, err := r.Devices.Release(ctx, t.Pod(), nodes)
	switch {
	case err != nil:
		return nil, err
	case released:
		return nil, scheduler.Refuse("deallocation of ResourceClaim completed")
	}
	return nil, scheduler.Refuse()
}

// SkipReserve skips pods without claims.
func (r DynamicResources) SkipReserve(pod *corev1.Pod) bool {
	return r.Devices == nil || !devices.Uses(pod)
}

// Reserve reserves devices for the claims without any, in memory.
func (r DynamicResources) Reserve(_ context.Context, pod *corev1.Pod, node string) (undo func(), err error) {
	if r.SkipReserve(pod) {
		return nil, nil
	}
	return r.Devices.Reserve(pod, node)
}

// SkipPreBind skips pods for which nothing is reserved.
func (r DynamicResources) SkipPreBind(pod *corev1.Pod, _ string) bool {
	return r.Devices == nil || !r.Devices.Reserved(pod)
}

// PreBind writes what is reserved and waits until the devices are ready.
func (r DynamicResources) PreBind(ctx context.Context, pod *corev1.Pod, node string) error {
	if r.Devices == nil {
		return nil
	}
	return r.Devices.Bind(ctx, pod, node)
}

// Events returns added and updated nodes, changed claims and devices, and that the pod got a claim.
func (DynamicResources) Events() scheduler.EventKind {
	return scheduler.NodeAdded | scheduler.NodeUpdated | scheduler.PodUpdated |
		scheduler.ObjectAdded | scheduler.ObjectUpdated | scheduler.ObjectDeleted
}

// MayHelp reports whether the event is about a claim of the pod, or about which devices there are and which are free.
func (r DynamicResources) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	switch e.Kind {
	case scheduler.NodeAdded:
		return true
	case scheduler.NodeUpdated:
		return e.Change&(scheduler.NodeLabelsChanged|scheduler.NodeAllocatableChanged) != 0
	case scheduler.PodUpdated:
		return r.Devices != nil && r.Devices.Exist(e.Pod) == nil && e.Change&scheduler.PodClaimsChanged != 0
	}
	if r.Devices == nil {
		return false
	}
	switch obj := e.Object.(type) {
	case nil:
		if old, ok := e.OldObject.(*resourcev1.ResourceClaim); ok {
			return old.Status.Allocation != nil
		}
		_, rule := e.OldObject.(*resourcev1.DeviceTaintRule)
		return rule
	case *resourcev1.ResourceClaim:
		return r.claimMayHelp(pod, e, obj)
	case *resourcev1.DeviceClass, *resourcev1.ResourceSlice, *resourcev1.DeviceTaintRule:
		return true
	}
	return false
}

func (r DynamicResources) claimMayHelp(pod *corev1.Pod, e scheduler.Event, is *resourcev1.ResourceClaim) bool {
	was, _ := e.OldObject.(*resourcev1.ResourceClaim)
	switch {
	case r.Devices.Exist(pod) != nil:
		return false
	case was != nil && was.Status.Allocation != nil && is.Status.Allocation == nil:
		return true
	case !r.Devices.Names(pod, is):
		return false
	}
	return was == nil || !equality.Semantic.DeepEqual(&was.Status, &is.Status)
}
