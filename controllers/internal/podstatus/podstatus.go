// Package podstatus changes the status of pods for controllers that terminate them.
package podstatus

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
)

// SetCondition replaces the condition of the same type, or appends one. The transition time is now, unless the
// condition's status does not change. It reports whether anything but the observed generation changed.
func SetCondition(status *corev1.PodStatus, c corev1.PodCondition, now time.Time) bool {
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	for i := range status.Conditions {
		had := status.Conditions[i]
		if had.Type != c.Type {
			continue
		}
		if c.Status == had.Status {
			c.LastTransitionTime = had.LastTransitionTime
		}
		status.Conditions[i] = c
		return c.Status != had.Status || c.Reason != had.Reason || c.Message != had.Message || !c.LastProbeTime.Equal(&had.LastProbeTime)
	}
	status.Conditions = append(status.Conditions, c)
	return true
}

// Disrupt sets the condition DisruptionTarget (KEP-3329), which says why a pod is about to be terminated, and reports
// whether that changed anything.
func Disrupt(pod *corev1.Pod, status *corev1.PodStatus, reason, message string) bool {
	return SetCondition(status, corev1.PodCondition{
		Type: corev1.DisruptionTarget, ObservedGeneration: pod.Generation,
		Status: corev1.ConditionTrue, Reason: reason, Message: message,
	}, time.Now())
}

// Patch sets phase, observed generation and conditions of the pod's status to those of want. The pod's UID is a
// precondition, its version is not. If nothing differs, nothing is sent.
func Patch(ctx context.Context, c client.Patcher, pod *corev1.Pod, want *corev1.PodStatus) error {
	change := map[string]any{}
	if want.Phase != pod.Status.Phase {
		change["phase"] = want.Phase
	}
	if want.ObservedGeneration != pod.Status.ObservedGeneration {
		change["observedGeneration"] = want.ObservedGeneration
	}
	had := map[corev1.PodConditionType]corev1.PodCondition{}
	for _, condition := range pod.Status.Conditions {
		had[condition.Type] = condition
	}
	var conditions []corev1.PodCondition
	for _, condition := range want.Conditions {
		if !reflect.DeepEqual(had[condition.Type], condition) {
			conditions = append(conditions, condition)
		}
	}
	if len(conditions) > 0 {
		change["conditions"] = conditions
	}
	if len(change) == 0 {
		return nil
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": change})
	if err != nil {
		return fmt.Errorf("patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	at := client.Target{
		Resource:  corev1.SchemeGroupVersion.WithResource("pods"),
		Namespace: pod.Namespace, Name: pod.Name, Subresource: "status",
	}
	if _, err := c.Patch(ctx, at, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
