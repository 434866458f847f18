package endpointslice

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// endpointKey identifies an endpoint; everything else about it may change in place.
type endpointKey struct {
	addresses, hostname, namespace, name string
}

func endpointKeyOf(e *discoveryv1.Endpoint) endpointKey {
	var key endpointKey
	if len(e.Addresses) == 1 {
		key.addresses = e.Addresses[0]
	} else {
		key.addresses = strings.Join(slices.Sorted(slices.Values(e.Addresses)), " ")
	}
	if e.Hostname != nil {
		key.hostname = *e.Hostname
	}
	if e.TargetRef != nil {
		key.namespace, key.name = e.TargetRef.Namespace, e.TargetRef.Name
	}
	return key
}

// endpointSet holds endpoints that are not placed yet, in the order in which they were added.
type endpointSet struct {
	order []endpointKey
	byKey map[endpointKey]discoveryv1.Endpoint
}

func newEndpointSet(all []discoveryv1.Endpoint) *endpointSet {
	s := &endpointSet{byKey: map[endpointKey]discoveryv1.Endpoint{}}
	for _, e := range all {
		key := endpointKeyOf(&e)
		if _, twice := s.byKey[key]; !twice {
			s.order = append(s.order, key)
		}
		s.byKey[key] = e
	}
	return s
}

func (s *endpointSet) len() int { return len(s.byKey) }

// keep removes the endpoints that are in had, returns them in that order, and reports whether they differ from had.
func (s *endpointSet) keep(had []discoveryv1.Endpoint) (kept []discoveryv1.Endpoint, differ bool) {
	for i := range had {
		key := endpointKeyOf(&had[i])
		e, ok := s.byKey[key]
		if !ok {
			differ = true
			continue
		}
		delete(s.byKey, key)
		differ = differ || !sameEndpoint(&e, &had[i])
		kept = append(kept, e)
	}
	return kept, differ
}

// fill moves endpoints to a slice until it is full.
func (s *endpointSet) fill(slice *discoveryv1.EndpointSlice, most int) {
	for len(s.order) > 0 && len(slice.Endpoints) < most {
		key := s.order[0]
		s.order = s.order[1:]
		if e, ok := s.byKey[key]; ok {
			delete(s.byKey, key)
			slice.Endpoints = append(slice.Endpoints, e)
		}
	}
}

// sameEndpoint compares what may change in place.
func sameEndpoint(a, b *discoveryv1.Endpoint) bool {
	return same(a.NodeName, b.NodeName) && same(a.Zone, b.Zone) &&
		same(a.Conditions.Ready, b.Conditions.Ready) && same(a.Conditions.Serving, b.Conditions.Serving) &&
		same(a.Conditions.Terminating, b.Conditions.Terminating) && sameTarget(a.TargetRef, b.TargetRef)
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// sameTarget compares all but the resource version, which is not ours to keep up to date.
func sameTarget(a, b *corev1.ObjectReference) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.ResourceVersion, y.ResourceVersion = "", ""
	return x == y
}

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
