package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/client/manifest"
	"github.com/keelson-dev/keelson/networkpolicy"
)

// fromCluster reads what decides on connections.
func fromCluster(ctx context.Context, api kubernetes.Interface) (c networkpolicy.Cluster, err error) {
	policies, err := api.NetworkingV1().NetworkPolicies("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return c, err
	}
	namespaces, err := api.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return c, err
	}
	pods, err := api.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return c, err
	}
	return networkpolicy.Cluster{Policies: pointers(policies.Items), Namespaces: pointers(namespaces.Items), Pods: pointers(pods.Items)}, nil
}

func pointers[T any](all []T) (to []*T) {
	for i := range all {
		to = append(to, &all[i])
	}
	return to
}

// manifests collects the objects of files.
type manifests struct {
	networkpolicy.Cluster

	next netip.Addr // for pods without an address
}

// unknown has the addresses that stand for those of pods that have none.
func unknown() netip.Prefix { return netip.MustParsePrefix("0.0.0.0/8") }

// fromFiles reads manifests.
func fromFiles(names []string) (networkpolicy.Cluster, error) {
	m := manifests{next: unknown().Addr().Next()}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err == nil {
			err = m.read(data)
		}
		if err != nil {
			return m.Cluster, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, p := range m.Policies {
		m.namespace(p.Namespace)
	}
	for _, p := range m.Pods {
		m.namespace(p.Namespace)
	}
	return m.Cluster, nil
}

// read adds the objects of a file.
func (m *manifests) read(data []byte) error {
	for obj, err := range manifest.Decode(data, scheme.Codecs.UniversalDeserializer()) {
		if err != nil {
			return err
		}
		m.add(obj)
	}
	return nil
}

// add adds an object, unless connections do not depend on it.
func (m *manifests) add(obj runtime.Object) {
	switch obj := obj.(type) {
	case *networkingv1.NetworkPolicy:
		obj.Namespace = or(obj.Namespace)
		m.Policies = append(m.Policies, obj)
	case *corev1.Namespace:
		m.Namespaces = append(m.Namespaces, named(obj))
	case *corev1.Pod:
		m.pod(obj.ObjectMeta, obj.Spec, obj.Status)
	case *appsv1.Deployment:
		m.workload(obj.ObjectMeta, obj.Spec.Template)
	case *appsv1.ReplicaSet:
		m.workload(obj.ObjectMeta, obj.Spec.Template)
	case *appsv1.StatefulSet:
		m.workload(obj.ObjectMeta, obj.Spec.Template)
	case *appsv1.DaemonSet:
		m.workload(obj.ObjectMeta, obj.Spec.Template)
	case *batchv1.Job:
		m.workload(obj.ObjectMeta, obj.Spec.Template)
	case *batchv1.CronJob:
		m.workload(obj.ObjectMeta, obj.Spec.JobTemplate.Spec.Template)
	}
}

// workload adds one of the pods that a controller would make, under the controller's name.
func (m *manifests) workload(of metav1.ObjectMeta, template corev1.PodTemplateSpec) {
	meta := template.ObjectMeta
	meta.Namespace, meta.Name = of.Namespace, of.Name
	m.pod(meta, template.Spec, corev1.PodStatus{})
}

// pod adds a pod, with an address.
func (m *manifests) pod(meta metav1.ObjectMeta, spec corev1.PodSpec, status corev1.PodStatus) {
	meta.Namespace = or(meta.Namespace)
	if status.PodIP == "" && len(status.PodIPs) == 0 {
		status.PodIP = m.next.String()
		m.next = m.next.Next()
	}
	m.Pods = append(m.Pods, &corev1.Pod{ObjectMeta: meta, Spec: spec, Status: status})
}

func or(namespace string) string {
	if namespace == "" {
		return corev1.NamespaceDefault
	}
	return namespace
}

// named gives a namespace the label that servers give it.
func named(n *corev1.Namespace) *corev1.Namespace {
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[corev1.LabelMetadataName] = n.Name
	return n
}

// namespace adds a namespace that the files use and do not describe.
func (m *manifests) namespace(name string) {
	if !slices.ContainsFunc(m.Namespaces, func(n *corev1.Namespace) bool { return n.Name == name }) {
		m.Namespaces = append(m.Namespaces, named(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
}
