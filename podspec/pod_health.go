package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// deviceHealth validates what nodes report about devices of containers (KEP-4680).
func (v *validator) deviceHealth(list []corev1.ContainerStatus, cs []corev1.Container, s *corev1.PodStatus, p *field.Path) {
	places := placesOf(cs)
	for i := range list {
		of, known := places[list[i].Name]
		for j, r := range list[i].AllocatedResourcesStatus {
			at := p.Index(i).Child("allocatedResourcesStatus").Index(j)
			// The status of a container that is not in the spec is accepted.
			if known {
				v.allocated(r.Name, &cs[of], s, at.Child("name"))
			}
			v.health(r.Resources, at.Child("resources"))
		}
	}
}

func (v *validator) allocated(name corev1.ResourceName, c *corev1.Container, s *corev1.PodStatus, p *field.Path) {
	claim, ok := strings.CutPrefix(string(name), "claim:")
	if !ok {
		if _, requested := c.Resources.Requests[name]; !requested {
			v.invalid(p, name, "must match one of the container's resource requests")
		}
		return
	}
	for _, r := range c.Resources.Claims {
		if claim == r.Name && r.Request == "" || r.Request != "" && claim == r.Name+"/"+r.Request {
			return
		}
	}
	if !fromExtendedClaim(claim, c, s.ExtendedResourceClaimStatus) {
		v.invalid(p, name, "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty")
	}
}

func fromExtendedClaim(claim string, c *corev1.Container, s *corev1.PodExtendedResourceClaimStatus) bool {
	name, request, _ := strings.Cut(claim, "/")
	if s == nil || name == "" || request == "" || name != s.ResourceClaimName {
		return false
	}
	for _, m := range s.RequestMappings {
		q := c.Resources.Requests[corev1.ResourceName(m.ResourceName)]
		if m.ContainerName == c.Name && m.RequestName == request && !q.IsZero() {
			return true
		}
	}
	return false
}

func (v *validator) health(list []corev1.ResourceHealth, p *field.Path) {
	seen := map[corev1.ResourceID]bool{}
	for i, r := range list {
		at := p.Index(i)
		oneOf(&v.report, at.Child("health"), r.Health,
			corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown)
		if m := r.Message; m != nil {
			if *m == "" {
				v.required(at.Child("message"), "must be non-empty if specified")
			} else if len(*m) > corev1.ResourceHealthMessageMaxLength {
				v.add(field.TooLong(at.Child("message"), *m, corev1.ResourceHealthMessageMaxLength))
			}
		}
		if seen[r.ResourceID] {
			v.duplicate(at.Child("resourceID"), r.ResourceID)
		}
		seen[r.ResourceID] = true
	}
}

// nodeClaims validates the claims on a node's allocatable resources (KEP-5517).
func (v *validator) nodeClaims(s *corev1.PodStatus, p *field.Path) {
	mapped := map[string]bool{}
	note := func(name *string) {
		if name != nil {
			mapped[*name] = true
		}
	}
	for i := range v.spec.ResourceClaims {
		note(v.spec.ResourceClaims[i].ResourceClaimName)
	}
	for i := range s.ResourceClaimStatuses {
		note(s.ResourceClaimStatuses[i].ResourceClaimName)
	}
	for i := range s.NodeAllocatableResourceClaimStatuses {
		c, at := &s.NodeAllocatableResourceClaimStatuses[i], p.Index(i)
		if c.ResourceClaimName == "" {
			continue
		}
		if !mapped[c.ResourceClaimName] {
			v.invalid(at.Child("resourceClaimName"), c.ResourceClaimName, "no mapping found in pod reference")
		}
		for j, m := range c.Mapping {
			v.nodeResource(m.Name, at.Child("mapping").Index(j))
			v.nonNegativeQuantity(m.Quantity, at.Child("mapping").Index(j).Child("quantity"))
		}
		for j, o := range c.Overhead {
			item := at.Child("overhead").Index(j)
			v.nodeResource(o.Name, item)
			if o.PerPod == nil && o.PerContainer == nil {
				v.invalid(item, "", "at least one of perPod or perContainer must be set")
			}
			v.nonNegativeQuantity(o.PerPod, item.Child("perPod"))
			v.nonNegativeQuantity(o.PerContainer, item.Child("perContainer"))
		}
	}
}

func (v *validator) nodeResource(name corev1.ResourceName, p *field.Path) {
	if name != corev1.ResourceCPU && name != corev1.ResourceMemory && !isHugePage(name) {
		v.invalid(p.Child("name"), name, "must be a node allocatable resource name")
	}
}

func (v *validator) nonNegativeQuantity(q *resource.Quantity, p *field.Path) {
	if q != nil && q.Sign() < 0 {
		v.invalid(p, q.String(), "must be non-negative")
	}
}

// volumeHealth validates what nodes report about volumes (KEP-1432).
func (v *validator) volumeHealth(list []corev1.PodVolumeHealth, p *field.Path) {
	known := map[string]bool{}
	for i := range v.spec.Volumes {
		known[v.spec.Volumes[i].Name] = true
	}
	for i, h := range list {
		if h.Name != "" && !known[h.Name] {
			v.notFound(p.Index(i).Child("name"), h.Name)
		}
		for j, c := range h.HealthConditions {
			if c.Reason != "" {
				v.invalid(p.Index(i).Child("healthConditions").Index(j).Child("reason"), c.Reason, metavalidation.IsValidConditionReason(c.Reason)...)
			}
		}
	}
}
