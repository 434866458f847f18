package podspec

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

func (v *validator) affinity(p *field.Path) {
	a := v.spec.Affinity
	if a == nil {
		return
	}
	if a.NodeAffinity != nil {
		v.nodeAffinity(a.NodeAffinity, p.Child("nodeAffinity"))
	}
	if pa := a.PodAffinity; pa != nil {
		at := p.Child("podAffinity")
		v.podTerms(pa.RequiredDuringSchedulingIgnoredDuringExecution, at.Child(required))
		v.weightedPodTerms(pa.PreferredDuringSchedulingIgnoredDuringExecution, at.Child(preferred))
	}
	if pa := a.PodAntiAffinity; pa != nil {
		at := p.Child("podAntiAffinity")
		v.podTerms(pa.RequiredDuringSchedulingIgnoredDuringExecution, at.Child(required))
		v.weightedPodTerms(pa.PreferredDuringSchedulingIgnoredDuringExecution, at.Child(preferred))
	}
}

func (v *validator) nodeAffinity(a *corev1.NodeAffinity, p *field.Path) {
	if r := a.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		v.nodeSelector(r, p.Child(required), v.allow.invalidNodeAffinityValues)
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		term, at := &a.PreferredDuringSchedulingIgnoredDuringExecution[i], p.Child(preferred).Index(i)
		v.weight(term.Weight, at)
		v.nodeTerm(&term.Preference, at.Child("preference"), true)
	}
}

func (v *validator) weight(w int32, p *field.Path) {
	if w <= 0 || w > 100 {
		v.invalid(p.Child("weight"), w, "must be in the range 1-100")
	}
}

func (r *report) nodeSelector(s *corev1.NodeSelector, p *field.Path, anyValue bool) {
	terms := p.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		r.required(terms, "must have at least one node selector term")
	}
	for i := range s.NodeSelectorTerms {
		r.nodeTerm(&s.NodeSelectorTerms[i], terms.Index(i), anyValue)
	}
}

func (r *report) nodeTerm(t *corev1.NodeSelectorTerm, p *field.Path, anyValue bool) {
	for i := range t.MatchExpressions {
		r.nodeLabel(&t.MatchExpressions[i], p.Child("matchExpressions").Index(i), anyValue)
	}
	for i := range t.MatchFields {
		r.nodeField(&t.MatchFields[i], p.Child("matchFields").Index(i))
	}
}

