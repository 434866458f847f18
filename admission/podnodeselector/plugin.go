package podnodeselector

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/internal/pods"
)

// Name is the plugin's name.
const Name = "PodNodeSelector"

// Annotation is the annotation of a namespace with the node selector of its pods, "a=b,c=d".
const Annotation = "scheduler.alpha.kubernetes.io/node-selector"

// Namespaces is the cache that the plugin reads; an informer of namespaces is one.
type Namespaces interface {
	// Get returns the namespace of that name; the first argument is empty.
	Get(namespace, name string) (*corev1.Namespace, bool)
}

// Options are the options of the plugin. The zero value is valid.
type Options struct {
	// Default is the node selector, "a=b,c=d", of pods in namespaces without the annotation. In upstream's
	// configuration file it is clusterDefaultNodeSelector.
	Default string
	// Allowed are the only labels, "a=b,c=d", that pods of a namespace may select nodes by. A namespace that is not
	// listed may use all.
	Allowed map[string]string
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct {
	namespaces Namespaces
	byDefault  labels.Set
	allowed    map[string]labels.Set
}

var (
	_ admission.Mutator   = (*Plugin)(nil)
	_ admission.Validator = (*Plugin)(nil)
)

// New returns the plugin. It fails if an option is no selector.
func New(namespaces Namespaces, o Options) (*Plugin, error) {
	p := &Plugin{namespaces: namespaces, allowed: make(map[string]labels.Set, len(o.Allowed))}
	var err error
	if p.byDefault, err = labels.ConvertSelectorToLabelsMap(o.Default); err != nil {
		return nil, fmt.Errorf("default node selector: %w", err)
	}
	for ns, selector := range o.Allowed {
		if p.allowed[ns], err = labels.ConvertSelectorToLabelsMap(selector); err != nil {
			return nil, fmt.Errorf("node selectors allowed in namespace %s: %w", ns, err)
		}
	}
	return p, nil
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Create }

// Admit implements admission.Mutator.
func (p *Plugin) Admit(ctx context.Context, r *admission.Request) error {
	pod, selector, err := p.read(r)
	if pod == nil {
		return err
	}
	merged := labels.Set{}
	maps.Copy(merged, selector)
	maps.Copy(merged, pod.Spec.NodeSelector)
	pod.Spec.NodeSelector = merged
	return p.Validate(ctx, r)
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(_ context.Context, r *admission.Request) error {
	pod, _, err := p.read(r)
	if pod == nil {
		return err
	}
	allowed := p.allowed[r.Namespace]
	for key, value := range pod.Spec.NodeSelector {
		if has, ok := allowed[key]; len(allowed) > 0 && (!ok || has != value) {
			return forbidden(r, pod, "pod node label selector labels conflict with its namespace whitelist")
		}
	}
	return nil
}

// read returns the pod of a request and the selector of its namespace, which the pod's does not contradict; a nil pod if the
// request is about something else.
func (p *Plugin) read(r *admission.Request) (*corev1.Pod, labels.Set, error) {
	pod, err := pods.In(r)
	if pod == nil {
		return nil, nil, err
	}
	selector, err := p.selector(r)
	if err != nil {
		return nil, nil, err
	}
	if labels.Conflicts(selector, labels.Set(pod.Spec.NodeSelector)) {
		return nil, nil, forbidden(r, pod, "pod node label selector conflicts with its namespace node label selector")
	}
	return pod, selector, nil
}

func (p *Plugin) selector(r *admission.Request) (labels.Set, error) {
	ns, err := pods.Namespace(p.namespaces, r)
	if err != nil {
		return nil, err
	}
	if text, ok := ns.Annotations[Annotation]; ok {
		return labels.ConvertSelectorToLabelsMap(text)
	}
	return p.byDefault, nil
}

// forbidden refuses a pod. As upstream's, the refusal has no generateName.
func forbidden(r *admission.Request, pod *corev1.Pod, message string) error {
	refusal := admission.Forbidden(r, "%s", message)
	refusal.Name = pod.Name
	return refusal
}
