package nodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/internal/podstatus"
	"github.com/keelson-dev/keelson/events"
)

// bound handles a pod newly bound to a node: it is unready if its node is not ready.
func (c *Controller) bound(ctx context.Context, key controllers.Key) error {
	pod, ok := c.in.Pods.Get(key.Namespace, key.Name)
	if !ok {
		return nil
	}
	c.mu.Lock()
	h := c.health[pod.Spec.NodeName]
	c.mu.Unlock()
	if h.ready == nil || h.ready.Status == corev1.ConditionTrue {
		return nil
	}
	if _, ok := c.in.Nodes.Get("", pod.Spec.NodeName); !ok {
		return fmt.Errorf("pod %s: node %q is not in the cache", key, pod.Spec.NodeName)
	}
	return c.markUnready(ctx, pod)
}

// markUnready sets the Ready condition of pods to False where it is not.
func (c *Controller) markUnready(ctx context.Context, all ...*corev1.Pod) error {
	var failed error
	for _, pod := range all {
		ready := pods.Condition(pod, corev1.PodReady)
		if ready == nil || ready.Status == corev1.ConditionFalse {
			continue
		}
		next, condition := pod.DeepCopy(), *ready
		condition.Status = corev1.ConditionFalse
		podstatus.SetCondition(&next.Status, condition, time.Now())
		at := client.Target{
			Resource:  corev1.SchemeGroupVersion.WithResource("pods"),
			Namespace: pod.Namespace, Name: pod.Name, Subresource: "status",
		}
		if _, err := c.client.Update(ctx, at, next, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			failed = errors.Join(failed, fmt.Errorf("status of pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
		c.recorder.Record(events.Event{
			Regarding: events.About(pods.Kind().GroupVersionKind, pod),
			Type:      corev1.EventTypeWarning, Reason: "NodeNotReady", Message: "Node is not ready",
		})
	}
	return failed
}
