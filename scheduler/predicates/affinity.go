package predicates

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/internal/signature"
)

// NodeAffinity refuses nodes that spec.nodeSelector or the required node affinity do not
// select: "node(s) didn't match Pod's node affinity/selector". When the affinity selects nodes
// by metadata.name only those are looked at, and all others are refused together.
type NodeAffinity struct{}

// Name is "NodeAffinity".
func (NodeAffinity) Name() string { return "NodeAffinity" }

// Check matches the node's labels and name. A term that cannot be parsed matches nothing.
func (NodeAffinity) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	return selects(nodeaffinity.GetRequiredNodeAffinity(pod), node.Node)
}

func selects(affinity nodeaffinity.RequiredNodeAffinity, node *corev1.Node) *scheduler.Refusal {
	if match, _ := affinity.Match(node); match { // the error is about terms that do not match then
		return nil
	}
	return &scheduler.Refusal{Reasons: []string{"node(s) didn't match Pod's node affinity/selector"}, Unresolvable: true}
}

// Prepare parses the terms once.
func (NodeAffinity) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	var required *corev1.NodeSelector
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		required = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if required == nil && pod.Spec.NodeSelector == nil {
		return scheduler.Prepared{Skip: true}, nil
	}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	prepared := scheduler.Prepared{
		Check: func(n *scheduler.NodeInfo) *scheduler.Refusal { return selects(affinity, n.Node) },
	}
	if required == nil {
		return prepared, nil
	}
	names := nodeNames(required.NodeSelectorTerms)
	if names != nil && len(names) == 0 {
		prepared.Refusal = &scheduler.Refusal{Reasons: []string{"pod affinity terms conflict"}, Unresolvable: true}
	}
	prepared.Nodes = names
	return prepared, nil
}

// nodeNames are the only nodes that terms can select, because each names nodes; nil when one
// of them does not.
func nodeNames(terms []corev1.NodeSelectorTerm) []string {
	var all []string
	for _, term := range terms {
		var names []string
		limited := false
		for _, r := range term.MatchFields {
			if r.Key != metav1.ObjectNameField || r.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			if limited {
				names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(r.Values, n) })
			} else {
				names, limited = slices.Clone(r.Values), true
			}
		}
		if !limited {
			return nil
		}
		if all == nil {
			all = []string{}
		}
		all = append(all, names...)
	}
	return all
}

// Signature is the node selector and the affinity.
func (NodeAffinity) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.NodeAffinity(b, pod)
}

// Events are nodes that come or change.
func (NodeAffinity) Events() scheduler.EventKind { return scheduler.NodeAdded | scheduler.NodeUpdated }

// MayHelp asks whether a node matches that did not before.
func (n NodeAffinity) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	match, err := affinity.Match(e.Node)
	if err != nil {
		return true
	}
	if e.Kind == scheduler.NodeAdded {
		return match
	}
	if e.Change&scheduler.NodeLabelsChanged == 0 || !match {
		return false
	}
	matched, _ := affinity.Match(e.OldNode) // the terms could be parsed
	return !matched
}
