package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/internal/pause"
)

// Retries of a patch of taints after a conflict.
const (
	taintTries = 5
	taintPause = 100 * time.Millisecond
)

// readyPause is the delay for a node without a Ready condition.
const readyPause = 50 * time.Millisecond

// taintOf returns the key of the taint for a condition, or "".
func taintOf(c corev1.NodeCondition) string {
	switch c.Type {
	case corev1.NodeReady:
		switch c.Status {
		case corev1.ConditionFalse:
			return corev1.TaintNodeNotReady
		case corev1.ConditionUnknown:
			return corev1.TaintNodeUnreachable
		}
	case corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodeNetworkUnavailable, corev1.NodePIDPressure:
		if c.Status != corev1.ConditionTrue {
			return ""
		}
	}
	switch c.Type {
	case corev1.NodeMemoryPressure:
		return corev1.TaintNodeMemoryPressure
	case corev1.NodeDiskPressure:
		return corev1.TaintNodeDiskPressure
	case corev1.NodeNetworkUnavailable:
		return corev1.TaintNodeNetworkUnavailable
	case corev1.NodePIDPressure:
		return corev1.TaintNodePIDPressure
	}
	return ""
}

// ours reports whether this controller manages a taint with effect NoSchedule.
func ours(taint corev1.Taint) bool {
	if taint.Effect != corev1.TaintEffectNoSchedule {
		return false
	}
	switch taint.Key {
	case corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable,
		corev1.TaintNodeNetworkUnavailable, corev1.TaintNodeMemoryPressure,
		corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure:
		return true
	}
	return false
}

// scheduleTaints returns the NoSchedule taints to add and to remove, according to a node's conditions and whether it is
// cordoned.
func scheduleTaints(node *corev1.Node) (add, remove []corev1.Taint) {
	var want []corev1.Taint
	for _, c := range node.Status.Conditions {
		if key := taintOf(c); key != "" {
			want = append(want, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	if node.Spec.Unschedulable {
		want = append(want, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	for _, taint := range want {
		if !tainted(node, taint) {
			add = append(add, taint)
		}
	}
	for _, taint := range node.Spec.Taints {
		if ours(taint) && !slices.ContainsFunc(want, func(w corev1.Taint) bool { return w.MatchTaint(&taint) }) {
			remove = append(remove, taint)
		}
	}
	return add, remove
}

func unreachable() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}
}

func notReady() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}
}

// executeTaints returns the NoExecute taint for that Ready condition, and the one that must not exist beside it.
func executeTaints(ready corev1.ConditionStatus) (taint, opposite corev1.Taint) {
	if ready == corev1.ConditionFalse {
		return notReady(), unreachable()
	}
	return unreachable(), notReady()
}

func tainted(node *corev1.Node, taint corev1.Taint) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
}

// taintByReadiness updates a node's NoExecute taints according to its Ready condition: replacing and removing a taint
// is done at once; otherwise the node is queued.
func (c *Controller) taintByReadiness(ctx context.Context, node *corev1.Node, ready corev1.ConditionStatus) {
	if ready == corev1.ConditionTrue {
		if err := c.reachable(ctx, node); err != nil {
			c.log.Warn("removing taints failed", "node", node.Name, "error", err)
		}
		return
	}
	taint, opposite := executeTaints(ready)
	if tainted(node, opposite) {
		if err := c.swapTaints(ctx, node, []corev1.Taint{taint}, []corev1.Taint{opposite}); err != nil {
			c.log.Warn("swapping taints failed", "node", node.Name, "error", err)
		}
		return
	}
	tainter := c.tainterOf(node)
	if !tainted(node, taint) {
		tainter.remove(node.Name)
	}
	tainter.add(node.Name, time.Now())
}

// reachable removes the NoExecute taints from a node, and the node from the queue.
func (c *Controller) reachable(ctx context.Context, node *corev1.Node) error {
	for _, taint := range []corev1.Taint{unreachable(), notReady()} {
		if err := c.removeTaints(ctx, node, []corev1.Taint{taint}); err != nil {
			return err
		}
	}
	c.tainterOf(node).remove(node.Name)
	return nil
}

