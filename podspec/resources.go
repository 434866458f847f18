package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
)

// requirements validates requests and limits, of a container or of the pod.
func (v *validator) requirements(r *corev1.ResourceRequirements, p *field.Path, wholePod bool) {
	limits, requests := p.Child("limits"), p.Child("requests")
	for _, name := range sorted(r.Limits) {
		v.quantity(name, r.Limits[name], limits.Key(string(name)), wholePod)
	}
	for _, name := range sorted(r.Requests) {
		q := r.Requests[name]
		at := requests.Key(string(name))
		v.resourceName(name, at, wholePod)
		v.amount(name, q, at)
		limit, limited := r.Limits[name]
		switch {
		case !limited && !overcommittable(name):
			v.required(limits, "Limit must be set for non overcommitable resources")
		case !limited:
		case q.Cmp(limit) != 0 && !overcommittable(name):
			v.invalid(requests, q.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String()))
		case q.Cmp(limit) > 0:
			v.invalid(requests, q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String()))
		}
		v.wholePages(name, q, at)
	}
	if hasHugePages(r) && !hasCPUOrMemory(r) {
		v.forbidden(p, "HugePages require cpu or memory")
	}
	v.claimRefs(r.Claims, p.Child("claims"))
}

func (v *validator) quantity(name corev1.ResourceName, q resource.Quantity, p *field.Path, wholePod bool) {
	v.resourceName(name, p, wholePod)
	v.amount(name, q, p)
	v.wholePages(name, q, p)
}

func (v *validator) amount(name corev1.ResourceName, q resource.Quantity, p *field.Path) {
	if q.Sign() < 0 {
		v.invalid(p, q.String(), apivalidation.IsNegativeErrorMsg)
	}
	if countable(name) && q.MilliValue()%1000 != 0 {
		v.invalid(p, q, "must be an integer")
	}
}

func (v *validator) wholePages(name corev1.ResourceName, q resource.Quantity, p *field.Path) {
	if isHugePage(name) && !v.allow.indivisibleHugePages && !divisibleByPage(name, q) {
		v.invalid(p, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), name))
	}
}

// ValidateContainerResourceName requires the name of a resource that containers can request.
func ValidateContainerResourceName(name corev1.ResourceName, p *field.Path) field.ErrorList {
	v := &validator{}
	v.resourceName(name, p, false)
	return v.errs
}

func (v *validator) resourceName(name corev1.ResourceName, p *field.Path, wholePod bool) {
	before := len(v.errs)
	v.invalid(p, name, validation.IsQualifiedName(string(name))...)
	bare := !strings.Contains(string(name), "/")
	if len(v.errs) == before && bare && !standardResource(name) {
		v.invalid(p, name, "must be a standard resource type or fully qualified")
	}
	switch {
	case wholePod && len(v.errs) > before:
	case wholePod:
		if !resourcehelper.IsSupportedPodLevelResource(name) {
			supported := resourcehelper.SupportedPodLevelResources().UnsortedList()
			slices.Sort(supported)
			v.add(field.NotSupported(p, name, supported))
		}
	case bare && !standardContainerResource(name):
		v.invalid(p, name, "must be a standard resource for containers")
	case !bare && !native(name) && !extended(name):
		v.invalid(p, name, "doesn't follow extended resource name standard")
	}
}

// claimRefs validates which of the pod's resource claims a container uses (KEP-3063).
func (v *validator) claimRefs(claims []corev1.ResourceClaim, p *field.Path) {
	seen := claimed{keys: map[string]bool{}, requests: map[string]int{}}
	for i, claim := range claims {
		at := p.Index(i)
		if !v.need(at, claim.Name) {
			continue
		}
		v.claimRef(claim, seen, at)
		if v.claims[claim.Name] {
			continue
		}
		err := field.NotFound(at, claim.Name)
		err.Detail = v.claimChoice()
		v.add(err)
	}
}

// claimChoice lists the existing claims. The text is built once: both lists may be long.
func (v *validator) claimChoice() string {
	if v.choice == "" {
		v.choice = "must be one of the names in pod.spec.resourceClaims"
		if len(v.claims) == 0 {
			v.choice += " which is empty"
		} else {
			v.choice += ": " + strings.Join(sorted(v.claims), ", ")
		}
	}
	return v.choice
}

// claimed records what a container uses: claims, or requests of them as "claim/request", and how many requests of each
// claim.
type claimed struct {
	keys     map[string]bool
	requests map[string]int
}

