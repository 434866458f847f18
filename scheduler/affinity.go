package scheduler

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// PodAffinity is a pod's parsed affinity and anti-affinity to other pods. It is shared and never changed.
type PodAffinity struct {
	// Required and RequiredAnti are the terms of required affinity and anti-affinity.
	Required, RequiredAnti []AffinityTerm
	// Preferred and PreferredAnti are those of preferred affinity and anti-affinity.
	Preferred, PreferredAnti []AffinityTerm
}

// AffinityTerm is a parsed term of a PodAffinity.
type AffinityTerm struct {
	TopologyKey string // the label of nodes whose values are the domains
	// Namespaces are the names of the namespaces of the other pods, sorted; those that NamespaceSelector selects are
	// added to them. If the term has neither, they are the pod's own namespace.
	Namespaces        []string
	NamespaceSelector labels.Selector
	// Selector selects the other pods.
	Selector labels.Selector
	// Weight is that of a preferred term.
	Weight int32
	// Key is equal for terms that are equal in everything but Weight.
	Key string
}

// Selects reports whether a term selects a pod. namespace is the labels of the pod's namespace.
func (t *AffinityTerm) Selects(pod *corev1.Pod, namespace labels.Set) bool {
	if slices.Contains(t.Namespaces, pod.Namespace) || t.NamespaceSelector.Matches(namespace) {
		return t.Selector.Matches(labels.Set(pod.Labels))
	}
	return false
}

// PodAffinityOf parses a pod's affinity to other pods; it returns nil for a pod without any. A list with a term that
// cannot be parsed is left out, and part of the error.
func PodAffinityOf(pod *corev1.Pod) (*PodAffinity, error) {
	if a := pod.Spec.Affinity; a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil {
		return nil, nil
	}
	near, apart := affinities(pod)
	var a PodAffinity
	var errs []error
	parse := func(list string, terms []corev1.WeightedPodAffinityTerm) []AffinityTerm {
		parsed, err := parseTerms(pod.Namespace, terms)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", list, err))
			return nil
		}
		return parsed
	}
	a.Required = parse("requiredAffinityTerms", weightless(near.RequiredDuringSchedulingIgnoredDuringExecution))
	a.RequiredAnti = parse("requiredAntiAffinityTerms", weightless(apart.RequiredDuringSchedulingIgnoredDuringExecution))
	a.Preferred = parse("preferredAffinityTerms", near.PreferredDuringSchedulingIgnoredDuringExecution)
	a.PreferredAnti = parse("preferredAntiAffinityTerms", apart.PreferredDuringSchedulingIgnoredDuringExecution)
	err := utilerrors.NewAggregate(errs)
	if len(a.Required)+len(a.RequiredAnti)+len(a.Preferred)+len(a.PreferredAnti) == 0 {
		return nil, err
	}
	return &a, err
}

func affinities(pod *corev1.Pod) (near corev1.PodAffinity, apart corev1.PodAntiAffinity) {
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			near = *a.PodAffinity
		}
		if a.PodAntiAffinity != nil {
			apart = *a.PodAntiAffinity
		}
	}
	return near, apart
}

// sameAffinity reports whether two states of a pod have equal affinities to other pods.
func sameAffinity(a, b *corev1.Pod) bool {
	if a.Spec.Affinity == b.Spec.Affinity {
		return true
	}
	near, apart := affinities(a)
	otherNear, otherApart := affinities(b)
	return equality.Semantic.DeepEqual(near, otherNear) && equality.Semantic.DeepEqual(apart, otherApart)
}

func weightless(terms []corev1.PodAffinityTerm) []corev1.WeightedPodAffinityTerm {
	if len(terms) == 0 {
		return nil
	}
	weighted := make([]corev1.WeightedPodAffinityTerm, len(terms))
	for i := range terms {
		weighted[i].PodAffinityTerm = terms[i]
	}
	return weighted
}

func parseTerms(namespace string, terms []corev1.WeightedPodAffinityTerm) ([]AffinityTerm, error) {
	if len(terms) == 0 {
		return nil, nil
	}
	parsed := make([]AffinityTerm, len(terms))
	for i := range terms {
		in, t := &terms[i].PodAffinityTerm, &parsed[i]
		t.TopologyKey, t.Weight = in.TopologyKey, terms[i].Weight
		var err error
		if t.Selector, err = metav1.LabelSelectorAsSelector(in.LabelSelector); err != nil {
			return nil, err
		}
		if t.NamespaceSelector, err = metav1.LabelSelectorAsSelector(in.NamespaceSelector); err != nil {
			return nil, err
		}
		switch {
		case len(in.Namespaces) == 0 && in.NamespaceSelector == nil:
			t.Namespaces = []string{namespace}
		default:
			t.Namespaces = slices.Clone(in.Namespaces)
			slices.Sort(t.Namespaces)
			t.Namespaces = slices.Compact(t.Namespaces)
		}
		t.Key = t.key()
	}
	return parsed, nil
}

// key encodes a term. A selector's text does not tell one of nothing from one of everything.
func (t *AffinityTerm) key() string {
	var b strings.Builder
	text := func(s string) {
		b.WriteString(strconv.Itoa(len(s)))
		b.WriteByte(':')
		b.WriteString(s)
	}
	text(t.TopologyKey)
	for _, name := range t.Namespaces {
		text(name)
	}
	for _, s := range []labels.Selector{t.NamespaceSelector, t.Selector} {
		b.WriteString(strconv.FormatBool(s.Empty()))
		text(s.String())
	}
	return b.String()
}
