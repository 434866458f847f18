package host

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/logs"
	"github.com/keelson-dev/keelson/kubelet/objects"
	"github.com/keelson-dev/keelson/kubelet/security"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

// referring keeps the objects that pods refer to while they have volumes, and likewise their user ranges.
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

// cheaper is a policy with a seccomp profile of its own for sandboxes.
type cheaper struct {
	*security.Policy
	profile string
}

func (c cheaper) Sandbox(pod *corev1.Pod) (cri.SandboxSecurity, error) {
	s, err := c.Policy.Sandbox(pod)
	if c.profile != "" && s.Seccomp != nil && s.Seccomp.Type == cri.ProfileRuntimeDefault {
		s.Seccomp = &cri.Profile{Type: cri.ProfileLocalhost, Localhost: c.profile}
	}
	return s, err
}

// messages reads what containers leave: termination messages, from files and from the ends of logs, and the logs.
type messages struct{}

func (messages) Message(status cri.ContainerStatus) string {
	return volume.TerminationMessage(status, func(path string) (string, error) {
		var text tail
		lines := int64(volume.MessageLogLines)
		err := logs.Read(context.Background(), path, logs.Options{Stdout: &text, Stderr: &text, Tail: &lines})
		return string(text), err
	})
}

// RemoveLog implements kubelet.LogRemover.
func (messages) RemoveLog(path string) error { return logs.Remove(path) }

// tail keeps the last bytes written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-volume.MessageLogBytes):]
	return len(p), nil
}

// handlers caches the features of the runtime's handlers.
type handlers struct {
	runtime cri.Node

	mu   sync.Mutex
	list []cri.RuntimeHandler
}

// askTimeout bounds the call; a runtime that does not answer cannot start the pod either.
const askTimeout = 5 * time.Second

// recursiveReadOnly reports whether a pod's mounts can be made read-only with all below them.
func (h *handlers) recursiveReadOnly(*corev1.Pod) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.list == nil {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		status, err := h.runtime.Status(ctx)
		if err != nil {
			return false
		}
		h.list = status.Handlers
	}
	return slices.ContainsFunc(h.list, func(r cri.RuntimeHandler) bool { return r.Name == "" && r.RecursiveReadOnlyMounts })
}
