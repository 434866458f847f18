package host

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/objects"
	"github.com/keelson-dev/keelson/kubelet/security"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

// referring keeps what pods refer to for as long as they have volumes, and their users as long.
type referring struct {
	*volume.Volumes
	objects *objects.Cache
	users   *security.Allocator
}

func (r referring) Prepare(ctx context.Context, pod *corev1.Pod) error {
	r.objects.Register(pod)
	return r.Volumes.Prepare(ctx, pod)
}

func (r referring) Release(ctx context.Context, uid types.UID) error {
	r.objects.Unregister(uid)
	return errors.Join(r.Volumes.Release(ctx, uid), r.users.Release(uid))
}

// admitter lets a policy admit pods.
type admitter struct{ *security.Policy }

func (a admitter) Admit(pod *corev1.Pod) *kubelet.Refusal {
	if r := a.Policy.Admit(pod); r != nil {
		return &kubelet.Refusal{Reason: r.Reason, Message: r.Message}
	}
	return nil
}

// messages reads termination messages.
type messages struct{}

func (messages) Message(status cri.ContainerStatus) string {
	return volume.TerminationMessage(status, nil)
}
