package podtolerationrestriction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/internal/pods"
	"github.com/keelson-dev/keelson/podspec/qos"
)

// Name is the plugin's name.
const Name = "PodTolerationRestriction"

// The annotations of a namespace, each a JSON list of tolerations.
const (
	// DefaultAnnotation has what new pods tolerate; an empty value means nothing.
	DefaultAnnotation = "scheduler.alpha.kubernetes.io/defaultTolerations"
	// AllowedAnnotation has what covers all that pods may tolerate; an empty value allows all.
	AllowedAnnotation = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// ErrNotAllowed means that a pod tolerates what neither its namespace nor the cluster lets it tolerate.
var ErrNotAllowed = errors.New("pod tolerations (possibly merged with namespace default tolerations) conflict with its")

// Namespaces is the cache that the plugin reads; an informer of namespaces is one.
type Namespaces interface {
	// Get returns the namespace of that name; the first argument is empty.
	Get(namespace, name string) (*corev1.Namespace, bool)
}

// Options are what counts in namespaces without the annotations. The zero value is valid.
type Options struct {
	// Default are tolerations of new pods.
	Default []corev1.Toleration
	// Allowed cover all that pods may tolerate; empty allows all.
	Allowed []corev1.Toleration
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct {
	namespaces Namespaces
	options    Options
}

var (
	_ admission.Mutator   = (*Plugin)(nil)
	_ admission.Validator = (*Plugin)(nil)
)

// New returns the plugin.
func New(namespaces Namespaces, o Options) *Plugin { return &Plugin{namespaces, o} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Admit implements admission.Mutator.
func (p *Plugin) Admit(ctx context.Context, r *admission.Request) error {
	pod, err := pods.In(r)
	if pod == nil {
		return err
	}
	var more []corev1.Toleration
	if r.Operation == admission.Create {
		if more, err = p.setting(r, DefaultAnnotation, p.options.Default); err != nil {
			return err
		}
	}
	if qos.Class(pod) != corev1.PodQOSBestEffort {
		more = append(more[:len(more):len(more)], corev1.Toleration{
			Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	if len(more) > 0 {
		pod.Spec.Tolerations = pods.Merge(pod.Spec.Tolerations, more)
	}
	return p.Validate(ctx, r)
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(_ context.Context, r *admission.Request) error {
	pod, err := pods.In(r)
	if pod == nil || len(pod.Spec.Tolerations) == 0 {
		return err
	}
	own, err := p.setting(r, AllowedAnnotation, nil)
	if err != nil {
		return err
	}
	allowed, whose := own, "namespace"
	if allowed == nil {
		allowed, whose = p.options.Allowed, "cluster"
	}
	if !pods.Allowed(pod.Spec.Tolerations, allowed) {
		return fmt.Errorf("%w %s whitelist", ErrNotAllowed, whose)
	}
	return nil
}

// setting returns the tolerations in an annotation of a request's namespace, or otherwise if it has no such annotation.
func (p *Plugin) setting(r *admission.Request, annotation string, otherwise []corev1.Toleration) ([]corev1.Toleration, error) {
	ns, err := pods.Namespace(p.namespaces, r)
	if err != nil {
		return nil, err
	}
	text, ok := ns.Annotations[annotation]
	if !ok {
		return otherwise, nil
	}
	all := []corev1.Toleration{}
	if text == "" {
		return all, nil
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, err
	}
	return all, nil
}
