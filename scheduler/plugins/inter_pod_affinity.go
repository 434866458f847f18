package plugins

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/groups"
)

// InterPodAffinity refuses nodes by the affinity and anti-affinity that the pod requires to others ("node(s) didn't
// match pod affinity rules", "node(s) didn't match pod anti-affinity rules"), and by the anti-affinity that others
// require to it ("node(s) didn't satisfy existing pods anti-affinity rules"). Required affinity that no pod satisfies
// yet is satisfied by the pod itself, if its terms select it. It prefers nodes by the weights of the preferred terms,
// the pod's own and those of others, and of the affinity that others require.
//
// Without Groups, it knows no namespaces: it refuses pods whose required terms select namespaces by labels.
type InterPodAffinity struct {
	Groups *groups.Groups
	// HardPodAffinityWeight is the weight in scores of affinity that other pods require; nil means 1.
	HardPodAffinityWeight *int32
	// IgnorePreferredTermsOfExistingPods skips scoring pods without preferred terms of their own.
	IgnorePreferredTermsOfExistingPods bool
}

// Name returns "InterPodAffinity".
func (InterPodAffinity) Name() string { return "InterPodAffinity" }

// Cached implements scheduler.Cacher.
func (p InterPodAffinity) Cached() scheduler.Plugin { return p.cached() }

func (p InterPodAffinity) cached() *neighbours { return &neighbours{InterPodAffinity: p} }

// Check decides as if there were no other node.
func (p InterPodAffinity) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	prepared := p.cached().prepare(pod, []*scheduler.NodeInfo{node})
	switch {
	case prepared.Skip:
		return nil
	case prepared.Refusal != nil:
		return prepared.Refusal
	}
	return prepared.Check(node)
}

// Prepare counts the pods that matter.
func (p InterPodAffinity) Prepare(pod *corev1.Pod, s *scheduler.Snapshot) (scheduler.Prepared, error) {
	return p.cached().Prepare(pod, s)
}

// Score scores as if there were no other node.
func (p InterPodAffinity) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	nodes := []*scheduler.NodeInfo{node}
	prepared, err := p.cached().prepareScores(pod, nodes, nodes)
	if err != nil || prepared.Skip {
		return 0
	}
	return prepared.Score(node)
}

// PrepareScores adds up the weights by topology domain.
func (p InterPodAffinity) PrepareScores(pod *corev1.Pod, s *scheduler.Snapshot, feasible []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	return p.cached().PrepareScores(pod, s, feasible)
}

// Normalize maps the lowest sum to 0 and the highest to 100.
func (InterPodAffinity) Normalize(_ *corev1.Pod, scores []int64) {
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, s := range scores {
		least, most = min(least, s), max(most, s)
	}
	for i, s := range scores {
		scores[i] = 0
		if most > least {
			scores[i] = int64(float64(scheduler.MaxScore) * (float64(s-least) / float64(most-least)))
		}
	}
}

func (p InterPodAffinity) hardWeight() int64 { return int64(ptr.Deref(p.HardPodAffinityWeight, 1)) }

// Events returns new, relabelled and deleted pods, new labels of the pod, and new and relabelled nodes.
func (InterPodAffinity) Events() scheduler.EventKind {
	return scheduler.AssignedPodAdded | scheduler.AssignedPodUpdated | scheduler.AssignedPodDeleted |
		scheduler.PodUpdated | scheduler.NodeAdded | scheduler.NodeUpdated
}

// MayHelp reports whether another pod begins to match the pod's affinity or ends to match its anti-affinity, a pod with
// anti-affinity to it was deleted, the pod's labels changed, or a node came to a domain or left it.
func (InterPodAffinity) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	switch e.Kind {
	case scheduler.PodUpdated:
		return e.Change&scheduler.PodLabelsChanged != 0
	case scheduler.NodeUpdated:
		if e.Change&scheduler.NodeLabelsChanged == 0 {
			return false
		}
	case scheduler.AssignedPodUpdated:
		if e.Change&scheduler.PodLabelsChanged == 0 || !placed(e.OldPod) || !placed(e.Pod) {
			return false
		}
	case scheduler.AssignedPodAdded:
		if !placed(e.Pod) {
			return false
		}
	case scheduler.AssignedPodDeleted:
		if !placed(e.OldPod) {
			return false
		}
	}
	return helps(pod, e)
}

