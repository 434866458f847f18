package podsecurity

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/keelson-dev/keelson/admission"
)

// Limits on the work for an update of a namespace, so that it does not time out.
const (
	maxPods = 3000
	maxTime = time.Second
)

// namespace requires valid labels, and warns when pods of the namespace violate them.
func (p *Plugin) namespace(ctx context.Context, r *admission.Request) error {
	if r.Subresource != "" {
		return nil
	}
	ns, ok := r.Object.(*corev1.Namespace)
	if !ok {
		return p.undecodable(ctx, "failed to decode namespace")
	}
	want, errs := p.policyOf(ns)
	if r.Operation == admission.Create {
		if len(errs) > 0 {
			return admission.Invalid(r, errs)
		}
		p.warnExempt(ctx, r, ns, want)
		return nil
	}
	old, ok := r.OldObject.(*corev1.Namespace)
	if !ok {
		return p.undecodable(ctx, "failed to decode  old namespace") // with upstream's two spaces
	}
	had, oldErrs := p.policyOf(old)
	if len(errs) > 0 && !reflect.DeepEqual(errs, oldErrs) {
		return admission.Invalid(r, errs)
	}
	switch {
	case want.Enforce == had.Enforce,
		want.Enforce.Level == psa.LevelPrivileged,
		want.Enforce.Version == had.Enforce.Version && psa.CompareLevels(want.Enforce.Level, had.Enforce.Level) < 1:
		return nil // nothing becomes stricter
	}
	if p.exemptNamespace(r.Namespace) {
		p.warnExempt(ctx, r, ns, want)
		return nil
	}
	return p.warnOfPods(ctx, ns.Name, want.Enforce)
}

// warnExempt warns that labels of an exempt namespace have no effect. It mentions only labels that are set, and
// not to privileged.
func (p *Plugin) warnExempt(ctx context.Context, r *admission.Request, ns *corev1.Namespace, want psa.Policy) {
	if !p.exemptNamespace(r.Namespace) || want.FullyPrivileged() || want.Equivalent(&p.defaults) {
		return
	}
	var modes []string
	for _, m := range []struct {
		name, level, version string
		want                 psa.LevelVersion
	}{
		{"enforce", psa.EnforceLevelLabel, psa.EnforceVersionLabel, want.Enforce},
		{"audit", psa.AuditLevelLabel, psa.AuditVersionLabel, want.Audit},
		{"warn", psa.WarnLevelLabel, psa.WarnVersionLabel, want.Warn},
	} {
		_, hasLevel := ns.Labels[m.level]
		_, hasVersion := ns.Labels[m.version]
		if m.want.Level != psa.LevelPrivileged && (hasLevel || hasVersion) {
			modes = append(modes, m.name+"="+m.want.String())
		}
	}
	p.options.Warn(ctx, fmt.Sprintf("namespace %q is exempt from Pod Security, and the policy (%s) will be ignored", ns.Name, strings.Join(modes, ", ")))
}

// offence is a violation that pods of a namespace have in common.
type offence struct {
	reason string
	first  string // the first pod by name
	count  int
}

// String returns upstream's sentence about it.
func (o *offence) String() string {
	switch o.count {
	case 1:
		return fmt.Sprintf("%s: %s", o.first, o.reason)
	case 2:
		return fmt.Sprintf("%s (and 1 other pod): %s", o.first, o.reason)
	}
	return fmt.Sprintf("%s (and %d other pods): %s", o.first, o.count-1, o.reason)
}

// warnOfPods warns of the pods in a namespace that a new level would refuse.
func (p *Plugin) warnOfPods(ctx context.Context, namespace string, level psa.LevelVersion) error {
	evaluator, err := p.evaluator()
	if err != nil {
		return admission.Internal(err)
	}
	limit := maxTime
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2) // the write itself needs some of it
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pods := p.inOrder(p.pods.List(namespace))
	checked := min(len(pods), maxPods)
	var offences []*offence
	for i, pod := range pods[:checked] {
		result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
		if !result.Allowed {
			offences = count(offences, result.ForbiddenReason(), pod.Name)
		}
		if ctx.Err() != nil {
			checked = i + 1
			break
		}
	}
	if checked < len(pods) {
		p.options.Warn(ctx, fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d existing pods", checked, len(pods)))
	}
	if len(offences) > 0 {
		p.options.Warn(ctx, fmt.Sprintf("existing pods in namespace %q violate the new PodSecurity enforce level %q", namespace, level.String()))
	}
	slices.SortFunc(offences, func(a, b *offence) int { return cmp.Compare(a.String(), b.String()) })
	for _, o := range offences {
		p.options.Warn(ctx, o.String())
	}
	return nil
}

func count(offences []*offence, reason, pod string) []*offence {
	for _, o := range offences {
		if o.reason == reason {
			o.first = min(o.first, pod)
			o.count++
			return offences
		}
	}
	return append(offences, &offence{reason: reason, first: pod, count: 1})
}

// inOrder puts one pod of each controller before its other pods, which are probably alike, and omits exempt
// pods.
func (p *Plugin) inOrder(pods []*corev1.Pod) []*corev1.Pod {
	var first, rest []*corev1.Pod
	seen := map[types.UID]bool{}
	for _, pod := range pods {
		if p.exemptRuntime(pod.Spec.RuntimeClassName) {
			continue
		}
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			if seen[owner.UID] {
				rest = append(rest, pod)
				continue
			}
			seen[owner.UID] = true
		}
		first = append(first, pod)
	}
	return append(first, rest...)
}
