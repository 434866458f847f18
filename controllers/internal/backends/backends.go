// Package backends finds the pods behind services; the controllers of Endpoints and EndpointSlices share it.
package backends

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/dump"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/podspec/restart"
)

// Selected reports whether the endpoints of the service are pods that it selects. Other services' endpoints are written
// by others.
func Selected(service *corev1.Service) bool {
	return service.Spec.Type != corev1.ServiceTypeExternalName && service.Spec.Selector != nil
}

// Of returns the pods that a service selects, in key order.
func Of(service *corev1.Service, in *informer.Informer[*corev1.Pod]) []*corev1.Pod {
	selector := labels.SelectorFromValidatedSet(service.Spec.Selector)
	var selected []*corev1.Pod
	for _, pod := range in.List(service.Namespace) {
		if selector.Matches(labels.Set(pod.Labels)) {
			selected = append(selected, pod)
		}
	}
	return selected
}

// Reachable reports whether a pod can be an endpoint: it has an address and has not ended.
func Reachable(pod *corev1.Pod) bool {
	return !pods.Terminal(pod) && (pod.Status.PodIP != "" || len(pod.Status.PodIPs) > 0)
}

// HasIP reports whether the service has a cluster IP; one without is headless.
func HasIP(service *corev1.Service) bool {
	return service.Spec.ClusterIP != "" && service.Spec.ClusterIP != corev1.ClusterIPNone
}

// Hostname is the pod's name in the service's subdomain, or "".
func Hostname(service *corev1.Service, pod *corev1.Pod) string {
	if pod.Spec.Subdomain == service.Name && pod.Namespace == service.Namespace {
		return pod.Spec.Hostname
	}
	return ""
}

// Port finds the target port of a service's port on a pod: by number, or by name among the ports of its containers and
// sidecars.
func Port(pod *corev1.Pod, port *corev1.ServicePort) (int32, bool) {
	if port.TargetPort.Type == intstr.Int {
		return int32(port.TargetPort.IntValue()), true
	}
	named := func(c *corev1.Container) (int32, bool) {
		for _, p := range c.Ports {
			if p.Name == port.TargetPort.StrVal && p.Protocol == port.Protocol {
				return p.ContainerPort, true
			}
		}
		return 0, false
	}
	for i := range pod.Spec.Containers {
		if number, ok := named(&pod.Spec.Containers[i]); ok {
			return number, true
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if !restart.Sidecar(c) {
			continue
		}
		if number, ok := named(c); ok {
			return number, true
		}
	}
	return 0, false
}

// Hash orders and distinguishes API values as upstream does, which makes written objects have the same order.
func Hash(value any) string {
	hasher := fnv.New128a()
	fmt.Fprint(hasher, dump.ForHash(value))
	return hex.EncodeToString(hasher.Sum(nil))
}

// Watch returns a handler for pods that enqueues the services affected by a change.
func Watch(services *informer.Informer[*corev1.Service], enqueue func(controllers.Key)) informer.Handler[*corev1.Pod] {
	all := func(pod *corev1.Pod) {
		for _, key := range selecting(services, pod.Namespace, pod.Labels) {
			enqueue(key)
		}
	}
	return informer.Handler[*corev1.Pod]{
		Added:   all,
		Deleted: all,
		Updated: func(old, pod *corev1.Pod) {
			relabeled := !maps.Equal(old.Labels, pod.Labels) || old.Spec.Hostname != pod.Spec.Hostname || old.Spec.Subdomain != pod.Spec.Subdomain
			changed := endpointChanged(old, pod)
			if !relabeled && !changed {
				return
			}
			now := selecting(services, pod.Namespace, pod.Labels)
			seen := map[controllers.Key]bool{}
			for _, key := range now {
				seen[key] = true
				enqueue(key)
			}
			if !relabeled {
				return
			}
			for _, key := range selecting(services, old.Namespace, old.Labels) {
				if !seen[key] {
					enqueue(key)
				}
			}
		},
	}
}

// selecting returns the keys of the services that select pods with these labels.
func selecting(services *informer.Informer[*corev1.Service], namespace string, set map[string]string) []controllers.Key {
	var keys []controllers.Key
	for _, service := range services.List(namespace) {
		if service.Spec.Selector != nil && labels.SelectorFromValidatedSet(service.Spec.Selector).Matches(labels.Set(set)) {
			keys = append(keys, controllers.Key{Namespace: namespace, Name: service.Name})
		}
	}
	return keys
}

// endpointChanged reports whether a pod changed in a way that affects its endpoint.
func endpointChanged(old, pod *corev1.Pod) bool {
	if !old.DeletionTimestamp.Equal(pod.DeletionTimestamp) || pods.Ready(old) != pods.Ready(pod) ||
		pods.Terminal(old) != pods.Terminal(pod) || len(old.Status.PodIPs) != len(pod.Status.PodIPs) {
		return true
	}
	for i := range old.Status.PodIPs {
		if old.Status.PodIPs[i] != pod.Status.PodIPs[i] {
			return true
		}
	}
	return false
}
