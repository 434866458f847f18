package podspec

import (
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateCreate validates a new pod except for its object metadata.
func ValidateCreate(pod *corev1.Pod) field.ErrorList {
	v := newValidator(&pod.Spec, &pod.ObjectMeta, Options{Pod: true})
	path := field.NewPath("spec")
	v.wholePod(pod)
	if len(pod.Spec.EphemeralContainers) > 0 {
		v.forbidden(path.Child("ephemeralContainers"), "cannot be set on create")
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		v.forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared")
	}
	v.seccompMatches(pod.Annotations, path)
	v.appArmorMatches(pod.Annotations, path)
	return v.errs
}

// wholePod validates annotations and spec, and the rules that apply to pods but not to templates.
func (v *validator) wholePod(pod *corev1.Pod) {
	path := field.NewPath("spec")
	v.annotations(pod.Annotations, field.NewPath("metadata", "annotations"))
	v.validate(path)
	if pod.Spec.ServiceAccountName == "" {
		v.noTokens(path.Child("volumes"))
	}
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		v.nonNegative(path.Child("terminationGracePeriodSeconds"), *g)
	}
	for i := range pod.Spec.Containers {
		v.trimmedImage(&pod.Spec.Containers[i], path.Child("containers").Index(i))
	}
	for i := range pod.Spec.InitContainers {
		v.trimmedImage(&pod.Spec.InitContainers[i], path.Child("initContainers").Index(i))
	}
}

func (v *validator) noTokens(p *field.Path) {
	for i, volume := range v.spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for j, source := range volume.Projected.Sources {
			if source.ServiceAccountToken != nil {
				v.forbidden(p.Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"),
					"must not be specified when serviceAccountName is not set")
			}
		}
	}
}

// ValidateUpdate validates an update of a pod except for its object metadata. In the spec, the update may change
// images, shorten the deadline, add tolerations and remove scheduling gates. While there are gates, it may also
// restrict the choice of nodes (KEP-3838).
func ValidateUpdate(pod, old *corev1.Pod) field.ErrorList {
	v := newValidator(&pod.Spec, &pod.ObjectMeta, podUpdate(old))
	path := field.NewPath("spec")
	v.wholePod(pod)
	v.annotationUpdates(pod.Annotations, old.Annotations, field.NewPath("metadata", "annotations"))
	if !v.imageUpdates(pod.Spec.Containers, old.Spec.Containers, path.Child("containers")) ||
		!v.imageUpdates(pod.Spec.InitContainers, old.Spec.InitContainers, path.Child("initContainers")) ||
		!v.deadlineUpdate(old.Spec.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds")) {
		return v.errs
	}
	v.tolerationUpdates(old.Spec.Tolerations, path.Child("tolerations"))
	v.gateUpdates(old.Spec.SchedulingGates, path.Child("schedulingGates"))
	if !equality.Semantic.DeepEqual(pod.Spec, old.Spec) {
		v.otherUpdates(&old.Spec, path)
	}
	return v.errs
}

func (v *validator) imageUpdates(cs, old []corev1.Container, p *field.Path) bool {
	if len(cs) != len(old) {
		v.forbidden(p, "pod updates may not add or remove containers")
		return false
	}
	for i := range cs {
		v.need(p.Index(i).Child("image"), cs[i].Image)
		v.trimmedImage(&cs[i], p.Index(i))
	}
	return true
}

// deadlineUpdate allows setting or shortening a deadline; it returns false if validation should stop.
func (v *validator) deadlineUpdate(old *int64, p *field.Path) bool {
	d := v.spec.ActiveDeadlineSeconds
	switch {
	case d == nil && old != nil:
		v.invalid(p, d, "must not update from a positive integer to nil value")
	case d == nil:
	case *d < 0 || *d > math.MaxInt32:
		v.invalid(p, *d, validation.InclusiveRangeError(0, math.MaxInt32))
		return false
	case old != nil && *old < *d:
		v.invalid(p, *d, "must be less than or equal to previous value")
		return false
	}
	return true
}

func (v *validator) tolerationUpdates(old []corev1.Toleration, p *field.Path) {
	for _, before := range old {
		if !keepsToleration(v.spec.Tolerations, before) {
			v.forbidden(p, "existing toleration can not be modified except its tolerationSeconds")
			return
		}
	}
	v.tolerations(v.spec.Tolerations, p)
}

func keepsToleration(list []corev1.Toleration, before corev1.Toleration) bool {
	for _, t := range list {
		t.TolerationSeconds = before.TolerationSeconds
		if t == before {
			return true
		}
	}
	return false
}

