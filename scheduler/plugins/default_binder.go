package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/scheduler/internal/retry"
)

// DefaultBinder creates the binding subresource of pods. It never declines. It calls an unwell server up to
// four times within a third of a second.
type DefaultBinder struct {
	// Client writes the bindings; a client.Client is one.
	Client client.Creator
}

// Name returns "DefaultBinder".
func (DefaultBinder) Name() string { return "DefaultBinder" }

// Bind posts the binding with the pod's UID, so that another pod of the same name does not get the node.
func (b DefaultBinder) Bind(ctx context.Context, pod *corev1.Pod, node string) error {
	to := client.Target{
		Resource:  corev1.SchemeGroupVersion.WithResource("pods"),
		Namespace: pod.Namespace, Name: pod.Name, Subresource: "binding",
	}
	return retry.Do(ctx, retry.Unwell, func() error {
		_, err := b.Client.Create(ctx, to, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{})
		return err
	})
}
