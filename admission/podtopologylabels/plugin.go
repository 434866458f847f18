package podtopologylabels

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "PodTopologyLabels"

// Nodes is the cache that the plugin reads; an informer of nodes is one.
type Nodes interface {
	// Get returns the node of that name; the first argument is empty.
	Get(namespace, name string) (*corev1.Node, bool)
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ nodes Nodes }

var _ admission.Mutator = (*Plugin)(nil)

// New returns the plugin.
func New(nodes Nodes) *Plugin { return &Plugin{nodes} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Create }

// Admit implements admission.Mutator. The labels of a binding become the pod's when it is bound.
func (p *Plugin) Admit(_ context.Context, r *admission.Request) error {
	if r.Resource.GroupResource() != (schema.GroupResource{Resource: "pods"}) {
		return nil
	}
	switch r.Subresource {
	case "":
		pod, ok := r.Object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("expected Pod but got %T", r.Object)
		}
		p.label(&pod.Labels, pod.Spec.NodeName)
	case "binding":
		binding, ok := r.Object.(*corev1.Binding)
		if !ok {
			return fmt.Errorf("expected Binding but got %s", r.Kind.Kind)
		}
		if binding.Target.Kind == "Node" {
			p.label(&binding.Labels, binding.Target.Name)
		}
	}
	return nil
}

// label adds the labels of a node's place.
func (p *Plugin) label(labels *map[string]string, name string) {
	node, ok := p.nodes.Get("", name)
	if !ok {
		return
	}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if value, ok := node.Labels[key]; ok {
			if *labels == nil {
				*labels = map[string]string{}
			}
			(*labels)[key] = value
		}
	}
}
