package plugins

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/groups"
)

// PodTopologySpread refuses nodes on which the pod would break one of its topology spread constraints: "node(s) didn't
// match pod topology spread constraints", with " (missing required label)" for a node that is in no domain. It prefers
// nodes in domains with few pods by the constraints with ScheduleAnyway, and skips pods without constraints.
//
// Pods without constraints of their own get Defaults if services or controllers select them, according to Groups.
type PodTopologySpread struct {
	Groups *groups.Groups
	// Defaults are the constraints of pods without any; their selectors are not used. Nil means upstream's, which
	// only rank nodes, by hostname and zone. An empty slice means none.
	Defaults []corev1.TopologySpreadConstraint
}

// Name returns "PodTopologySpread".
func (PodTopologySpread) Name() string { return "PodTopologySpread" }

// Cached implements scheduler.Cacher.
func (p PodTopologySpread) Cached() scheduler.Plugin { return p.cached() }

func (p PodTopologySpread) cached() *spreading { return &spreading{PodTopologySpread: p} }

// Check decides as if there were no other node.
func (p PodTopologySpread) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	prepared, err := p.cached().prepare(pod, []*scheduler.NodeInfo{node})
	switch {
	case err != nil:
		return &scheduler.Refusal{Err: err}
	case prepared.Skip:
		return nil
	}
	return prepared.Check(node)
}

// Prepare counts the pods by domain. It fails for selectors that cannot be parsed.
func (p PodTopologySpread) Prepare(pod *corev1.Pod, s *scheduler.Snapshot) (scheduler.Prepared, error) {
	return p.cached().Prepare(pod, s)
}

// Score scores as if there were no other node.
func (p PodTopologySpread) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	nodes := []*scheduler.NodeInfo{node}
	prepared, err := p.cached().prepareScores(pod, nodes, nodes)
	if err != nil || prepared.Skip {
		return 0
	}
	return prepared.Score(node)
}

// PrepareScores counts the pods by domain. It fails for selectors that cannot be parsed.
func (p PodTopologySpread) PrepareScores(pod *corev1.Pod, s *scheduler.Snapshot, feasible []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	return p.cached().PrepareScores(pod, s, feasible)
}

// unscored is the score of a node that is not in a domain of each constraint.
const unscored = -1

// Normalize gives the fewest pods the best score, and nodes in no domain 0.
func (PodTopologySpread) Normalize(_ *corev1.Pod, scores []int64) {
	least, most := int64(math.MaxInt64), int64(0)
	for _, s := range scores {
		if s != unscored {
			least, most = min(least, s), max(most, s)
		}
	}
	for i, s := range scores {
		switch {
		case s == unscored:
			scores[i] = 0
		case most == 0:
			scores[i] = scheduler.MaxScore
		default:
			scores[i] = scheduler.MaxScore * (most + least - s) / most
		}
	}
}

// Events returns new, relabelled and deleted pods, new labels and tolerations of the pod, and all changes of nodes.
func (PodTopologySpread) Events() scheduler.EventKind {
	return scheduler.AssignedPodAdded | scheduler.AssignedPodUpdated | scheduler.AssignedPodDeleted |
		scheduler.PodUpdated | scheduler.NodeAdded | scheduler.NodeUpdated | scheduler.NodeDeleted
}

// MayHelp reports whether the constraints count a pod or a domain more or less than before.
func (p PodTopologySpread) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	counted := func(pods ...*corev1.Pod) bool {
		return !slices.ContainsFunc(pods, func(other *corev1.Pod) bool { return !placed(other) || other.Namespace != pod.Namespace })
	}
	switch e.Kind {
	case scheduler.AssignedPodAdded:
		if !counted(e.Pod) {
			return false
		}
	case scheduler.AssignedPodUpdated:
		if e.Change&scheduler.PodLabelsChanged == 0 || !counted(e.OldPod, e.Pod) {
			return false
		}
	case scheduler.AssignedPodDeleted:
		if !counted(e.OldPod) {
			return false
		}
	case scheduler.PodUpdated:
		if e.Change&(scheduler.PodLabelsChanged|scheduler.PodTolerationsChanged) == 0 {
			return false
		}
	case scheduler.NodeUpdated:
		if e.Change&(scheduler.NodeLabelsChanged|scheduler.NodeTaintsChanged) == 0 {
			return false
		}
	}
	constraints, err := p.constraints(pod, corev1.DoNotSchedule)
	if err != nil {
		return true
	}
	switch e.Kind {
	case scheduler.AssignedPodAdded:
		return constraints.selectsAny(e.Pod)
	case scheduler.AssignedPodDeleted:
		return constraints.selectsAny(e.OldPod)
	case scheduler.PodUpdated:
		if constraints.honorTaints() && !equality.Semantic.DeepEqual(e.OldPod.Spec.Tolerations, e.Pod.Spec.Tolerations) {
			return true
		}
		return constraints.relabelled(e.OldPod, e.Pod)
	case scheduler.AssignedPodUpdated:
		return constraints.relabelled(e.OldPod, e.Pod)
	}
	return constraints.moved(e.OldNode, e.Node)
}

