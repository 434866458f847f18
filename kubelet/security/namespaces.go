package security

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

// Namespaces returns the namespaces that a pod's containers share with the node and with each other; handler is that of
// the runtime class. For a pod with a user namespace it allocates a range of user IDs, once.
func (p *Policy) Namespaces(pod *corev1.Pod, handler string) (cri.Namespaces, error) {
	out := cri.Namespaces{PID: cri.NamespaceContainer}
	if isTrue(pod.Spec.ShareProcessNamespace) {
		out.PID = cri.NamespacePod
	}
	if pod.Spec.HostPID {
		out.PID = cri.NamespaceNode
	}
	if pod.Spec.HostIPC {
		out.IPC = cri.NamespaceNode
	}
	if pod.Spec.HostNetwork {
		out.Network = cri.NamespaceNode
	}
	user, err := p.users(pod, handler)
	out.User = user
	return out, err
}

// Targeting returns the namespaces of an ephemeral container that is to see the processes of the container with the
// given ID.
func Targeting(n cri.Namespaces, id string) cri.Namespaces {
	if n.PID == cri.NamespaceContainer && id != "" {
		n.PID, n.Target = cri.NamespaceTarget, id
	}
	return n
}

func (p *Policy) users(pod *corev1.Pod, handler string) (*cri.UserNamespace, error) {
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return &cri.UserNamespace{Mode: cri.NamespaceNode}, nil
	}
	if err := p.canMapUsers(handler); err != nil {
		return nil, err
	}
	if p.options.Users == nil {
		return nil, errors.New("create user namespace: the node has no users for pods")
	}
	mapping, err := p.options.Users.Take(pod.UID)
	if err != nil {
		return nil, fmt.Errorf("create user namespace: %w", err)
	}
	return &cri.UserNamespace{
		Mode: cri.NamespacePod, UIDs: []cri.IDMapping{mapping}, GIDs: []cri.IDMapping{mapping},
	}, nil
}

func (p *Policy) canMapUsers(handler string) error {
	if p.options.UserNamespaces == nil {
		return nil
	}
	can, err := p.options.UserNamespaces(handler)
	if can && err == nil {
		return nil
	}
	message := "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
	if handler != "" {
		message = fmt.Sprintf("can't set `spec.hostUsers: false`, RuntimeClass handler %q does not support user namespaces", handler)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", message, err)
	}
	return errors.New(message)
}
