package endpointslice

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// endpointKey tells endpoints apart; everything else about them may change in place.
type endpointKey struct {
	addresses, hostname, namespace, name string
}

func endpointKeyOf(e *discoveryv1.Endpoint) endpointKey {
	key := endpointKey{addresses: strings.Join(slices.Sorted(slices.Values(e.Addresses)), " ")}
	if e.Hostname != nil {
		key.hostname = *e.Hostname
	}
	if e.TargetRef != nil {
		key.namespace, key.name = e.TargetRef.Namespace, e.TargetRef.Name
	}
	return key
}

// endpointSet is endpoints that are yet to be placed, in the order in which they came.
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

// keep takes out those that are in had, in that order, and tells whether they differ from it.
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

// sameEndpoint compares what may change of an endpoint in place.
func sameEndpoint(a, b *discoveryv1.Endpoint) bool {
	unversioned := func(ref *corev1.ObjectReference) corev1.ObjectReference {
		if ref == nil {
			return corev1.ObjectReference{}
		}
		out := *ref
		out.ResourceVersion = ""
		return out
	}
	return equality.Semantic.DeepEqual(a.NodeName, b.NodeName) && equality.Semantic.DeepEqual(a.Zone, b.Zone) &&
		equality.Semantic.DeepEqual(a.Conditions, b.Conditions) && unversioned(a.TargetRef) == unversioned(b.TargetRef)
}

// setHints brings the hints of all endpoints in line with the service's traffic distribution: the
// slices that are written, and of the others those whose hints are not right.
func (p *planner) setHints(existing []*discoveryv1.EndpointSlice, out *plan) {
	touched := map[string]bool{}
	for _, slice := range slices.Concat(out.update, out.delete) {
		touched[slice.Name] = true
	}
	for _, slice := range existing {
		if touched[slice.Name] {
			continue
		}
		next := slice.DeepCopy()
		if p.hint(next) {
			out.update = append(out.update, next)
		}
	}
	for _, slice := range slices.Concat(out.create, out.update) {
		p.hint(slice)
	}
	slices.SortStableFunc(out.update, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
}

// hint sets the hints in a slice and tells whether that changed any. Without a traffic
// distribution there are none; with one, each ready endpoint is for its zone, or its node.
func (p *planner) hint(slice *discoveryv1.EndpointSlice) (changed bool) {
	distribution := ""
	if p.service.Spec.TrafficDistribution != nil {
		distribution = *p.service.Spec.TrafficDistribution
	}
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		var hints *discoveryv1.EndpointHints
		switch distribution {
		case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode:
			if e.Conditions.Ready == nil || !*e.Conditions.Ready {
				continue // what it had does no harm
			}
			hints = hintsFor(e, distribution == corev1.ServiceTrafficDistributionPreferSameNode)
		}
		if !equality.Semantic.DeepEqual(e.Hints, hints) {
			e.Hints = hints
			changed = true
		}
	}
	return changed
}

func hintsFor(e *discoveryv1.Endpoint, node bool) *discoveryv1.EndpointHints {
	var hints discoveryv1.EndpointHints
	if e.Zone != nil {
		hints.ForZones = []discoveryv1.ForZone{{Name: *e.Zone}}
	}
	if e.NodeName != nil && node {
		hints.ForNodes = []discoveryv1.ForNode{{Name: *e.NodeName}}
	}
	if hints.ForZones == nil && hints.ForNodes == nil {
		return nil
	}
	return &hints
}