// evict adds NoExecute taints to the nodes whose turn it is, and returns when to run again.
func (c *Controller) evict(ctx context.Context) time.Duration {
	for _, t := range c.tainters() {
		for ctx.Err() == nil {
			now := time.Now()
			name, ok := t.next(now)
			if !ok {
				break
			}
			done, wait := c.taint(ctx, name)
			t.settle(name, done, now, wait)
		}
	}
	if c.waiting() {
		return taintPeriod
	}
	return 0
}

// taint adds the NoExecute taint for a node's Ready condition. It reports whether the node is done, or when to retry.
func (c *Controller) taint(ctx context.Context, name string) (done bool, wait time.Duration) {
	node, ok := c.in.Nodes.Get("", name)
	if !ok {
		return true, 0
	}
	ready := readyOf(node)
	if ready == nil {
		return false, readyPause
	}
	if ready.Status == corev1.ConditionTrue {
		return true, 0
	}
	taint, opposite := executeTaints(ready.Status)
	if err := c.swapTaints(ctx, node, []corev1.Taint{taint}, []corev1.Taint{opposite}); err != nil {
		c.log.Warn("tainting a node failed", "node", name, "error", err)
		return false, 0
	}
	return true, 0
}

// swapTaints adds taints to a node, or replaces those with the same key and effect, and then removes others if the
// given node has any of them.
func (c *Controller) swapTaints(ctx context.Context, node *corev1.Node, add, remove []corev1.Taint) error {
	if len(add) > 0 {
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		for i := range add {
			add[i].TimeAdded = &now
		}
		err := c.patchTaints(ctx, node.Name, func(taints []corev1.Taint) []corev1.Taint {
			for _, taint := range add {
				taints = withTaint(taints, taint)
			}
			return taints
		})
		if err != nil {
			return err
		}
	}
	return c.removeTaints(ctx, node, remove)
}

func (c *Controller) removeTaints(ctx context.Context, node *corev1.Node, remove []corev1.Taint) error {
	if !slices.ContainsFunc(remove, func(t corev1.Taint) bool { return tainted(node, t) }) {
		return nil
	}
	return c.patchTaints(ctx, node.Name, func(taints []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(taints, func(had corev1.Taint) bool {
			return slices.ContainsFunc(remove, func(t corev1.Taint) bool { return t.MatchTaint(&had) })
		})
	})
}

// withTaint returns the taints with one that replaces the taint of the same key and effect, or is appended.
func withTaint(taints []corev1.Taint, taint corev1.Taint) []corev1.Taint {
	for i := range taints {
		if taints[i].MatchTaint(&taint) {
			taints[i] = taint
			return taints
		}
	}
	return append(taints, taint)
}

// patchTaints changes the taints on the server. The list has no merge key: the patch names the version it is based on.
func (c *Controller) patchTaints(ctx context.Context, name string, change func([]corev1.Taint) []corev1.Taint) error {
	for try := 1; ; try++ {
		node, err := c.fetch(ctx, name)
		if err != nil {
			return err
		}
		taints := change(slices.Clone(node.Spec.Taints))
		if slices.EqualFunc(taints, node.Spec.Taints, sameTaint) {
			return nil
		}
		err = c.patchNode(ctx, name, map[string]any{
			"metadata": map[string]any{"resourceVersion": node.ResourceVersion},
			"spec":     map[string]any{"taints": orNull(taints)},
		})
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) || try == taintTries || pause.For(ctx, taintPause) != nil {
			return fmt.Errorf("taints of node %s: %w", name, err)
		}
	}
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect && a.TimeAdded.Equal(b.TimeAdded)
}

// orNull returns nil for an empty list, with which a patch removes it.
func orNull(taints []corev1.Taint) any {
	if len(taints) == 0 {
		return nil
	}
	return taints
}

func (c *Controller) patchNode(ctx context.Context, name string, patch map[string]any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.client.Patch(ctx, nodeTarget(name), client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
	return err
}
