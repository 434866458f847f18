package controllerstest

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
)

// Complete returns a copy of an object with the required fields that it lacks: a container in pods and templates, a
// selector that matches the template, a port, an address type. It is for tests that are not about these fields.
func Complete[T informer.Object](obj T) T {
	completed := obj.DeepCopyObject().(T)
	switch o := any(completed).(type) {
	case *corev1.Pod:
		completePod(&o.Spec)
	case *appsv1.ReplicaSet:
		o.Spec.Selector = completeTemplate(o.Spec.Selector, &o.Spec.Template, o.Name)
	case *appsv1.Deployment:
		o.Spec.Selector = completeTemplate(o.Spec.Selector, &o.Spec.Template, o.Name)
	case *appsv1.StatefulSet:
		o.Spec.Selector = completeTemplate(o.Spec.Selector, &o.Spec.Template, o.Name)
	case *batchv1.Job:
		completeRunOnce(&o.Spec.Template.Spec)
	case *batchv1.CronJob:
		completeRunOnce(&o.Spec.JobTemplate.Spec.Template.Spec)
	case *appsv1.DaemonSet:
		o.Spec.Selector = completeTemplate(o.Spec.Selector, &o.Spec.Template, o.Name)
	case *corev1.ReplicationController:
		if o.Spec.Template == nil {
			o.Spec.Template = &corev1.PodTemplateSpec{}
		}
		var selector *metav1.LabelSelector
		if len(o.Spec.Selector) > 0 {
			selector = &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
		}
		o.Spec.Selector = completeTemplate(selector, o.Spec.Template, o.Name).MatchLabels
	case *corev1.Service:
		if len(o.Spec.Ports) == 0 && o.Spec.Type != corev1.ServiceTypeExternalName && o.Spec.ClusterIP != corev1.ClusterIPNone {
			o.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		}
	case *discoveryv1.EndpointSlice:
		if o.AddressType == "" {
			o.AddressType = discoveryv1.AddressTypeIPv4
		}
	}
	return completed
}

func completePod(spec *corev1.PodSpec) {
	if len(spec.Containers) == 0 {
		spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	}
}

// completeRunOnce completes pods that are not restarted.
func completeRunOnce(spec *corev1.PodSpec) {
	completePod(spec)
	if spec.RestartPolicy == "" {
		spec.RestartPolicy = corev1.RestartPolicyNever
	}
}

// completeTemplate returns the selector; if there is none, it makes one from the template's labels.
func completeTemplate(selector *metav1.LabelSelector, template *corev1.PodTemplateSpec, name string) *metav1.LabelSelector {
	completePod(&template.Spec)
	if selector == nil {
		if len(template.Labels) == 0 {
			template.Labels = map[string]string{"app": name}
		}
		return &metav1.LabelSelector{MatchLabels: template.Labels}
	}
	if len(template.Labels) == 0 {
		template.Labels = selector.MatchLabels
	}
	return selector
}
