package core

import (
	"context"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

func nodes() registry.Kind {
	return registry.Definition[*corev1.Node]{
		Names:        registry.Names{Kind: "Node", Plural: "nodes", Singular: "node", Short: []string{"no"}},
		GroupVersion: corev1.SchemeGroupVersion,
		Prefix:       "minions",
		New:          func() *corev1.Node { return &corev1.Node{} },
		NewList:      func() runtime.Object { return &corev1.NodeList{} },
		Rules: registry.Rules[*corev1.Node]{
			Default: defaultNode,
			// A node is created with its status, since kubelets register it so.
			PrepareCreate: func(_ context.Context, node *corev1.Node) {
				node.Spec.ConfigSource, node.Status.Config = nil, nil
				node.Spec.PodPreemptionPolicy = nil
			},
			PrepareUpdate: prepareNodeUpdate,
			Validate:      validateNode,
			ValidateUpdate: func(node, old *corev1.Node) field.ErrorList {
				return append(validateNode(node), validateNodeChange(node, old)...)
			},
		},
		Fields: func(node *corev1.Node) fields.Set {
			return fields.Set{"spec.unschedulable": strconv.FormatBool(node.Spec.Unschedulable)}
		},
		Sub: registry.Subresources[*corev1.Node]{Views: map[string]registry.View[*corev1.Node]{"status": {
			PrepareUpdate: func(_ context.Context, node, old *corev1.Node) {
				node.Spec = *old.Spec.DeepCopy()
				if old.Status.Config == nil {
					node.Status.Config = nil
				}
			},
			ValidateUpdate: validateNodeStatus,
		}}, Connects: nodeConnects()},
		Columns: nodeColumns(),
	}.Kind()
}

// defaultNode makes all capacity allocatable unless set otherwise, and podCIDR the first of podCIDRs.
func defaultNode(node *corev1.Node) {
	status := &node.Status
	if status.Allocatable == nil {
		status.Allocatable = maps.Clone(status.Capacity)
	}
	roundUp(status.Capacity)
	roundUp(status.Allocatable)
	spec := &node.Spec
	if spec.PodCIDR != "" && (len(spec.PodCIDRs) == 0 || spec.PodCIDRs[0] != spec.PodCIDR) {
		spec.PodCIDRs = []string{spec.PodCIDR}
	}
	if len(spec.PodCIDRs) > 0 {
		spec.PodCIDR = spec.PodCIDRs[0]
	}
}

// roundUp rounds quantities to thousandths, the finest unit of the API.
func roundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}

// prepareNodeUpdate keeps the fields of removed features, or of those off by default, only if they were set
// before.
func prepareNodeUpdate(_ context.Context, node, old *corev1.Node) {
	node.Status = *old.Status.DeepCopy()
	if old.Spec.ConfigSource == nil {
		node.Spec.ConfigSource = nil
	}
	if old.Spec.PodPreemptionPolicy == nil {
		node.Spec.PodPreemptionPolicy = nil
	}
}
