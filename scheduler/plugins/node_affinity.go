package plugins

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// NodeAffinity refuses nodes that spec.nodeSelector or the required node affinity do not select: "node(s)
// didn't match Pod's node affinity/selector". If the affinity selects nodes by metadata.name only, just those
// are checked, and all others are refused together. It prefers nodes by the sum of the weights of the matching
// preferred terms, and skips pods without such terms. Preferred terms that cannot be parsed fail the attempt.
//
// Added is an affinity of the cluster's administrator that every pod of the profile has in addition: "node(s) didn't match
// scheduler-enforced node affinity".
type NodeAffinity struct {
	Added *corev1.NodeAffinity // what every pod has in addition
}

// Name returns "NodeAffinity".
func (NodeAffinity) Name() string { return "NodeAffinity" }

// Check matches the node's labels and name. A term of the pod that cannot be parsed matches nothing.
func (n NodeAffinity) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	added, err := n.added()
	if err != nil {
		return &scheduler.Refusal{Err: err}
	}
	return selects(added, nodeaffinity.GetRequiredNodeAffinity(pod), node.Node)
}

// added returns what all pods require, nil if there is nothing.
func (n NodeAffinity) added() (*nodeaffinity.NodeSelector, error) {
	if n.Added == nil || n.Added.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil, nil
	}
	return nodeaffinity.NewNodeSelector(n.Added.RequiredDuringSchedulingIgnoredDuringExecution)
}

func selects(added *nodeaffinity.NodeSelector, affinity nodeaffinity.RequiredNodeAffinity, node *corev1.Node) *scheduler.Refusal {
	if added != nil && !added.Match(node) {
		return &scheduler.Refusal{Reasons: []string{"node(s) didn't match scheduler-enforced node affinity"}, Unresolvable: true}
	}
	if match, _ := affinity.Match(node); match { // the error then concerns terms that do not match
		return nil
	}
	return &scheduler.Refusal{Reasons: []string{"node(s) didn't match Pod's node affinity/selector"}, Unresolvable: true}
}

// Prepare parses the terms once.
func (n NodeAffinity) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	var required *corev1.NodeSelector
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		required = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	added, err := n.added()
	if err != nil || added == nil && required == nil && pod.Spec.NodeSelector == nil {
		return scheduler.Prepared{Skip: true}, err
	}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	prepared := scheduler.Prepared{
		Check: func(n *scheduler.NodeInfo) *scheduler.Refusal { return selects(added, affinity, n.Node) },
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

// nodeNames returns the only nodes that terms can select, or nil if one of the terms does not restrict the
// names.
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

// Signature appends the node selector and the affinity.
func (NodeAffinity) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.NodeAffinity(b, pod), true
}

// Events returns added and updated nodes.
func (NodeAffinity) Events() scheduler.EventKind { return scheduler.NodeAdded | scheduler.NodeUpdated }

// MayHelp reports whether a node matches that did not match before.
func (n NodeAffinity) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	if added, err := n.added(); err != nil || added != nil && !added.Match(e.Node) {
		return err != nil
	}
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
	if n.Added != nil {
		return true // it may not have matched what was added
	}
	matched, _ := affinity.Match(e.OldNode) // the terms were parsed before
	return !matched
}

// Score returns the sum of the weights of the matching terms.
func (n NodeAffinity) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	prepared, err := n.PrepareScores(pod, nil, nil)
	if err != nil || prepared.Skip {
		return 0
	}
	return prepared.Score(node)
}

func preferred(a *corev1.NodeAffinity) []corev1.PreferredSchedulingTerm {
	if a == nil {
		return nil
	}
	return a.PreferredDuringSchedulingIgnoredDuringExecution
}

// PrepareScores parses the terms once, and fails if that is not possible.
func (n NodeAffinity) PrepareScores(pod *corev1.Pod, _ *scheduler.Snapshot, _ []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	var own []corev1.PreferredSchedulingTerm
	if a := pod.Spec.Affinity; a != nil {
		own = preferred(a.NodeAffinity)
	}
	added := preferred(n.Added)
	if own == nil && len(added) == 0 {
		return scheduler.PreparedScores{Skip: true}, nil
	}
	parsed, err := nodeaffinity.NewPreferredSchedulingTerms(slices.Concat(added, own))
	if err != nil {
		return scheduler.PreparedScores{}, err
	}
	return scheduler.PreparedScores{Score: func(n *scheduler.NodeInfo) int64 { return parsed.Score(n.Node) }}, nil
}

// Normalize scales the highest sum to 100.
func (NodeAffinity) Normalize(_ *corev1.Pod, scores []int64) { scheduler.Scale(scores, false) }