func (r *report) nodeLabel(req *corev1.NodeSelectorRequirement, p *field.Path, anyValue bool) {
	values := p.Child("values")
	switch req.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(req.Values) == 0 {
			r.required(values, "must be specified when `operator` is 'In' or 'NotIn'")
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(req.Values) > 0 {
			r.forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(req.Values) != 1 {
			r.required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'")
		}
	default:
		r.invalid(p.Child("operator"), req.Operator, "not a valid selector operator")
	}
	r.add(metavalidation.ValidateLabelName(req.Key, p.Child("key"))...)
	if anyValue {
		return
	}
	for i, value := range req.Values {
		r.invalid(values.Index(i), value, validation.IsValidLabelValue(value)...)
	}
}

func (r *report) nodeField(req *corev1.NodeSelectorRequirement, p *field.Path) {
	if req.Operator != corev1.NodeSelectorOpIn && req.Operator != corev1.NodeSelectorOpNotIn {
		r.invalid(p.Child("operator"), req.Operator, "not a valid selector operator")
	} else if len(req.Values) != 1 {
		r.required(p.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
	}
	if req.Key != metav1.ObjectNameField {
		r.invalid(p.Child("key"), req.Key, "not a valid field selector key")
		return
	}
	for i, value := range req.Values {
		r.name(p.Child("values").Index(i), value, false)
	}
}

func (v *validator) podTerms(terms []corev1.PodAffinityTerm, p *field.Path) {
	for i := range terms {
		v.podTerm(&terms[i], p.Index(i))
	}
}

func (v *validator) weightedPodTerms(terms []corev1.WeightedPodAffinityTerm, p *field.Path) {
	for i := range terms {
		v.weight(terms[i].Weight, p.Index(i))
		v.podTerm(&terms[i].PodAffinityTerm, p.Index(i).Child("podAffinityTerm"))
	}
}

func (v *validator) podTerm(t *corev1.PodAffinityTerm, p *field.Path) {
	o := metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: v.allow.invalidSelectorValues}
	v.add(metavalidation.ValidateLabelSelector(t.LabelSelector, o, p.Child("labelSelector"))...)
	v.add(metavalidation.ValidateLabelSelector(t.NamespaceSelector, o, p.Child("namespaceSelector"))...)
	for _, name := range t.Namespaces {
		v.invalid(p.Child("namespace"), name, apivalidation.ValidateNamespaceName(name, false)...)
	}
	v.matchLabelKeys(p, t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector)
	if t.TopologyKey == "" {
		v.required(p.Child("topologyKey"), "can not be empty")
	}
	v.add(metavalidation.ValidateLabelName(t.TopologyKey, p.Child("topologyKey"))...)
}

// matchLabelKeys validates the keys whose values come from a pod's labels (KEP-3633). The selector may already have
// them, merged in when the pod was created, but no other requirement with the same key.
func (r *report) matchLabelKeys(p *field.Path, match, mismatch []string, selector *metav1.LabelSelector) {
	r.labelKeys(p.Child("matchLabelKeys"), match, selector)
	r.labelKeys(p.Child("mismatchLabelKeys"), mismatch, selector)
	index := map[string]int{}
	for i, key := range match {
		index[key] = i
	}
	if selector != nil {
		seen := map[string]bool{}
		for key := range selector.MatchLabels {
			seen[key] = true
		}
		for _, e := range selector.MatchExpressions {
			if i, ok := index[e.Key]; ok && seen[e.Key] {
				r.invalid(p.Index(i), e.Key, "exists in both matchLabelKeys and labelSelector")
			}
			seen[e.Key] = true
		}
	}
	others := map[string]bool{}
	for _, key := range mismatch {
		others[key] = true
	}
	for i, key := range match {
		if others[key] {
			r.invalid(p.Child("matchLabelKeys").Index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys")
		}
	}
}

func (r *report) labelKeys(p *field.Path, keys []string, selector *metav1.LabelSelector) {
	if len(keys) > 0 && selector == nil {
		r.forbidden(p, "must not be specified when labelSelector is not set")
		return
	}
	for i, key := range keys {
		r.add(metavalidation.ValidateLabelName(key, p.Index(i))...)
	}
}

func (v *validator) spreadConstraints(p *field.Path) {
	list := v.spec.TopologySpreadConstraints
	last := make(map[spread]int, len(list))
	for i := range list {
		last[spreadOf(&list[i])] = i
	}
	for i := range list {
		v.spreadConstraint(&list[i], p.Index(i))
		if last[spreadOf(&list[i])] > i { // another constraint has the same topology and strictness
			v.duplicate(p.Index(i).Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", list[i].TopologyKey, list[i].WhenUnsatisfiable))
		}
		v.spreadPolicies(&list[i], p.Index(i))
	}
}

// spread is what must be unique among the constraints of a pod.
type spread struct {
	key  string
	when corev1.UnsatisfiableConstraintAction
}

func spreadOf(c *corev1.TopologySpreadConstraint) spread {
	return spread{c.TopologyKey, c.WhenUnsatisfiable}
}

func (v *validator) spreadConstraint(c *corev1.TopologySpreadConstraint, p *field.Path) {
	if c.MaxSkew <= 0 {
		v.invalid(p.Child("maxSkew"), int64(c.MaxSkew), notPositive)
	}
	if c.TopologyKey == "" {
		v.required(p.Child("topologyKey"), "can not be empty")
	}
	oneOf(&v.report, p.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
}

func (v *validator) spreadPolicies(c *corev1.TopologySpreadConstraint, p *field.Path) {
	if n := c.MinDomains; n != nil {
		if *n <= 0 {
			v.invalid(p.Child("minDomains"), int64(*n), notPositive)
		}
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			v.invalid(p.Child("minDomains"), n, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, c.WhenUnsatisfiable))
		}
	}
	if c.NodeAffinityPolicy != nil {
		oneOf(&v.report, p.Child("nodeAffinityPolicy"), *c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
	}
	if c.NodeTaintsPolicy != nil {
		oneOf(&v.report, p.Child("nodeTaintsPolicy"), *c.NodeTaintsPolicy, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
	}
	if v.allow.invalidSpreadLabelKeys {
		v.unmergedLabelKeys(p.Child("matchLabelKeys"), c.MatchLabelKeys, c.LabelSelector)
	} else {
		v.matchLabelKeys(p, c.MatchLabelKeys, nil, c.LabelSelector)
	}
	if !v.allow.invalidSpreadSelector {
		v.add(metavalidation.ValidateLabelSelector(c.LabelSelector, metavalidation.LabelSelectorValidationOptions{}, p.Child("labelSelector"))...)
	}
}

// unmergedLabelKeys validates matchLabelKeys by the rules before they were merged into the selector, for constraints
// created at that time.
func (v *validator) unmergedLabelKeys(p *field.Path, keys []string, selector *metav1.LabelSelector) {
	if len(keys) == 0 {
		return
	}
	used := map[string]bool{}
	if selector == nil {
		v.forbidden(p, "must not be specified when labelSelector is not set")
	} else {
		for key := range selector.MatchLabels {
			used[key] = true
		}
		for _, e := range selector.MatchExpressions {
			used[e.Key] = true
		}
	}
	for i, key := range keys {
		v.add(metavalidation.ValidateLabelName(key, p.Index(i))...)
		if used[key] {
			v.invalid(p.Index(i), key, "exists in both matchLabelKeys and labelSelector")
		}
	}
}

func (v *validator) tolerations(list []corev1.Toleration, p *field.Path) {
	for i := range list {
		v.toleration(&list[i], p.Index(i))
	}
}

func (v *validator) toleration(t *corev1.Toleration, p *field.Path) {
	if t.Key != "" {
		v.add(metavalidation.ValidateLabelName(t.Key, p.Child("key"))...)
	}
	if t.Key == "" && t.Operator != corev1.TolerationOpExists {
		v.invalid(p.Child("operator"), t.Operator,
			"operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		v.invalid(p.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
	}
	switch operator := p.Child("operator"); t.Operator {
	case corev1.TolerationOpEqual, "":
		if messages := validation.IsValidLabelValue(t.Value); len(messages) > 0 {
			v.invalid(operator, t.Value, strings.Join(messages, ";"))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			v.invalid(operator, t.Value, "value must be empty when `operator` is 'Exists'")
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		if v.allow.comparingTolerations {
			v.invalid(p.Child("value"), t.Value, content.IsDecimalInteger(t.Value)...)
			if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
				v.invalid(p.Child("value"), t.Value, err.Error())
			}
			break
		}
		v.add(field.NotSupported(operator, t.Operator, []corev1.TolerationOperator{
			corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt,
		}))
	default:
		oneOf(&v.report, operator, t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)
	}
	if t.Effect != "" {
		oneOf(&v.report, p.Child("effect"), t.Effect,
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
	}
}
