package daemonset

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// placement says which nodes run the pods of a template.
type placement struct {
	name        string // of the only node, unless empty
	tolerations []corev1.Toleration
	affinity    nodeaffinity.RequiredNodeAffinity
}

func placementOf(template *corev1.PodTemplateSpec) placement {
	spec := &template.Spec
	return placement{
		name: spec.NodeName, tolerations: tolerations(spec),
		affinity: nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}),
	}
}

// on reports whether a node is to run a pod, and whether one that is there may stay.
func (p placement) on(node *corev1.Node) (run, stay bool) {
	if p.name != "" && p.name != node.Name {
		return false, false
	}
	if match, _ := p.affinity.Match(node); !match { // terms that cannot be parsed match nothing
		return false, false
	}
	run, stay = true, true
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		switch {
		case p.tolerate(taint):
		case taint.Effect == corev1.TaintEffectNoSchedule:
			run = false
		case taint.Effect == corev1.TaintEffectNoExecute:
			return false, false
		}
	}
	return run, stay
}

// tolerate ignores the comparison operators Lt and Gt, whose feature gate is off.
func (p placement) tolerate(taint *corev1.Taint) bool {
	return slices.ContainsFunc(p.tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(logr.Discard(), taint, false) })
}

// tolerations returns those of a template and those that pods of DaemonSets have by default, which stand for those of the
// template that differ from them only in their duration.
func tolerations(spec *corev1.PodSpec) []corev1.Toleration {
	all := slices.Clone(spec.Tolerations)
	add := func(key string, effect corev1.TaintEffect) {
		more := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		found := false
		for i := range all {
			if more.MatchToleration(&all[i]) {
				all[i], found = more, true
			}
		}
		if !found {
			all = append(all, more)
		}
	}
	// The node controllers do not evict them.
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if spec.HostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return all
}

// onNode returns the affinity of a pod that only the named node can run. It replaces what the template requires of the
// node, which that node fulfills.
func onNode(affinity *corev1.Affinity, node string) *corev1.Affinity {
	if affinity == nil {
		affinity = &corev1.Affinity{}
	} else {
		affinity = affinity.DeepCopy()
	}
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}
	return affinity
}

// nodeOf returns the node that a pod is on or was made for.
func nodeOf(pod *corev1.Pod) (string, bool) {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName, true
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return "", false
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn {
				if len(f.Values) != 1 {
					return "", false
				}
				return f.Values[0], true
			}
		}
	}
	return "", false
}
