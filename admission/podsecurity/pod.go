package podsecurity

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/keelson-dev/keelson/admission"
)

// pod checks a pod, and every subresource that may change what it runs.
func (p *Plugin) pod(ctx context.Context, r *admission.Request) error {
	switch r.Subresource {
	case "exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status":
		return nil
	}
	if p.exempt(ctx, r) {
		return nil
	}
	ns, ok := p.namespaces.Get("", r.Namespace)
	if !ok {
		err := fmt.Errorf("failed to lookup namespace %q", r.Namespace)
		p.annotate(ctx, "error", fmt.Sprintf("Internal error occurred: %v: namespace %q not found", err, r.Namespace))
		return admission.Internal(err)
	}
	want, errs := p.policyOf(ns)
	if len(errs) == 0 && want.FullyPrivileged() {
		latest := psa.LevelVersion{Level: psa.LevelPrivileged, Version: psa.LatestVersion()}
		p.annotate(ctx, psa.EnforcedPolicyAnnotationKey, latest.String())
		return nil
	}
	pod, ok := r.Object.(*corev1.Pod)
	if !ok {
		return p.undecodable(ctx, "failed to decode pod")
	}
	if r.Operation == admission.Update {
		old, ok := r.OldObject.(*corev1.Pod)
		if !ok {
			return p.undecodable(ctx, "failed to decode old pod")
		}
		if !matters(pod, old) {
			return nil
		}
	}
	return p.judge(ctx, r, subject{want, errs, &pod.ObjectMeta, &pod.Spec, true})
}

func (p *Plugin) undecodable(ctx context.Context, message string) error {
	p.annotate(ctx, "error", message)
	return admission.BadRequest("%s", message)
}

// workload records and warns of violations by future pods. It never refuses.
func (p *Plugin) workload(ctx context.Context, r *admission.Request) error {
	if r.Subresource != "" || p.exempt(ctx, r) {
		return nil
	}
	ns, ok := p.namespaces.Get("", r.Namespace)
	if !ok {
		p.annotate(ctx, "error", fmt.Sprintf("failed to lookup namespace %q: namespace %q not found", r.Namespace, r.Namespace))
		return nil
	}
	want, errs := p.policyOf(ns)
	if len(errs) == 0 && want.Warn.Level == psa.LevelPrivileged && want.Audit.Level == psa.LevelPrivileged {
		return nil
	}
	template, ok := templateOf(r.Object)
	switch {
	case !ok:
		p.annotate(ctx, "error", fmt.Sprintf("failed to extract pod template: unexpected object type: %T", r.Object))
		return nil
	case template == nil:
		return nil
	}
	return p.judge(ctx, r, subject{want, errs, &template.ObjectMeta, &template.Spec, false})
}

// templateOf returns a workload's pod template, nil if it has none, and false if obj is not a workload.
func templateOf(obj any) (*corev1.PodTemplateSpec, bool) {
	switch o := obj.(type) {
	case *corev1.PodTemplate:
		return &o.Template, true
	case *corev1.ReplicationController:
		return o.Spec.Template, true
	case *appsv1.ReplicaSet:
		return &o.Spec.Template, true
	case *appsv1.Deployment:
		return &o.Spec.Template, true
	case *appsv1.DaemonSet:
		return &o.Spec.Template, true
	case *appsv1.StatefulSet:
		return &o.Spec.Template, true
	case *batchv1.Job:
		return &o.Spec.Template, true
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template, true
	}
	return nil, false
}

// exempt reports whether the request's namespace or user is exempt, and records it. No exemption is empty: New
// checks.
func (p *Plugin) exempt(ctx context.Context, r *admission.Request) bool {
	switch {
	case p.exemptNamespace(r.Namespace):
		p.annotate(ctx, psa.ExemptionReasonAnnotationKey, "namespace")
	case r.User != nil && slices.Contains(p.options.Exemptions.Usernames, r.User.Name):
		p.annotate(ctx, psa.ExemptionReasonAnnotationKey, "user")
	default:
		return false
	}
	return true
}

func (p *Plugin) exemptNamespace(name string) bool {
	return slices.Contains(p.options.Exemptions.Namespaces, name)
}

func (p *Plugin) exemptRuntime(class *string) bool {
	return class != nil && slices.Contains(p.options.Exemptions.RuntimeClasses, *class)
}

// subject is a pod, existing or future, and the policy for it.
type subject struct {
	want    psa.Policy
	errs    field.ErrorList // errors of the policy's labels
	meta    *metav1.ObjectMeta
	spec    *corev1.PodSpec
	enforce bool
}

// judge checks a pod against all three levels, equal ones once.
func (p *Plugin) judge(ctx context.Context, r *admission.Request, s subject) error {
	if p.exemptRuntime(s.spec.RuntimeClassName) {
		p.annotate(ctx, psa.ExemptionReasonAnnotationKey, "runtimeClass")
		return nil
	}
	evaluator, err := p.evaluator()
	if err != nil {
		return admission.Internal(err)
	}
	if len(s.errs) > 0 {
		p.annotate(ctx, "error", fmt.Sprintf("Failed to parse policy: %v", s.errs.ToAggregate()))
	}
	results := map[psa.LevelVersion]*policy.AggregateCheckResult{}
	check := func(level psa.LevelVersion) *policy.AggregateCheckResult {
		if results[level] == nil {
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, s.meta, s.spec))
			results[level] = &result
		}
		return results[level]
	}
	var refusal error
	if s.enforce {
		level := s.want.Enforce
		p.annotate(ctx, psa.EnforcedPolicyAnnotationKey, level.String())
		if result := check(level); !result.Allowed {
			refusal = forbidden(r, level, result)
		}
	}
	if result := check(s.want.Audit); !result.Allowed {
		p.annotate(ctx, psa.AuditViolationsAnnotationKey, would(s.want.Audit, result))
	}
	if refusal != nil {
		return refusal
	}
	if result := check(s.want.Warn); !result.Allowed {
		p.options.Warn(ctx, would(s.want.Warn, result))
	}
	return nil
}

func would(level psa.LevelVersion, result *policy.AggregateCheckResult) string {
	return fmt.Sprintf("would violate PodSecurity %q: %s", level.String(), result.ForbiddenDetail())
}

// forbidden names the object as the request does; for a subresource, that is the pod.
func forbidden(r *admission.Request, level psa.LevelVersion, result *policy.AggregateCheckResult) error {
	return &admission.Error{
		Err: admission.ErrForbidden, Resource: r.Resource.GroupResource(), Name: r.Name,
		Message: fmt.Sprintf("violates PodSecurity %q: %s", level.String(), result.ForbiddenDetail()),
	}
}

// matters reports whether an update changes what the standards check: of a pod's mutable fields, these are
// images and added containers.
func matters(pod, old *corev1.Pod) bool {
	same := func(a, b corev1.Container) bool { return a.Image == b.Image }
	if !slices.EqualFunc(pod.Spec.Containers, old.Spec.Containers, same) ||
		!slices.EqualFunc(pod.Spec.InitContainers, old.Spec.InitContainers, same) {
		return true
	}
	return slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool {
		at := slices.IndexFunc(old.Spec.EphemeralContainers, func(o corev1.EphemeralContainer) bool { return o.Name == c.Name })
		return at < 0 || old.Spec.EphemeralContainers[at].Image != c.Image
	})
}
