package podspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/podspec/restart"
)

// Options describe what a spec is validated as. The zero Options are for a new template.
type Options struct {
	// Pod means that the spec is that of a pod and not of a template.
	Pod bool
	// Old is the spec before an update, nil for a new object: what it already has stays allowed even if a newer rule
	// forbids it.
	Old *corev1.PodSpec
	// OldAnnotations are the annotations before an update.
	OldAnnotations map[string]string
}

// TemplateUpdate returns the Options for validating an updated template.
func TemplateUpdate(old *corev1.PodTemplateSpec) Options {
	return Options{Old: &old.Spec, OldAnnotations: old.Annotations}
}

func podUpdate(old *corev1.Pod) Options {
	return Options{Pod: true, Old: &old.Spec, OldAnnotations: old.Annotations}
}

// leniency lists what an old spec may keep.
type leniency struct {
	invalidDeletionCost       bool
	invalidSelectorValues     bool
	invalidNodeAffinityValues bool
	invalidSpreadSelector     bool
	invalidSpreadLabelKeys    bool
	indivisibleHugePages      bool
	nonLocalTokenPath         bool
	hostSysctls               bool
	hostNetworkUserNamespace  bool
	userNamespaceDevices      bool
	comparingTolerations      bool
	emptyImageVolume          bool
	unescalatedSysAdmin       bool
	restartingInitResize      bool
}

func (o Options) leniency() leniency {
	l := leniency{invalidDeletionCost: !validDeletionCost(o.OldAnnotations)}
	if o.Old == nil {
		return l
	}
	old := o.Old
	l.invalidSelectorValues = hasInvalidAffinitySelector(old)
	if a := old.Affinity; a != nil && a.NodeAffinity != nil {
		l.invalidNodeAffinityValues = hasInvalidValue(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	l.invalidSpreadSelector, l.invalidSpreadLabelKeys = hasInvalidSpread(old)
	l.indivisibleHugePages = hasIndivisibleHugePages(old)
	l.nonLocalTokenPath = hasNonLocalTokenPath(old)
	l.hostSysctls = hasHostSysctl(old)
	userNamespace := old.HostUsers != nil && !*old.HostUsers
	l.hostNetworkUserNamespace = userNamespace && old.HostNetwork
	l.userNamespaceDevices = userNamespace && anyContainer(old, func(c *corev1.Container) bool { return len(c.VolumeDevices) > 0 })
	for _, t := range old.Tolerations {
		l.comparingTolerations = l.comparingTolerations || t.Operator == corev1.TolerationOpLt || t.Operator == corev1.TolerationOpGt
	}
	for _, v := range old.Volumes {
		l.emptyImageVolume = l.emptyImageVolume || v.Image != nil && v.Image.Reference == ""
	}
	l.unescalatedSysAdmin = anyContainer(old, hasUnescalatedSysAdmin)
	for i := range old.InitContainers {
		l.restartingInitResize = l.restartingInitResize || hasRestartingInitResize(&old.InitContainers[i])
	}
	return l
}

func hasInvalidAffinitySelector(spec *corev1.PodSpec) bool {
	for _, term := range affinityTerms(spec.Affinity) {
		for _, selector := range []*metav1.LabelSelector{term.LabelSelector, term.NamespaceSelector} {
			if !validSelector(selector) {
				return true
			}
		}
	}
	return false
}

func validSelector(selector *metav1.LabelSelector) bool {
	return len(metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, nil)) == 0
}

// affinityTerms returns every pod affinity and anti-affinity term, whatever its weight.
func affinityTerms(a *corev1.Affinity) []*corev1.PodAffinityTerm {
	if a == nil {
		return nil
	}
	var terms []*corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range preferred {
			terms = append(terms, &preferred[i].PodAffinityTerm)
		}
		for i := range required {
			terms = append(terms, &required[i])
		}
	}
	if p := a.PodAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return terms
}

func hasInvalidValue(required *corev1.NodeSelector) bool {
	if required == nil {
		return false
	}
	for _, term := range required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			for _, value := range e.Values {
				if len(validation.IsValidLabelValue(value)) > 0 {
					return true
				}
			}
		}
	}
	return false
}

// hasInvalidSpread reports whether a spread constraint has an invalid selector, and whether one has invalid
// matchLabelKeys.
func hasInvalidSpread(spec *corev1.PodSpec) (selector, keys bool) {
	for _, c := range spec.TopologySpreadConstraints {
		selector = selector || !validSelector(c.LabelSelector)
		var r report
		r.matchLabelKeys(nil, c.MatchLabelKeys, nil, c.LabelSelector)
		keys = keys || len(r.errs) > 0
	}
	return selector, keys
}

func hasIndivisibleHugePages(spec *corev1.PodSpec) bool {
	indivisible := func(list corev1.ResourceList) bool {
		for name, q := range list {
			if isHugePage(name) && !divisibleByPage(name, q) {
				return true
			}
		}
		return false
	}
	return indivisible(spec.Overhead) || anyContainer(spec, func(c *corev1.Container) bool {
		return indivisible(c.Resources.Limits) || indivisible(c.Resources.Requests)
	})
}

func hasNonLocalTokenPath(spec *corev1.PodSpec) bool {
	for _, v := range spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ServiceAccountToken == nil {
				continue
			}
			var r report
			r.localPath(nil, source.ServiceAccountToken.Path)
			if len(r.errs) > 0 {
				return true
			}
		}
	}
	return false
}

func hasHostSysctl(spec *corev1.PodSpec) bool {
	if spec.SecurityContext == nil {
		return false
	}
	for _, s := range spec.SecurityContext.Sysctls {
		if hostSysctlError(s.Name, spec) != "" {
			return true
		}
	}
	return false
}

func hasUnescalatedSysAdmin(c *corev1.Container) bool {
	sc := c.SecurityContext
	if sc == nil || sc.Capabilities == nil || sc.AllowPrivilegeEscalation != nil && *sc.AllowPrivilegeEscalation {
		return false
	}
	for _, capability := range sc.Capabilities.Add {
		if capability == "CAP_SYS_ADMIN" {
			return true
		}
	}
	return false
}

func hasRestartingInitResize(c *corev1.Container) bool {
	if restart.Sidecar(c) {
		return false
	}
	for _, p := range c.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer {
			return true
		}
	}
	return false
}
