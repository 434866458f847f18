package runtimeclass

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "RuntimeClass"

// Classes is the cache that the plugin reads; an informer of RuntimeClasses is one.
type Classes interface {
	// Get returns the class of that name; the first argument is empty.
	Get(namespace, name string) (*nodev1.RuntimeClass, bool)
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ classes Classes }

var (
	_ admission.Mutator   = (*Plugin)(nil)
	_ admission.Validator = (*Plugin)(nil)
)

// New returns the plugin. Nil classes means that there are none.
func New(classes Classes) *Plugin { return &Plugin{classes} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Create }

// Admit implements admission.Mutator.
func (p *Plugin) Admit(_ context.Context, r *admission.Request) error {
	pod, class, err := p.read(r)
	if err != nil || class == nil {
		return err
	}
	if class.Overhead != nil {
		if len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return errOverhead(r)
		}
		pod.Spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	}
	if class.Scheduling == nil {
		return nil
	}
	for key, value := range class.Scheduling.NodeSelector {
		if own, ok := pod.Spec.NodeSelector[key]; ok && own != value {
			return admission.Forbidden(r, "conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, own)
		}
	}
	for key, value := range class.Scheduling.NodeSelector {
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[key] = value
	}
	pod.Spec.Tolerations = mergeTolerations(pod.Spec.Tolerations, class.Scheduling.Tolerations)
	return nil
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(_ context.Context, r *admission.Request) error {
	pod, class, err := p.read(r)
	switch {
	case err != nil || pod == nil:
		return err
	case class != nil && class.Overhead != nil:
		if !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return errOverhead(r)
		}
	case pod.Spec.Overhead != nil:
		return admission.Forbidden(r, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
	}
	return nil
}

// read returns the pod of a request and its class; no pod if the request is about something else, no class if
// the pod has none.
func (p *Plugin) read(r *admission.Request) (*corev1.Pod, *nodev1.RuntimeClass, error) {
	if r.Resource.GroupResource() != (schema.GroupResource{Resource: "pods"}) || r.Subresource != "" {
		return nil, nil, nil
	}
	pod, ok := r.Object.(*corev1.Pod)
	if !ok {
		return nil, nil, admission.BadRequest("Resource was marked with kind Pod but was unable to be converted")
	}
	if pod.Spec.RuntimeClassName == nil {
		return pod, nil, nil
	}
	name := *pod.Spec.RuntimeClassName
	if p.classes != nil {
		if class, ok := p.classes.Get("", name); ok {
			return pod, class, nil
		}
	}
	return nil, nil, admission.Forbidden(r, "pod rejected: RuntimeClass %q not found", name)
}

func errOverhead(r *admission.Request) error {
	return admission.Forbidden(r, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
}
