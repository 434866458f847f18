package whatif

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Fit is how many of a pod fit.
type Fit struct {
	Count int            // of the pods for which there is room
	Nodes map[string]int // how many of them go to which node
	// Err is why there is no room for one more; nil if as many fit as were asked for.
	Err error
}

// Fits returns how many more pods like one would find a node, at most so many, without preemption.
func (w *World) Fits(pod *corev1.Pod, most int) Fit {
	w = w.Fork()
	fit := Fit{Nodes: map[string]int{}}
	p, err := w.profile(pod)
	if err != nil {
		fit.Err = err
		return fit
	}
	for fit.Count < most {
		one := copyOf(pod, fit.Count+1)
		node, err := p.planner.Place(one, w.Snapshot())
		if err != nil {
			fit.Err = err
			break
		}
		w.SetPod(at(one, node))
		fit.Count++
		fit.Nodes[node]++
	}
	return fit
}

// copyOf returns a pending pod like another.
func copyOf(pod *corev1.Pod, number int) *corev1.Pod {
	c := pending(pod)
	c.Name = fmt.Sprintf("%s-copy-%d", pod.Name, number)
	c.UID = types.UID("copy of " + pod.Namespace + "/" + c.Name)
	return c
}

// Loss is what happens when nodes go.
type Loss struct {
	// Gone are the pods that go with their nodes: those of daemon sets, and static ones.
	Gone []*corev1.Pod
	// Moved are the pods that find another node, and Pending those that do not: pods of the nodes that went, and pods that they
	// preempted.
	Moved, Pending []Placement
}

// Without returns what happens if nodes go and the controllers of their pods make these again. It fails with ErrNode.
func (w *World) Without(ctx context.Context, nodes ...string) (Loss, error) {
	w = w.Fork()
	var loss Loss
	var waiting []Placement
	for _, name := range nodes {
		pods, err := w.RemoveNode(name)
		if err != nil {
			return Loss{}, err
		}
		for _, p := range pods {
			if staysWithNode(p) {
				loss.Gone = append(loss.Gone, p)
			} else {
				waiting = append(waiting, Placement{Pod: pending(p), From: name})
			}
		}
	}
	for _, p := range w.placeAll(ctx, waiting) {
		if p.Err == nil {
			loss.Moved = append(loss.Moved, p)
		} else {
			loss.Pending = append(loss.Pending, p)
		}
	}
	return loss, nil
}

// staysWithNode reports whether a pod is for its node alone.
func staysWithNode(pod *corev1.Pod) bool {
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// Need is what nodes of one shape would do for pending pods.
type Need struct {
	Shape *corev1.Node // which is what the nodes are like
	// Nodes is how many nodes of this shape help; more would not.
	Nodes int
	// Pending are the pods that still find no node.
	Pending []Placement
}

// Missing returns for each shape of node how many of them it takes, at most so many, until pods find nodes, or until another
// one does not help. Pods are placed in the world as it is first.
func (w *World) Missing(ctx context.Context, pods []*corev1.Pod, shapes []*corev1.Node, most int) []Need {
	w = w.Fork()
	before := w.left(ctx, pods)
	needs := make([]Need, 0, len(shapes))
	for _, shape := range shapes {
		need, fork := Need{Shape: shape, Pending: before}, w.Fork()
		for len(need.Pending) > 0 && need.Nodes < most {
			fork.SetNode(another(shape, need.Nodes+1))
			waiting := make([]*corev1.Pod, len(need.Pending))
			for i, p := range need.Pending {
				waiting[i] = p.Pod
			}
			left := fork.left(ctx, waiting)
			if len(left) >= len(waiting) {
				break
			}
			need.Nodes, need.Pending = need.Nodes+1, left
		}
		needs = append(needs, need)
	}
	return needs
}

// left places pods and returns those that find no node.
func (w *World) left(ctx context.Context, pods []*corev1.Pod) []Placement {
	return slices.DeleteFunc(w.PlaceAll(ctx, pods), func(p Placement) bool { return p.Err == nil })
}

// another returns a node of a shape.
func another(shape *corev1.Node, number int) *corev1.Node {
	n := shape.DeepCopy()
	n.Name = fmt.Sprintf("%s-more-%d", shape.Name, number)
	if _, ok := n.Labels[corev1.LabelHostname]; ok {
		n.Labels[corev1.LabelHostname] = n.Name
	}
	return n
}

// Shapes returns a node for each shape of the world's nodes, as it would be when it joins: what they offer, their labels
// without that of their host's name, and their taints without those of their condition. They are in the order of their names.
func (w *World) Shapes() []*corev1.Node {
	var shapes []*corev1.Node
	for _, n := range w.Snapshot().Nodes() {
		shape := fresh(n.Node)
		if !slices.ContainsFunc(shapes, func(other *corev1.Node) bool { return sameShape(shape, other) }) {
			shapes = append(shapes, shape)
		}
	}
	return shapes
}

// fresh returns a node as it joins.
func fresh(node *corev1.Node) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: maps.Clone(node.Labels)}}
	for _, t := range node.Spec.Taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			n.Spec.Taints = append(n.Spec.Taints, t)
		}
	}
	n.Status.Capacity, n.Status.Allocatable = node.Status.Capacity, node.Status.Allocatable
	n.Status.DeclaredFeatures, n.Status.NodeInfo = node.Status.DeclaredFeatures, node.Status.NodeInfo
	return n
}

func sameShape(a, b *corev1.Node) bool {
	without := func(n *corev1.Node) map[string]string {
		labels := maps.Clone(n.Labels)
		delete(labels, corev1.LabelHostname)
		return labels
	}
	return maps.Equal(without(a), without(b)) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable) &&
		slices.Equal(a.Status.DeclaredFeatures, b.Status.DeclaredFeatures)
}
