package podsecurity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	psaconfig "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/admission/api/validation"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "PodSecurity"

// ErrConfiguration means that the defaults or exemptions of Options are invalid.
var ErrConfiguration = errors.New("bad pod security configuration")

// Namespaces reads namespaces by name; an informer of namespaces is one.
type Namespaces interface {
	// Get returns the namespace; the first argument is empty.
	Get(namespace, name string) (*corev1.Namespace, bool)
}

// Pods lists pods by namespace; an informer of pods is one.
type Pods interface {
	List(namespace string) []*corev1.Pod
}

// Options are the options of the plugin. The zero value is upstream's: namespaces without labels are
// privileged, and nothing is exempt.
type Options struct {
	// Defaults apply to namespaces without a label; empty fields mean privileged and latest.
	Defaults psaconfig.PodSecurityDefaults
	// Exemptions are namespaces, users and runtime classes whose pods are not checked.
	Exemptions psaconfig.PodSecurityExemptions
	// Warn warns the client of the request that ctx belongs to, such as registry.Warn; nil drops warnings.
	Warn func(ctx context.Context, text string)
	// Annotate adds to the audit log, such as audit.Annotate; nil adds nothing.
	Annotate func(ctx context.Context, key, value string)
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct {
	namespaces Namespaces
	pods       Pods
	options    Options
	defaults   psa.Policy
	evaluator  func() (policy.Evaluator, error) // built at the first call
}

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin. It reads the labels of namespaces, and the pods of those whose level rises.
func New(namespaces Namespaces, pods Pods, o Options) (*Plugin, error) {
	d := &o.Defaults
	for _, level := range []*string{&d.Enforce, &d.Audit, &d.Warn} {
		*level = cmp.Or(*level, string(psa.LevelPrivileged))
	}
	for _, version := range []*string{&d.EnforceVersion, &d.AuditVersion, &d.WarnVersion} {
		*version = cmp.Or(*version, psa.VersionLatest)
	}
	config := &psaconfig.PodSecurityConfiguration{Defaults: o.Defaults, Exemptions: o.Exemptions}
	if errs := validation.ValidatePodSecurityConfiguration(config); len(errs) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrConfiguration, errs.ToAggregate())
	}
	defaults, err := psaconfig.ToPolicy(o.Defaults)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfiguration, err)
	}
	if o.Warn == nil {
		o.Warn = func(context.Context, string) {}
	}
	if o.Annotate == nil {
		o.Annotate = func(context.Context, string, string) {}
	}
	return &Plugin{
		namespaces: namespaces, pods: pods, options: o, defaults: defaults,
		evaluator: sync.OnceValues(func() (policy.Evaluator, error) {
			return policy.NewEvaluator(policy.DefaultChecks(), nil)
		}),
	}, nil
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	switch r.Resource.Group {
	case "":
		switch r.Resource.Resource {
		case "namespaces":
			return p.namespace(ctx, r)
		case "pods":
			return p.pod(ctx, r)
		case "replicationcontrollers", "podtemplates":
			return p.workload(ctx, r)
		}
	case "apps":
		switch r.Resource.Resource {
		case "replicasets", "deployments", "statefulsets", "daemonsets":
			return p.workload(ctx, r)
		}
	case "batch":
		switch r.Resource.Resource {
		case "jobs", "cronjobs":
			return p.workload(ctx, r)
		}
	}
	return nil
}

// policyOf returns a namespace's policy; if its labels are invalid, it returns errors and enforces the
// strictest level.
func (p *Plugin) policyOf(ns *corev1.Namespace) (psa.Policy, field.ErrorList) {
	return psa.PolicyToEvaluate(ns.Labels, p.defaults)
}

func (p *Plugin) annotate(ctx context.Context, key, value string) {
	p.options.Annotate(ctx, psa.AuditAnnotationPrefix+key, value)
}
