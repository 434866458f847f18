package endpointslice

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// setHints sets the hints of all endpoints according to the service's traffic distribution: in the slices to be written
// anyway, and in others whose hints are wrong.
func (p *planner) setHints(existing []*discoveryv1.EndpointSlice, out *plan) {
	touched := map[string]bool{}
	for _, slice := range slices.Concat(out.update, out.delete) {
		touched[slice.Name] = true
	}
	for _, slice := range existing {
		if !touched[slice.Name] && !p.hinted(slice) {
			out.update = append(out.update, slice.DeepCopy())
		}
	}
	for _, slice := range slices.Concat(out.create, out.update) {
		p.hint(slice)
	}
	slices.SortStableFunc(out.update, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
}

// hint sets the hints in a slice.
func (p *planner) hint(slice *discoveryv1.EndpointSlice) {
	for i := range slice.Endpoints {
		if hints, matter := p.hintsFor(&slice.Endpoints[i]); matter {
			slice.Endpoints[i].Hints = hints
		}
	}
}

// hinted reports whether all hints in a slice are right.
func (p *planner) hinted(slice *discoveryv1.EndpointSlice) bool {
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		hints, matter := p.hintsFor(e)
		if matter && (hints != nil || e.Hints != nil) && !equality.Semantic.DeepEqual(e.Hints, hints) {
			return false
		}
	}
	return true
}

// hintsFor returns the hints of an endpoint: none without a traffic distribution; with one, each ready endpoint is for
// its zone, and possibly its node. The hints of other endpoints then do not matter.
func (p *planner) hintsFor(e *discoveryv1.Endpoint) (hints *discoveryv1.EndpointHints, matter bool) {
	distribution := ""
	if p.service.Spec.TrafficDistribution != nil {
		distribution = *p.service.Spec.TrafficDistribution
	}
	switch distribution {
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode:
	default:
		return nil, true
	}
	if e.Conditions.Ready == nil || !*e.Conditions.Ready {
		return nil, false
	}
	hints = &discoveryv1.EndpointHints{}
	if e.Zone != nil {
		hints.ForZones = []discoveryv1.ForZone{{Name: *e.Zone}}
	}
	if e.NodeName != nil && distribution == corev1.ServiceTrafficDistributionPreferSameNode {
		hints.ForNodes = []discoveryv1.ForNode{{Name: *e.NodeName}}
	}
	if hints.ForZones == nil && hints.ForNodes == nil {
		hints = nil
	}
	return hints, true
}
