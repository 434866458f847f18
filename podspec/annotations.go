package podspec

import (
	"encoding/json"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Annotations that preceded fields and are still in effect.
const (
	tolerationsAnnotation = "scheduler.alpha.kubernetes.io/tolerations"
	seccompPodAnnotation  = corev1.SeccompPodAnnotationKey
	seccompPrefix         = corev1.SeccompContainerAnnotationKeyPrefix
	appArmorPrefix        = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	localhostPrefix       = corev1.SeccompLocalhostProfileNamePrefix
)

func isMirror(annotations map[string]string) bool {
	_, ok := annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// validDeletionCost reports whether the deletion cost (KEP-2255) is absent or a 32-bit integer in its shortest form.
func validDeletionCost(annotations map[string]string) bool {
	cost, ok := annotations[corev1.PodDeletionCost]
	if !ok {
		return true
	}
	if cost == "" || cost[0] == '+' || cost[0] == '0' && cost != "0" {
		return false
	}
	_, err := strconv.ParseInt(cost, 10, 32)
	return err == nil
}

// annotations validates the annotations that have a meaning for pods.
func (v *validator) annotations(a map[string]string, p *field.Path) {
	if value, ok := a[corev1.MirrorPodAnnotationKey]; ok && v.spec.NodeName == "" {
		v.invalid(p.Key(corev1.MirrorPodAnnotationKey), value, "must set spec.nodeName if mirror pod annotation is set")
	}
	if text := a[tolerationsAnnotation]; text != "" {
		var list []corev1.Toleration
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			v.invalid(p, tolerationsAnnotation, err.Error())
		} else {
			v.tolerations(list, p.Child(tolerationsAnnotation))
		}
	}
	if !v.allow.invalidDeletionCost && !validDeletionCost(a) {
		v.invalid(p.Key(corev1.PodDeletionCost), a[corev1.PodDeletionCost], "must be a 32bit integer")
	}
	if profile, ok := a[seccompPodAnnotation]; ok {
		v.seccompName(profile, p.Child(seccompPodAnnotation))
	}
	keys := sorted(a)
	for _, key := range keys {
		if strings.HasPrefix(key, seccompPrefix) {
			v.seccompName(a[key], p.Child(key))
		}
	}
	for _, key := range keys {
		name, ok := strings.CutPrefix(key, appArmorPrefix)
		if !ok {
			continue
		}
		if !anyContainer(v.spec, func(c *corev1.Container) bool { return c.Name == name }) {
			v.invalid(p.Key(key), name, "container not found")
		}
		switch profile := a[key]; {
		case profile == "", profile == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault,
			profile == corev1.DeprecatedAppArmorBetaProfileNameUnconfined, strings.HasPrefix(profile, localhostPrefix):
		default:
			v.invalid(p.Key(key), profile, "invalid AppArmor profile name: "+strconv.Quote(profile))
		}
	}
}

func (v *validator) seccompName(profile string, p *field.Path) {
	switch profile {
	case corev1.SeccompProfileRuntimeDefault, corev1.DeprecatedSeccompProfileDockerDefault, corev1.SeccompProfileNameUnconfined:
		return
	}
	if path, ok := strings.CutPrefix(profile, localhostPrefix); ok {
		v.descendingPath(p, path)
		return
	}
	v.invalid(p, profile, "must be a valid seccomp profile")
}

// annotationUpdates forbids changes to annotations that nodes read only once.
func (v *validator) annotationUpdates(annotations, old map[string]string, p *field.Path) {
	for _, key := range sorted(old) {
		if value, ok := annotations[key]; ok && value == old[key] {
			continue
		}
		if strings.HasPrefix(key, appArmorPrefix) {
			v.forbidden(p.Key(key), "may not remove or update AppArmor annotations")
		}
		if key == corev1.MirrorPodAnnotationKey {
			v.forbidden(p.Key(key), "may not remove or update mirror pod annotation")
		}
	}
	for _, key := range sorted(annotations) {
		if _, ok := old[key]; ok {
			continue
		}
		if strings.HasPrefix(key, appArmorPrefix) {
			v.forbidden(p.Key(key), "may not add AppArmor annotations")
		}
		if key == corev1.MirrorPodAnnotationKey {
			v.forbidden(p.Key(key), "may not add mirror pod annotation")
		}
	}
	v.annotations(annotations, p)
}

// seccompMatches checks that annotations and fields do not contradict each other.
func (v *validator) seccompMatches(a map[string]string, p *field.Path) {
	if sc := v.spec.SecurityContext; sc != nil && sc.SeccompProfile != nil {
		if profile, ok := a[seccompPodAnnotation]; ok {
			v.seccompMatch(profile, sc.SeccompProfile, p.Child("securityContext", "seccompProfile"))
		}
	}
	for at, c := range containerPaths(v.spec, p) {
		if c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil {
			continue
		}
		if profile, ok := a[seccompPrefix+c.Name]; ok {
			v.seccompMatch(profile, c.SecurityContext.SeccompProfile, at.Child("securityContext", "seccompProfile"))
		}
	}
}

func (v *validator) seccompMatch(annotation string, s *corev1.SeccompProfile, p *field.Path) {
	match := true
	switch s.Type {
	case corev1.SeccompProfileTypeUnconfined:
		match = annotation == corev1.SeccompProfileNameUnconfined
	case corev1.SeccompProfileTypeRuntimeDefault:
		match = annotation == corev1.SeccompProfileRuntimeDefault || annotation == corev1.DeprecatedSeccompProfileDockerDefault
	case corev1.SeccompProfileTypeLocalhost:
		var path string
		path, match = strings.CutPrefix(annotation, localhostPrefix)
		if match && (s.LocalhostProfile == nil || path != *s.LocalhostProfile) {
			v.forbidden(p.Child("localhostProfile"), "seccomp profile in annotation and field must match")
		}
	}
	if !match {
		v.forbidden(p.Child("type"), "seccomp type in annotation and field must match")
	}
}

func (v *validator) appArmorMatches(a map[string]string, p *field.Path) {
	if v.spec.OS != nil && v.spec.OS.Name == corev1.Windows {
		return
	}
	for at, c := range containerPaths(v.spec, p) {
		profile := appArmorOf(v.spec, c)
		if profile == nil {
			continue
		}
		if annotation, ok := a[appArmorPrefix+c.Name]; ok {
			v.appArmorMatch(annotation, profile, at.Child("securityContext", "appArmorProfile"))
		}
	}
}

// appArmorOf returns a container's own profile, or the pod's.
func appArmorOf(spec *corev1.PodSpec, c *corev1.Container) *corev1.AppArmorProfile {
	if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return c.SecurityContext.AppArmorProfile
	}
	if spec.SecurityContext != nil {
		return spec.SecurityContext.AppArmorProfile
	}
	return nil
}

func (v *validator) appArmorMatch(annotation string, a *corev1.AppArmorProfile, p *field.Path) {
	match := true
	switch a.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		match = annotation == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		match = annotation == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeLocalhost:
		var path string
		path, match = strings.CutPrefix(annotation, localhostPrefix)
		if match && (a.LocalhostProfile == nil || path != *a.LocalhostProfile) {
			v.forbidden(p.Child("localhostProfile"), "apparmor profile in annotation and field must match")
		}
	}
	if !match {
		v.forbidden(p.Child("type"), "apparmor type in annotation and field must match")
	}
}