// claimRef rejects a claim, or a request of it, that is used twice.
func (v *validator) claimRef(claim corev1.ResourceClaim, seen claimed, p *field.Path) {
	if seen.keys[claim.Name] {
		v.duplicate(p, claim.Name)
		return
	}
	key := claim.Name
	if claim.Request != "" {
		v.label(p.Child("request"), claim.Request)
		key += "/" + claim.Request
	}
	switch {
	case seen.keys[key]:
		v.duplicate(p, key)
		return
	case claim.Request == "":
		for range seen.requests[claim.Name] {
			v.duplicate(p, claim.Name)
		}
	}
	seen.keys[key] = true
	if of, _, ok := strings.Cut(key, "/"); ok {
		seen.requests[of]++
	}
}

// resourceClaims validates the claims that the pod references or creates.
func (v *validator) resourceClaims(p *field.Path) {
	seen := map[string]bool{}
	for i := range v.spec.ResourceClaims {
		claim, at := &v.spec.ResourceClaims[i], p.Index(i)
		if v.meta != nil && isMirror(v.meta.Annotations) {
			v.forbidden(field.NewPath(""), "static pods do not support resource claims")
			continue
		}
		if v.need(at.Child("name"), claim.Name) {
			if seen[claim.Name] {
				v.duplicate(at.Child("name"), claim.Name)
			} else {
				v.label(at.Child("name"), claim.Name)
			}
			seen[claim.Name] = true
		}
		named, templated := claim.ResourceClaimName != nil, claim.ResourceClaimTemplateName != nil
		if named && templated {
			v.invalid(at, asInternal(*claim), "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
		}
		if !named && !templated {
			v.invalid(at, asInternal(*claim), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		}
		if named {
			v.name(at.Child("resourceClaimName"), *claim.ResourceClaimName, false)
		}
		if templated {
			v.name(at.Child("resourceClaimTemplateName"), *claim.ResourceClaimTemplateName, false)
		}
	}
}

// podResources validates pod-level resources (KEP-2837).
func (v *validator) podResources(p *field.Path) {
	r := v.spec.Resources
	if r == nil {
		return
	}
	at := p.Child("resources")
	if v.spec.OS != nil && v.spec.OS.Name == corev1.Windows {
		v.forbidden(at, "may not be set for a windows pod")
		return
	}
	if r.Claims != nil {
		v.forbidden(at.Child("claims"), "claims may not be set for Resources at pod-level")
	}
	v.requirements(r, at, true)
	v.podCovers(at)
}

// podCovers checks that pod-level resources are not less than those of the containers.
func (v *validator) podCovers(p *field.Path) {
	r, pod := v.spec.Resources, &corev1.Pod{Spec: *v.spec}
	parts := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	for _, name := range sorted(parts) {
		part := parts[name]
		if whole, ok := r.Requests[name]; ok && part.Cmp(whole) > 0 {
			v.invalid(p.Child("requests").Key(string(name)), whole.String(),
				"must be greater than or equal to aggregate container requests of "+part.String())
		}
	}
	parts = resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{})
	for _, name := range sorted(parts) {
		part := parts[name]
		if whole, ok := r.Limits[name]; ok && isHugePage(name) && part.Cmp(whole) > 0 {
			v.invalid(p.Child("limits").Key(string(name)), whole.String(),
				"must be greater than or equal to aggregate container limits of "+part.String())
		}
	}
	for i := range v.spec.Containers {
		limits := v.spec.Containers[i].Resources.Limits
		for _, name := range sorted(limits) {
			part := limits[name]
			if whole, ok := r.Limits[name]; ok && part.Cmp(whole) > 0 {
				v.invalid(p.Child("containers").Index(i).Key(string(name)).Child("limits"), part.String(),
					"must be less than or equal to pod limits of "+whole.String())
			}
		}
	}
}

func hasHugePages(r *corev1.ResourceRequirements) bool {
	return anyName(r, isHugePage)
}

func hasCPUOrMemory(r *corev1.ResourceRequirements) bool {
	return anyName(r, func(n corev1.ResourceName) bool { return n == corev1.ResourceCPU || n == corev1.ResourceMemory })
}

func anyName(r *corev1.ResourceRequirements, is func(corev1.ResourceName) bool) bool {
	for name := range r.Limits {
		if is(name) {
			return true
		}
	}
	for name := range r.Requests {
		if is(name) {
			return true
		}
	}
	return false
}