// helps reports whether an event about a node, or a pod on a node, concerns the pod's terms, or those of the pod that went.
func helps(pod *corev1.Pod, e scheduler.Event) bool {
	terms, err := required(pod)
	if err != nil {
		return true
	}
	switch e.Kind {
	case scheduler.NodeAdded:
		return len(terms.RequiredAnti) > 0 || slices.ContainsFunc(terms.Required, func(t scheduler.AffinityTerm) bool {
			_, ok := e.Node.Labels[t.TopologyKey]
			return ok
		})
	case scheduler.NodeUpdated:
		return newDomain(terms, e.OldNode.Labels, e.Node.Labels)
	case scheduler.AssignedPodAdded:
		return selectsAll(terms.Required, e.Pod)
	case scheduler.AssignedPodUpdated:
		return !selectsAll(terms.Required, e.OldPod) && selectsAll(terms.Required, e.Pod) ||
			selectsAny(terms.RequiredAnti, e.OldPod) && !selectsAny(terms.RequiredAnti, e.Pod)
	case scheduler.AssignedPodDeleted:
		if selectsAny(terms.RequiredAnti, e.OldPod) {
			return true
		}
		others, err := required(apart(e.OldPod))
		return err != nil || selectsAny(others.RequiredAnti, pod)
	}
	return false
}

// required parses a pod's required terms alone: preferred ones keep no pod away, whether they can be parsed or not.
func required(pod *corev1.Pod) (*scheduler.PodAffinity, error) {
	only := corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{}}}
	only.Namespace = pod.Namespace
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			only.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution}
		}
		if a.PodAntiAffinity != nil {
			only.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution}
		}
	}
	terms, err := scheduler.PodAffinityOf(&only)
	if terms == nil {
		terms = &scheduler.PodAffinity{}
	}
	return terms, err
}

// apart returns a pod with its anti-affinity alone.
func apart(pod *corev1.Pod) *corev1.Pod {
	c := *pod
	if a := pod.Spec.Affinity; a != nil {
		c.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: a.PodAntiAffinity}
	}
	return &c
}

// placed reports whether a pod counts on some node.
func placed(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != ""
}

// newDomain reports whether new labels move a node to a domain of an affinity term, or out of one of an anti-affinity
// term.
func newDomain(terms *scheduler.PodAffinity, old, updated map[string]string) bool {
	for i := range terms.Required {
		key := terms.Required[i].TopologyKey
		was, had := old[key]
		if is, has := updated[key]; has && (!had || is != was) {
			return true
		}
	}
	for i := range terms.RequiredAnti {
		key := terms.RequiredAnti[i].TopologyKey
		was, had := old[key]
		if is, has := updated[key]; had && (!has || is != was) {
			return true
		}
	}
	return false
}

// selectsAll reports whether there are terms, and all select the pod.
func selectsAll(terms []scheduler.AffinityTerm, pod *corev1.Pod) bool {
	for i := range terms {
		if !terms[i].Selects(pod, nil) {
			return false
		}
	}
	return len(terms) > 0
}

func selectsAny(terms []scheduler.AffinityTerm, pod *corev1.Pod) bool {
	return slices.ContainsFunc(terms, func(t scheduler.AffinityTerm) bool { return t.Selects(pod, nil) })
}

// unparsable is the refusal of a pod with a selector that cannot be parsed.
func unparsable(err error) *scheduler.Refusal {
	return &scheduler.Refusal{Reasons: []string{fmt.Sprintf("parsing pod: %+v", err)}, Unresolvable: true}
}
