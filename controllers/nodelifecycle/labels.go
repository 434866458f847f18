package nodelifecycle

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// labelsToSet returns the beta labels of a node that are missing or differ from the stable ones.
func labelsToSet(labels map[string]string) map[string]string {
	set := map[string]string{}
	for _, pair := range [][2]string{
		{corev1.LabelOSStable, "beta.kubernetes.io/os"},
		{corev1.LabelArchStable, "beta.kubernetes.io/arch"},
	} {
		value, ok := labels[pair[0]]
		if !ok {
			continue
		}
		if had, ok := labels[pair[1]]; !ok || had != value {
			set[pair[1]] = value
		}
	}
	return set
}

func (c *Controller) reconcileLabels(ctx context.Context, node *corev1.Node) error {
	set := labelsToSet(node.Labels)
	if len(set) == 0 {
		return nil
	}
	if err := c.patchNode(ctx, node.Name, map[string]any{"metadata": map[string]any{"labels": set}}); err != nil {
		return fmt.Errorf("labels of node %s: %w", node.Name, err)
	}
	return nil
}
