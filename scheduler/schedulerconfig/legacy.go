package schedulerconfig

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// Plugins that a Policy has and upstream's later configurations do not, under the names that they had there.

const nodeLabelName = "NodeLabel"

// nodeLabels places pods by which labels nodes have, whatever their values.
type nodeLabels struct {
	present, absent []string
	preferred       []labelPreference
}

type labelPreference struct {
	label   string
	present bool
}

// Name returns "NodeLabel".
func (nodeLabels) Name() string { return nodeLabelName }

// Check refuses nodes without one of the labels, or with one that they must not have.
func (l nodeLabels) Check(_ *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	const reason = "node(s) didn't have the requested labels"
	for _, must := range []struct {
		labels  []string
		present bool
	}{{l.present, true}, {l.absent, false}} {
		for _, label := range must.labels {
			if _, has := node.Node.Labels[label]; has != must.present {
				return &scheduler.Refusal{Reasons: []string{reason}, Unresolvable: true}
			}
		}
	}
	return nil
}

// Events returns new and updated nodes.
func (nodeLabels) Events() scheduler.EventKind { return scheduler.NodeAdded | scheduler.NodeUpdated }

// MayHelp reports whether the labels of a node changed so that it passes.
func (l nodeLabels) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	return (e.Kind == scheduler.NodeAdded || e.Change&scheduler.NodeLabelsChanged != 0) && l.Check(pod, scheduler.NewNodeInfo(e.Node)) == nil
}

// Score returns the share of the preferences that the node meets.
func (l nodeLabels) Score(_ *corev1.Pod, node *scheduler.NodeInfo) int64 {
	var met int64
	for _, p := range l.preferred {
		if _, has := node.Node.Labels[p.label]; has == p.present {
			met += scheduler.MaxScore
		}
	}
	return met / max(int64(len(l.preferred)), 1)
}

// Signature appends nothing: all pods are alike.
func (nodeLabels) Signature(b []byte, _ *corev1.Pod) ([]byte, bool) { return b, true }

// resourceScore is the scores of NodeResourcesFit under another name.
type resourceScore struct {
	name string
	plugins.NodeResourcesFit
}

// Name returns the name.
func (s resourceScore) Name() string { return s.name }

// avoidPods prefers nodes that do not ask in an annotation to be spared the pods of a controller.
type avoidPods struct{}

// Name returns "NodePreferAvoidPods".
func (avoidPods) Name() string { return "NodePreferAvoidPods" }

// Score returns 0 for a node that asks not to get the pod.
func (avoidPods) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	owner := metav1.GetControllerOf(pod)
	text, ok := node.Node.Annotations[corev1.PreferAvoidPodsAnnotationKey]
	if owner == nil || owner.Kind != "ReplicationController" && owner.Kind != "ReplicaSet" || !ok {
		return scheduler.MaxScore
	}
	var avoid corev1.AvoidPods
	if err := json.Unmarshal([]byte(text), &avoid); err != nil {
		return scheduler.MaxScore
	}
	for _, one := range avoid.PreferAvoidPods {
		if c := one.PodSignature.PodController; c != nil && c.Kind == owner.Kind && c.UID == owner.UID {
			return 0
		}
	}
	return scheduler.MaxScore
}
