package podresizevalidator

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/internal/pods"
)

// Name is the plugin's name.
const Name = "PodResizeValidator"

// Why a resize is refused: the types of the causes in the answer.
const (
	ReasonNodeCapacity        metav1.CauseType = "NodeCapacity"
	ReasonUnsupportedPlatform metav1.CauseType = "UnsupportedPlatform"
)

// Nodes is the cache that the plugin reads; an informer of nodes is one.
type Nodes interface {
	// Get returns the node of that name; the first argument is empty.
	Get(namespace, name string) (*corev1.Node, bool)
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ nodes Nodes }

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin.
func New(nodes Nodes) *Plugin { return &Plugin{nodes} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Update }

// Validate implements admission.Validator.
func (p *Plugin) Validate(_ context.Context, r *admission.Request) error {
	pod, _, err := pods.Changed(r, "resize")
	if pod == nil {
		return err
	}
	node, ok := p.nodes.Get("", pod.Spec.NodeName)
	if !ok {
		return admission.Forbidden(r, "node %q not found", pod.Spec.NodeName)
	}
	if system, ok := node.Labels[corev1.LabelOSStable]; ok && system != "linux" {
		return refusal(r, ReasonUnsupportedPlatform, fmt.Sprintf("pod resize is only supported on linux nodes, node %q is %q", node.Name, system))
	}
	if lacking := lacking(pod, node); len(lacking) > 0 {
		return refusal(r, ReasonNodeCapacity, "node didn't have enough allocatable resources: "+strings.Join(lacking, "; "))
	}
	return nil
}

func refusal(r *admission.Request, why metav1.CauseType, message string) error {
	err := admission.Forbidden(r, "%s", message)
	err.Causes = []metav1.StatusCause{{Type: why}}
	return err
}

// lacking says of what the pod requests more than the node has for all pods.
func lacking(pod *corev1.Pod, node *corev1.Node) []string {
	requested := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	has := node.Status.Allocatable
	var all []string
	if requested.Cpu().Cmp(*has.Cpu()) > 0 {
		all = append(all, fmt.Sprintf("cpu, requested: %d, allocatable: %d", requested.Cpu().MilliValue(), has.Cpu().MilliValue()))
	}
	if requested.Memory().Cmp(*has.Memory()) > 0 {
		all = append(all, fmt.Sprintf("memory, requested: %d, allocatable: %d", requested.Memory().Value(), has.Memory().Value()))
	}
	return all
}
