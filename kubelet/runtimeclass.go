package kubelet

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cri"
)

// runtimeClasses finds the handlers of runtime classes. While the server does not answer, it answers as it did last: a
// class never changes its handler.
type runtimeClasses struct {
	server client.Getter

	mu    sync.Mutex
	known map[string]string
}

func newRuntimeClasses(server client.Getter) *runtimeClasses {
	return &runtimeClasses{server: server, known: map[string]string{}}
}

// handler returns the handler of a pod's runtime class; empty is the default.
func (r *runtimeClasses) handler(ctx context.Context, pod *corev1.Pod) (string, error) {
	if pod.Spec.RuntimeClassName == nil || *pod.Spec.RuntimeClassName == "" {
		return "", nil
	}
	name := *pod.Spec.RuntimeClassName
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	obj, err := r.server.Get(ctx, client.Target{Resource: nodev1.SchemeGroupVersion.WithResource("runtimeclasses"), Name: name})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		class, ok := obj.(*nodev1.RuntimeClass)
		if !ok {
			return "", fmt.Errorf("failed to lookup RuntimeClass %s: the server answered with a %T", name, obj)
		}
		r.known[name] = class.Handler
		return class.Handler, nil
	}
	if apierrors.IsNotFound(err) {
		delete(r.known, name)
		return "", apierrors.NewNotFound(schema.GroupResource{Group: nodev1.GroupName, Resource: "runtimeclass"}, name)
	}
	if handler, known := r.known[name]; known {
		return handler, nil
	}
	return "", fmt.Errorf("failed to lookup RuntimeClass %s: %w", name, err)
}

// overhead is what a pod's sandbox itself may use, in the runtime's terms.
func overhead(pod *corev1.Pod) cri.Resources {
	if len(pod.Spec.Overhead) == 0 {
		return cri.Resources{}
	}
	return bare{}.Resources(pod, &corev1.Container{Resources: corev1.ResourceRequirements{Requests: pod.Spec.Overhead, Limits: pod.Spec.Overhead}})
}
