package daemonset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// generationLabel holds in pods the generation of the template they were made from.
const generationLabel = "pod-template-generation"

// view is what is known of a set when decisions are made.
type view struct {
	set   *appsv1.DaemonSet
	nodes []*corev1.Node
	place placement
	now   time.Time
	// hash and generation tell in labels of pods that they were made from the set's template. Older servers counted
	// templates; generation is empty if the set does not tell its own.
	hash, generation string
}

func newView(set *appsv1.DaemonSet, nodes []*corev1.Node, hash string, now time.Time) view {
	return view{
		set: set, nodes: nodes, place: placementOf(&set.Spec.Template), now: now, hash: hash, generation: generation(set),
	}
}

// byNode are the pods of a set by the name of the node they are on or were made for.
type byNode map[string][]*corev1.Pod

// group leaves out pods that have ended and are being deleted: there is nothing left to do about them.
func group(all []*corev1.Pod) byNode {
	out := byNode{}
	for _, pod := range all {
		if pods.Terminal(pod) && pod.DeletionTimestamp != nil {
			continue
		}
		if node, ok := nodeOf(pod); ok {
			out[node] = append(out[node], pod)
		}
	}
	return out
}

// generation returns how often the set's template has changed, or "" if the set does not tell.
func generation(set *appsv1.DaemonSet) string {
	text, ok := set.Annotations[appsv1.DeprecatedTemplateGeneration]
	if !ok {
		return ""
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// updated reports whether a pod was made from the set's template.
func (v view) updated(pod *corev1.Pod) bool {
	if v.hash != "" && pod.Labels[appsv1.ControllerRevisionHashLabelKey] == v.hash {
		return true
	}
	return v.generation != "" && pod.Labels[generationLabel] == v.generation
}

func (v view) available(pod *corev1.Pod) bool {
	return pods.Available(pod, v.set.Spec.MinReadySeconds, v.now)
}

// plan is what is to be done.
type plan struct {
	create []string // a pod on each of these nodes
	remove []string // the pods with these names
	notes  []note
	retry  time.Duration // when failed pods that stay for now may be deleted; 0 if there are none
}

// note is an event of a set.
type note struct{ eventType, reason, message string }

// manage decides which nodes get a pod and which pods go, regardless of updates. mayDelete reports whether a failed pod of
// a node may be deleted now, or else when.
func (v view) manage(there byNode, mayDelete func(node string) (time.Duration, bool)) plan {
	var p plan
	for _, node := range v.nodes {
		run, stay := v.place.on(node)
		here, some := there[node.Name]
		switch {
		case run && !some:
			p.create = append(p.create, node.Name)
		case stay:
			running := p.ended(here, node.Name, mayDelete)
			if surges(v.set) {
				v.keepTwo(&p, node.Name, running, run)
			} else {
				p.removeAll(after(1, oldestFirst(running)))
			}
		default:
			p.removeAll(slices.DeleteFunc(slices.Clone(here), deleted))
		}
	}
	p.removeAll(v.lost(there))
	return p
}

// lost returns pods made for nodes that are gone. Nobody else deletes them as long as they are not bound.
func (v view) lost(there byNode) []*corev1.Pod {
	known := map[string]bool{}
	for _, node := range v.nodes {
		known[node.Name] = true
	}
	var lost []*corev1.Pod
	for _, node := range slices.Sorted(maps.Keys(there)) {
		for _, pod := range there[node] {
			if !known[node] && pod.Spec.NodeName == "" && !deleted(pod) {
				lost = append(lost, pod)
			}
		}
	}
	return lost
}

func deleted(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

func (p *plan) removeAll(all []*corev1.Pod) {
	for _, pod := range all {
		p.remove = append(p.remove, pod.Name)
	}
}

func after[E any](n int, all []E) []E { return all[min(n, len(all)):] }

// ended removes the pods of a node that have ended, and returns those that run.
func (p *plan) ended(here []*corev1.Pod, node string, mayDelete func(node string) (time.Duration, bool)) (running []*corev1.Pod) {
	for _, pod := range here {
		switch {
		case deleted(pod):
		case pod.Status.Phase == corev1.PodFailed:
			// Without a delay, the kubelet and this controller may fight over a pod that the kubelet rejects.
			if retry, ok := mayDelete(node); !ok {
				p.retry = soonest(p.retry, retry)
				continue
			}
			p.remove = append(p.remove, pod.Name)
			p.notes = append(p.notes, note{corev1.EventTypeWarning, "FailedDaemonPod",
				fmt.Sprintf("Found failed daemon pod %s/%s on node %s, will try to kill it", pod.Namespace, pod.Name, node)})
		case pod.Status.Phase == corev1.PodSucceeded:
			p.remove = append(p.remove, pod.Name)
			p.notes = append(p.notes, note{corev1.EventTypeNormal, "SucceededDaemonPod",
				fmt.Sprintf("Found succeeded daemon pod %s/%s on node %s, will try to delete it", pod.Namespace, pod.Name, node)})
		default:
			running = append(running, pod)
		}
	}
	return running
}

// keepTwo leaves two pods on a node only while the old one is ready and the new one is not available yet.
func (v view) keepTwo(p *plan, node string, running []*corev1.Pod, run bool) {
	if len(running) == 0 && run {
		p.create = append(p.create, node)
	}
	var young, old *corev1.Pod
	for _, pod := range oldestFirst(running) {
		switch current := pod.Labels[appsv1.ControllerRevisionHashLabelKey] == v.hash; {
		case current && young == nil:
			young = pod
		case !current && old == nil:
			old = pod
		default:
			p.remove = append(p.remove, pod.Name)
		}
	}
	if young != nil && old != nil && (!pods.Ready(old) || v.available(young)) {
		p.remove = append(p.remove, old.Name)
	}
}

// oldestFirst sorts bound pods before others, then by age.
func oldestFirst(all []*corev1.Pod) []*corev1.Pod {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *corev1.Pod) int {
		if bound := a.Spec.NodeName != ""; bound != (b.Spec.NodeName != "") {
			if bound {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// soonest returns the lesser of two delays; 0 is none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// status counts the nodes. It leaves out the observed generation and the collisions.
func (v view) status(there byNode) appsv1.DaemonSetStatus {
	var s appsv1.DaemonSetStatus
	for _, node := range v.nodes {
		run, _ := v.place.on(node)
		here := oldestFirst(there[node.Name])
		if !run {
			if len(here) > 0 {
				s.NumberMisscheduled++
			}
			continue
		}
		s.DesiredNumberScheduled++
		if len(here) == 0 {
			continue
		}
		s.CurrentNumberScheduled++
		pod := here[0]
		if pods.Ready(pod) {
			s.NumberReady++
		}
		if v.available(pod) {
			s.NumberAvailable++
		}
		if v.updated(pod) {
			s.UpdatedNumberScheduled++
		}
	}
	s.NumberUnavailable = s.DesiredNumberScheduled - s.NumberAvailable
	return s
}
