package devicetainteviction

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type (
	claim = *resourcev1.ResourceClaim
	rule  = *resourcev1.DeviceTaintRule
)

// fate is when a pod must go, and the rules among the reasons.
type fate struct {
	at    time.Time
	rules []rule
}

// join adds further reasons; the earliest time counts.
func (f *fate) join(other *fate) *fate {
	switch {
	case f == nil:
		return other
	case other == nil:
		return f
	}
	joined := &fate{f.at, append([]rule(nil), f.rules...)}
	if other.at.Before(joined.at) {
		joined.at = other.at
	}
	for _, r := range other.rules {
		if !joined.because(r.UID) {
			joined.rules = append(joined.rules, r)
		}
	}
	return joined
}

// because reports whether a rule is among the reasons.
func (f *fate) because(uid types.UID) bool {
	for _, r := range f.rules {
		if r.UID == uid {
			return true
		}
	}
	return false
}

// world is what decides.
type world struct {
	claim func(namespace, name string) (claim, bool)
	// pool returns all slices of a pool.
	pool  func(driver, pool string) []*resourcev1.ResourceSlice
	rules []rule
}

// fateOfPod returns nil if a pod may stay.
func (w *world) fateOfPod(pod *corev1.Pod) *fate {
	if pod.Spec.NodeName == "" {
		return nil
	}
	var f *fate
	for i := range pod.Spec.ResourceClaims {
		name, made := claimOf(pod, &pod.Spec.ResourceClaims[i]) // no claim has an empty name
		c, ok := w.claim(pod.Namespace, name)
		if !ok || c.Status.Allocation == nil || made && !metav1.IsControlledBy(c, pod) || !reserved(c, pod) {
			continue
		}
		f = f.join(w.fateOfClaim(c))
	}
	return f
}

// claimOf returns the name of the claim behind a pod's reference, if it has one, and whether it was made for the pod.
func claimOf(pod *corev1.Pod, ref *corev1.PodResourceClaim) (name string, made bool) {
	if ref.ResourceClaimName != nil {
		return *ref.ResourceClaimName, false
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.Name == ref.Name && s.ResourceClaimName != nil {
			return *s.ResourceClaimName, true
		}
	}
	return "", true
}

func reserved(c claim, pod *corev1.Pod) bool {
	for _, r := range c.Status.ReservedFor {
		if r.UID == pod.UID {
			return true
		}
	}
	return false
}

// fateOfClaim returns when the pods that use an allocated claim must go.
func (w *world) fateOfClaim(c claim) *fate {
	var f *fate
	for i := range c.Status.Allocation.Devices.Results {
		result := &c.Status.Allocation.Devices.Results[i]
		if device := current(w.pool(result.Driver, result.Pool), result.Device); device != nil {
			for j := range device.Taints {
				f = f.join(fateOf(&device.Taints[j], result.Tolerations, nil))
			}
		}
		for _, r := range w.rules {
			if selects(r, result.Driver, result.Pool, result.Device) {
				f = f.join(fateOf(&r.Spec.Taint, result.Tolerations, r))
			}
		}
	}
	return f
}

// fateOf returns what one taint of a device, by a rule or by its driver, means.
func fateOf(t *resourcev1.DeviceTaint, tolerations []resourcev1.DeviceToleration, by rule) *fate {
	if t.Effect != resourcev1.DeviceTaintEffectNoExecute {
		return nil
	}
	f := &fate{}
	if t.TimeAdded != nil {
		f.at = t.TimeAdded.Time
	}
	if by != nil {
		f.rules = []rule{by}
	}
	lowest := time.Duration(-1)
	for i := range tolerations {
		if tolerations[i].Effect != resourcev1.DeviceTaintEffectNoExecute || !tolerates(&tolerations[i], t) {
			continue
		}
		if tolerations[i].TolerationSeconds == nil {
			return nil
		}
		if wait := time.Duration(max(*tolerations[i].TolerationSeconds, 0)) * time.Second; lowest < 0 || wait < lowest {
			lowest = wait
		}
	}
	f.at = f.at.Add(max(lowest, 0))
	return f
}

func tolerates(t *resourcev1.DeviceToleration, taint *resourcev1.DeviceTaint) bool {
	if t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", resourcev1.DeviceTolerationOpEqual:
		return t.Value == taint.Value
	case resourcev1.DeviceTolerationOpExists:
		return true
	}
	return false
}

// newest returns the slices of the newest generation of a pool.
func newest(all []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	var found []*resourcev1.ResourceSlice
	for _, s := range all {
		switch {
		case len(found) == 0 || s.Spec.Pool.Generation > found[0].Spec.Pool.Generation:
			found = []*resourcev1.ResourceSlice{s}
		case s.Spec.Pool.Generation == found[0].Spec.Pool.Generation:
			found = append(found, s)
		}
	}
	return found
}

// current returns a device of a pool as the newest slices describe it, or nil.
func current(all []*resourcev1.ResourceSlice, name string) *resourcev1.Device {
	for _, s := range newest(all) {
		for i := range s.Spec.Devices {
			if s.Spec.Devices[i].Name == name {
				return &s.Spec.Devices[i]
			}
		}
	}
	return nil
}

func selects(r rule, driver, pool, device string) bool {
	s := r.Spec.DeviceSelector
	matches := func(want *string, have string) bool { return want == nil || *want == have }
	return s != nil && matches(s.Driver, driver) && matches(s.Pool, pool) && matches(s.Device, device)
}

// counts are what a rule concerns.
type counts struct {
	published, allocated int // devices
	pods, namespaces     int // that are to be evicted, or would be
	evicted              int // pods
}

// condition returns the condition of a rule.
func condition(r rule, n counts) metav1.Condition {
	c := metav1.Condition{
		Type: resourcev1.DeviceTaintConditionEvictionInProgress, Status: metav1.ConditionFalse, ObservedGeneration: r.Generation,
	}
	switch r.Spec.Taint.Effect {
	case resourcev1.DeviceTaintEffectNoExecute:
		switch {
		case n.pods > 0:
			c.Status, c.Reason = metav1.ConditionTrue, "PodsPendingEviction"
			c.Message = many(n.pods, "pod needs", "pods need") + " to be evicted in " + many(n.namespaces, "namespace.", "different namespaces.")
		case n.evicted > 0:
			c.Reason = "Completed"
		default:
			c.Reason = "NotStarted"
		}
	case resourcev1.DeviceTaintEffectNone:
		c.Reason = "NoEffect"
		c.Message = many(n.published, "published device", "published devices") + " selected. " +
			many(n.allocated, "allocated device", "allocated devices") + " selected. " +
			many(n.pods, "pod", "pods") + " would be evicted in " + many(n.namespaces, "namespace", "different namespaces") +
			" if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
	default:
		c.Reason, c.Message = "OtherEffect", "Eviction only happens for the NoExecute effect."
	}
	if n.evicted > 0 {
		if c.Message != "" {
			c.Message += " "
		}
		c.Message += many(n.evicted, "pod", "pods") + " evicted since starting the controller."
	}
	return c
}

func many(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