// constraint is a parsed topology spread constraint.
type constraint struct {
	key                         string
	selector                    labels.Selector
	maxSkew, minDomains         int32
	ignoreAffinity, honorTaints bool
}

type constraints []constraint

// constraints returns those of a pod with one of the two actions, or the default ones.
func (p PodTopologySpread) constraints(pod *corev1.Pod, action corev1.UnsatisfiableConstraintAction) (constraints, error) {
	kind, own := "hard", pod.Spec.TopologySpreadConstraints
	if action == corev1.ScheduleAnyway {
		kind = "soft"
	}
	if len(own) > 0 {
		parsed, err := parseConstraints(own, pod.Labels, action)
		if err != nil {
			err = fmt.Errorf("obtaining pod's %s topology spread constraints: %w", kind, err)
		}
		return parsed, err
	}
	if p.Groups == nil {
		return nil, nil
	}
	defaults := p.Defaults
	if defaults == nil {
		if action != corev1.ScheduleAnyway {
			return nil, nil
		}
		defaults = systemDefaults()
	}
	parsed, err := parseConstraints(defaults, pod.Labels, action)
	if err != nil {
		return nil, fmt.Errorf("setting default %s topology spread constraints: %w", kind, err)
	}
	if len(parsed) == 0 {
		return nil, nil
	}
	selector := p.Groups.Selector(pod)
	if selector.Empty() {
		return nil, nil
	}
	for i := range parsed {
		parsed[i].selector = selector
	}
	return parsed, nil
}

func systemDefaults() []corev1.TopologySpreadConstraint {
	return []corev1.TopologySpreadConstraint{
		{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 3},
		{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 5},
	}
}

func parseConstraints(all []corev1.TopologySpreadConstraint, of map[string]string, action corev1.UnsatisfiableConstraintAction) (constraints, error) {
	var parsed constraints
	for i := range all {
		in := &all[i]
		if in.WhenUnsatisfiable != action {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(in.LabelSelector)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, constraint{
			key: in.TopologyKey, selector: withLabelKeys(selector, in.MatchLabelKeys, of),
			maxSkew: in.MaxSkew, minDomains: ptr.Deref(in.MinDomains, 1),
			ignoreAffinity: in.NodeAffinityPolicy != nil && *in.NodeAffinityPolicy != corev1.NodeInclusionPolicyHonor,
			honorTaints:    in.NodeTaintsPolicy != nil && *in.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
		})
	}
	return parsed, nil
}

// withLabelKeys adds the values of the pod's labels to a selector.
func withLabelKeys(selector labels.Selector, keys []string, of map[string]string) labels.Selector {
	set := labels.Set{}
	for _, key := range keys {
		if value, ok := of[key]; ok {
			set[key] = value
		}
	}
	requirements, ok := selector.Requirements()
	if len(set) == 0 || !ok {
		return selector
	}
	return labels.SelectorFromSet(set).Add(requirements...)
}

func (c constraints) selectsAny(pod *corev1.Pod) bool {
	return slices.ContainsFunc(c, func(one constraint) bool { return one.selector.Matches(labels.Set(pod.Labels)) })
}

// relabelled reports whether a constraint selects one of two states of a pod only.
func (c constraints) relabelled(old, updated *corev1.Pod) bool {
	return slices.ContainsFunc(c, func(one constraint) bool {
		return one.selector.Matches(labels.Set(old.Labels)) != one.selector.Matches(labels.Set(updated.Labels))
	})
}

func (c constraints) honorTaints() bool {
	return slices.ContainsFunc(c, func(one constraint) bool { return one.honorTaints })
}

// in reports whether a node is in a domain of each constraint.
func (c constraints) in(node *corev1.Node) bool {
	for i := range c {
		if _, ok := node.Labels[c[i].key]; !ok {
			return false
		}
	}
	return true
}

// moved reports whether a change of a node, its addition or deletion may change what the constraints count.
func (c constraints) moved(old, updated *corev1.Node) bool {
	was, is := old != nil && c.in(old), updated != nil && c.in(updated)
	if was != is || old == nil || updated == nil {
		return was || is
	}
	return is && (!equality.Semantic.DeepEqual(old.Spec.Taints, updated.Spec.Taints) ||
		slices.ContainsFunc(c, func(one constraint) bool { return old.Labels[one.key] != updated.Labels[one.key] }))
}