func (v *validator) gateUpdates(old []corev1.PodSchedulingGate, p *field.Path) {
	for i, gate := range v.spec.SchedulingGates {
		if !hasGate(old, gate.Name) && !hasGate(v.spec.SchedulingGates[i+1:], gate.Name) {
			v.forbidden(p.Index(i).Child("name"), fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", gate.Name))
		}
	}
}

func hasGate(gates []corev1.PodSchedulingGate, name string) bool {
	for _, gate := range gates {
		if gate.Name == name {
			return true
		}
	}
	return false
}

// otherUpdates reverts the allowed changes in a copy, and rejects any other difference.
func (v *validator) otherUpdates(old *corev1.PodSpec, p *field.Path) {
	rest := v.spec.DeepCopy()
	rest.Containers = withImages(rest.Containers, old.Containers)
	rest.InitContainers = withImages(rest.InitContainers, old.InitContainers)
	rest.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds
	rest.SchedulingGates = old.SchedulingGates
	rest.Tolerations = old.Tolerations
	grace, before := rest.TerminationGracePeriodSeconds, old.TerminationGracePeriodSeconds
	if before != nil && *before < 0 && grace != nil && *grace == 1 {
		rest.TerminationGracePeriodSeconds = before
	}
	if len(old.SchedulingGates) > 0 {
		v.narrowedNodes(rest, old, p)
	}
	if equality.Semantic.DeepEqual(rest, old) {
		return
	}
	v.forbidden(p, fmt.Sprintf("pod updates may not change fields other than %s\n%v", strings.Join([]string{
		"`spec.containers[*].image`",
		"`spec.initContainers[*].image`",
		"`spec.activeDeadlineSeconds`",
		"`spec.tolerations` (only additions to existing tolerations)",
		"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
	}, ","), diff.Diff(asInternal(old), asInternal(rest))))
}

func withImages(cs, old []corev1.Container) []corev1.Container {
	if len(cs) == 0 {
		return nil
	}
	for i := range cs {
		cs[i].Image = old[i].Image
	}
	return cs
}

// narrowedNodes allows a gated pod to add requirements on its node, and reverts that in rest.
func (v *validator) narrowedNodes(rest, old *corev1.PodSpec, p *field.Path) {
	if !equality.Semantic.DeepEqual(rest.NodeSelector, old.NodeSelector) {
		for key, value := range old.NodeSelector {
			if now, ok := rest.NodeSelector[key]; !ok || now != value {
				v.invalid(p.Child("nodeSelector"), rest.NodeSelector, "only additions to spec.nodeSelector are allowed (no mutations or deletions)")
				break
			}
		}
		rest.NodeSelector = old.NodeSelector
	}
	now, before := nodeAffinityOf(rest), nodeAffinityOf(old)
	if equality.Semantic.DeepEqual(now, before) {
		return
	}
	v.narrowedAffinity(now, before, p.Child("affinity", "nodeAffinity"))
	switch a := rest.Affinity; {
	case a == nil && before == nil:
	case a == nil:
		rest.Affinity = &corev1.Affinity{NodeAffinity: before}
	case old.Affinity == nil && a.PodAffinity == nil && a.PodAntiAffinity == nil:
		rest.Affinity = nil
	default:
		a.NodeAffinity = before
	}
}

func nodeAffinityOf(spec *corev1.PodSpec) *corev1.NodeAffinity {
	if spec.Affinity == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity
}

// narrowedAffinity allows adding requirements to required terms. The terms are ORed: their number must not change.
func (v *validator) narrowedAffinity(now, before *corev1.NodeAffinity, p *field.Path) {
	terms, old := requiredTerms(now), requiredTerms(before)
	if len(old) == 0 {
		return
	}
	at := p.Child(required, "nodeSelectorTerms")
	if len(terms) != len(old) {
		v.invalid(at, asInternal(terms), "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
		return
	}
	for i := range old {
		if !onlyAdds(terms[i], old[i]) {
			v.invalid(at.Index(i), asInternal(terms[i]), "only additions are allowed (no mutations or deletions)")
		}
	}
}

func requiredTerms(a *corev1.NodeAffinity) []corev1.NodeSelectorTerm {
	if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

func onlyAdds(now, old corev1.NodeSelectorTerm) bool {
	if len(old.MatchExpressions) == 0 && len(old.MatchFields) == 0 {
		// An empty term matches nothing: any addition would widen the choice.
		return len(now.MatchExpressions) == 0 && len(now.MatchFields) == 0
	}
	return startsWith(now.MatchExpressions, old.MatchExpressions) && startsWith(now.MatchFields, old.MatchFields)
}

func startsWith(now, old []corev1.NodeSelectorRequirement) bool {
	n := len(old)
	return n == 0 || len(now) >= n && equality.Semantic.DeepEqual(now[:n], old)
}
