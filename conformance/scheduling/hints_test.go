package scheduling_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/scheduler"
)

// occurrence is an event as both sides are told of it.
type occurrence struct {
	what     string
	theirs   []fwk.ClusterEvent
	old, new any // untyped nil for none
	ours     scheduler.Event
}

// TestTopologyHints compares which events are a reason to try a pod again that a plugin refused.
func TestTopologyHints(t *testing.T) {
	seen := tally{}
	each(t, func(t *testing.T, seed uint64) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 5))}
		w := newWorld(t, g.topology(), "PodTopologySpread", "InterPodAffinity")
		for _, pod := range w.pending {
			for range 6 {
				w.compareHints(pod, g.topologyEvent(pod), seen)
			}
		}
	})
	seen.log(t)
}

// TestDeviceHints does so for resource claims.
func TestDeviceHints(t *testing.T) {
	seen := tally{}
	each(t, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			g := &generator{Rand: rand.New(rand.NewPCG(seed, 6))}
			w := newWorld(t, g.devices(), devicesPlugin)
			synctest.Wait()
			for _, pod := range w.pending {
				for range 6 {
					w.compareHints(pod, w.deviceEvent(g, pod), seen)
				}
			}
		})
	})
	seen.log(t)
}

// compareHints asks both sides' plugins whether the event may help the pod. A target's event is about its new state.
func (w *world) compareHints(pod *corev1.Pod, o occurrence, seen tally) {
	w.Helper()
	if o.ours.Kind == scheduler.PodUpdated {
		pod = o.ours.Pod
	}
	for _, e := range w.profile.Plugins {
		name := e.Plugin.Name()
		theirs, ours := w.theirHint(name, pod, o), w.profile.MayHelp(pod, []string{name}, o.ours)
		if theirs != ours {
			w.Fatalf("%s, refused by %s, %s:\nupstream %t, keelson %t\npod %+v\nbefore %+v\nafter %+v", pod.Name, name, o.what, theirs, ours, pod, o.old, o.new)
		}
		seen[fmt.Sprintf("%s, %s: %t", name, o.what, ours)]++
	}
}

func (w *world) theirHint(plugin string, pod *corev1.Pod, o occurrence) bool {
	w.Helper()
	for _, e := range w.theirs.EnqueueExtensions() {
		if e.Name() != plugin {
			continue
		}
		registered, err := e.EventsToRegister(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		for _, r := range registered {
			for _, event := range o.theirs {
				if !framework.MatchClusterEvents(r.Event, event) {
					continue
				}
				if r.QueueingHintFn == nil {
					return true
				}
				hint, err := r.QueueingHintFn(klog.Background(), pod, o.old, o.new)
				if err != nil || hint == fwk.Queue {
					return true
				}
			}
		}
	}
	return false
}

func (g *generator) topologyEvent(pod *corev1.Pod) occurrence {
	switch g.IntN(6) {
	case 0, 1, 2:
		return g.podEvent()
	case 3:
		old, is := g.place(1), g.place(1)
		return nodeEvent(pick(g, nil, old), pick(g, nil, is))
	case 4:
		old := g.place(1)
		is := old.DeepCopy()
		switch g.IntN(3) {
		case 0:
			is.Labels[pick(g, keys()...)] = pick(g, "z1", "a", "r2")
		case 1:
			is.Spec.Taints = g.place(1).Spec.Taints
		case 2:
			is.Spec.Unschedulable = !is.Spec.Unschedulable
		}
		return nodeEvent(old, is)
	}
	is := pod.DeepCopy()
	if g.chance(0.6) {
		is.Labels = g.labels()
	}
	if g.chance(0.4) {
		is.Spec.Tolerations = append(is.Spec.Tolerations, corev1.Toleration{Key: "other", Operator: corev1.TolerationOpExists})
	}
	return targetEvent(pod, is)
}

// podEvent is about another pod that is on a node.
func (g *generator) podEvent() occurrence {
	p := g.social("other")
	p.Spec.NodeName = "node-1"
	switch g.IntN(3) {
	case 0:
		return occurrence{what: "a pod came", theirs: []fwk.ClusterEvent{framework.EventAssignedPodAdd}, new: p,
			ours: scheduler.Event{Kind: scheduler.AssignedPodAdded, Pod: p}}
	case 1:
		if g.chance(0.3) { // it was only expected there
			p.Spec.NodeName, p.Status.NominatedNodeName = "", pick(g, "node-1", "")
		}
		return occurrence{what: "a pod went", theirs: []fwk.ClusterEvent{framework.EventAssignedPodDelete}, old: p,
			ours: scheduler.Event{Kind: scheduler.AssignedPodDeleted, OldPod: p}}
	}
	is := p.DeepCopy()
	is.Labels = g.labels()
	if g.chance(0.2) {
		is.Spec.Tolerations = g.social("x").Spec.Tolerations
	}
	return occurrence{what: "a pod changed", theirs: framework.PodSchedulingPropertiesChange(is, p, false), old: p, new: is,
		ours: scheduler.Event{Kind: scheduler.AssignedPodUpdated, Change: scheduler.PodChange(p, is), OldPod: p, Pod: is}}
}

func targetEvent(old, is *corev1.Pod) occurrence {
	return occurrence{what: "the pod changed", theirs: framework.PodSchedulingPropertiesChange(is, old, true), old: old, new: is,
		ours: scheduler.Event{Kind: scheduler.PodUpdated, Change: scheduler.PodChange(old, is), OldPod: old, Pod: is}}
}

func nodeEvent(old, is *corev1.Node) occurrence {
	switch {
	case is == nil && old == nil:
		return occurrence{what: "nothing"}
	case old == nil:
		return occurrence{what: "a node came", theirs: []fwk.ClusterEvent{{Resource: fwk.Node, ActionType: fwk.Add}}, new: is,
			ours: scheduler.Event{Kind: scheduler.NodeAdded, Node: is}}
	case is == nil:
		return occurrence{what: "a node went", theirs: []fwk.ClusterEvent{{Resource: fwk.Node, ActionType: fwk.Delete}}, old: old,
			ours: scheduler.Event{Kind: scheduler.NodeDeleted, OldNode: old}}
	}
	return occurrence{what: "a node changed", theirs: framework.NodeSchedulingPropertiesChange(is, old), old: old, new: is,
		ours: scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeChange(old, is), OldNode: old, Node: is}}
}

