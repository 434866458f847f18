package priority

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "Priority"

// Classes is the cache that the plugin reads; an informer of PriorityClasses is one.
type Classes interface {
	// Get returns the class of that name; the first argument is empty.
	Get(namespace, name string) (*schedulingv1.PriorityClass, bool)
	// List returns all classes, sorted by name; the argument is empty.
	List(namespace string) []*schedulingv1.PriorityClass
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ classes Classes }

var (
	_ admission.Mutator   = (*Plugin)(nil)
	_ admission.Validator = (*Plugin)(nil)
)

// New returns the plugin.
func New(classes Classes) *Plugin { return &Plugin{classes} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Admit implements admission.Mutator.
func (p *Plugin) Admit(_ context.Context, r *admission.Request) error {
	if r.Resource.GroupResource() != (schema.GroupResource{Resource: "pods"}) || r.Subresource != "" {
		return nil
	}
	pod, ok := r.Object.(*corev1.Pod)
	if !ok {
		return errNot("Pod")
	}
	if r.Operation == admission.Update {
		old, ok := r.OldObject.(*corev1.Pod)
		if !ok {
			return errNot("Pod")
		}
		keep(pod, old)
		return nil
	}
	return p.resolve(r, pod)
}

// keep restores what was set when the pod was created.
func keep(pod, old *corev1.Pod) {
	if pod.Spec.Priority == nil && old.Spec.Priority != nil {
		v := *old.Spec.Priority
		pod.Spec.Priority = &v
	}
	if pod.Spec.PreemptionPolicy == nil && old.Spec.PreemptionPolicy != nil {
		v := *old.Spec.PreemptionPolicy
		pod.Spec.PreemptionPolicy = &v
	}
}

// resolve sets the priority and preemption policy of the pod's class.
func (p *Plugin) resolve(r *admission.Request, pod *corev1.Pod) error {
	class, err := p.classOf(r, pod)
	if err != nil {
		return err
	}
	pod.Spec.PriorityClassName = class.Name
	if given := pod.Spec.Priority; given != nil && *given != class.Value {
		return admission.Forbidden(r, "the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *given, class.Value)
	}
	value := class.Value
	pod.Spec.Priority = &value
	if class.PreemptionPolicy == nil {
		return nil
	}
	policy := *class.PreemptionPolicy
	if given := pod.Spec.PreemptionPolicy; given != nil && *given != policy {
		return admission.Forbidden(r, "the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *given, policy)
	}
	pod.Spec.PreemptionPolicy = &policy
	return nil
}

// classOf returns the class that the pod names, the default class, or a substitute if there is neither.
func (p *Plugin) classOf(r *admission.Request, pod *corev1.Pod) (*schedulingv1.PriorityClass, error) {
	if name := pod.Spec.PriorityClassName; name != "" {
		class, ok := p.classes.Get("", name)
		if !ok {
			return nil, admission.Forbidden(r, "no PriorityClass with name %v was found", name)
		}
		return class, nil
	}
	if class := p.globalDefault(); class != nil {
		return class, nil
	}
	policy := corev1.PreemptLowerPriority
	return &schedulingv1.PriorityClass{PreemptionPolicy: &policy}, nil
}

// globalDefault returns the class that is marked as the default, or nil. If a race left several, the lowest
// counts.
func (p *Plugin) globalDefault() *schedulingv1.PriorityClass {
	var lowest *schedulingv1.PriorityClass
	for _, c := range p.classes.List("") {
		if c.GlobalDefault && (lowest == nil || c.Value < lowest.Value) {
			lowest = c
		}
	}
	return lowest
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(_ context.Context, r *admission.Request) error {
	if r.Resource.GroupResource() != (schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}) || r.Subresource != "" {
		return nil
	}
	class, ok := r.Object.(*schedulingv1.PriorityClass)
	if !ok {
		return errNot("PriorityClass")
	}
	if !class.GlobalDefault {
		return nil
	}
	current := p.globalDefault()
	if current == nil || r.Operation == admission.Update && current.Name == class.Name {
		return nil
	}
	return admission.Forbidden(r, "PriorityClass %v is already marked as default. Only one default can exist", current.Name)
}

func errNot(kind string) error {
	return admission.BadRequest("resource was marked with kind %s but was unable to be converted", kind)
}