// deviceEvent is about what resource claims depend on.
func (w *world) deviceEvent(g *generator, pod *corev1.Pod) occurrence {
	switch g.IntN(8) {
	case 0:
		old, is := pick(g, w.nodes...), pick(g, w.nodes...)
		return nodeEvent(pick(g, nil, old), is)
	case 1:
		is := pod.DeepCopy()
		status := corev1.PodResourceClaimStatus{Name: "r", ResourceClaimName: pick(g, nil, ptr.To("claim-0"), ptr.To("claim-1"), ptr.To("none"))}
		is.Status.ResourceClaimStatuses = pick(g, nil, []corev1.PodResourceClaimStatus{status})
		if g.chance(0.2) {
			is.Labels = map[string]string{"a": "b"}
		}
		return targetEvent(pod, is)
	case 2:
		return objectEvent(g, "a class", fwk.DeviceClass, pick(g, w.devices.classes...))
	case 3:
		if len(w.devices.slices) > 0 {
			return objectEvent(g, "a slice", fwk.ResourceSlice, pick(g, w.devices.slices...))
		}
	}
	old := pick(g, w.devices.claims...)
	if g.chance(0.1) {
		old = old.DeepCopy()
		old.Name, old.UID = "another", types.UID("another")
	}
	switch g.IntN(4) {
	case 0:
		return changed(nil, old, "a claim", fwk.ResourceClaim)
	case 1:
		return changed(old, nil, "a claim", fwk.ResourceClaim)
	}
	is := old.DeepCopy()
	switch g.IntN(4) {
	case 0:
		is.Status.Allocation = nil
	case 1:
		is.Status.Allocation = &resourcev1.AllocationResult{}
	case 2:
		is.Finalizers = append(slices.Clip(is.Finalizers), "f")
	case 3:
		is.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Name: "x", UID: "x"}}
	}
	return changed(old, is, "a claim", fwk.ResourceClaim)
}

func objectEvent[T informer.Object](g *generator, what string, of fwk.EventResource, obj T) occurrence {
	var none T
	if g.chance(0.5) {
		return changed(none, obj, what, of)
	}
	return changed(obj, pick(g, obj, none), what, of)
}

func changed[T informer.Object](old, is T, what string, of fwk.EventResource) occurrence {
	var none T
	switch {
	case any(old) == any(none):
		return occurrence{what: what + " came", theirs: []fwk.ClusterEvent{{Resource: of, ActionType: fwk.Add}}, new: is,
			ours: scheduler.Event{Kind: scheduler.ObjectAdded, Object: is}}
	case any(is) == any(none):
		return occurrence{what: what + " went", theirs: []fwk.ClusterEvent{{Resource: of, ActionType: fwk.Delete}}, old: old,
			ours: scheduler.Event{Kind: scheduler.ObjectDeleted, OldObject: old}}
	}
	return occurrence{what: what + " changed", theirs: []fwk.ClusterEvent{{Resource: of, ActionType: fwk.Update}}, old: old, new: is,
		ours: scheduler.Event{Kind: scheduler.ObjectUpdated, OldObject: old, Object: is}}
}
