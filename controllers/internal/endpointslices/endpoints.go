package endpointslices

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Key identifies an endpoint; everything else about it may change in place.
type Key struct {
	addresses, hostname, namespace, name string
}

// KeyOf returns the key of an endpoint.
func KeyOf(e *discoveryv1.Endpoint) Key {
	var key Key
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

// Set holds endpoints that are not placed yet, in the order in which they were added.
type Set struct {
	order []Key
	byKey map[Key]discoveryv1.Endpoint
}

// NewSet returns a set of endpoints; of several with one key, the last.
func NewSet(all []discoveryv1.Endpoint) *Set {
	s := &Set{byKey: map[Key]discoveryv1.Endpoint{}}
	for _, e := range all {
		key := KeyOf(&e)
		if _, twice := s.byKey[key]; !twice {
			s.order = append(s.order, key)
		}
		s.byKey[key] = e
	}
	return s
}

// Len returns the number of endpoints left.
func (s *Set) Len() int { return len(s.byKey) }

// Keep removes the endpoints that are in had, returns them in that order, and reports whether they differ from had.
func (s *Set) Keep(had []discoveryv1.Endpoint) (kept []discoveryv1.Endpoint, differ bool) {
	for i := range had {
		key := KeyOf(&had[i])
		e, ok := s.byKey[key]
		if !ok {
			differ = true
			continue
		}
		delete(s.byKey, key)
		differ = differ || !Same(&e, &had[i])
		kept = append(kept, e)
	}
	return kept, differ
}

// Fill moves endpoints to a slice until it is full.
func (s *Set) Fill(slice *discoveryv1.EndpointSlice, most int) {
	for len(s.order) > 0 && len(slice.Endpoints) < most {
		key := s.order[0]
		s.order = s.order[1:]
		if e, ok := s.byKey[key]; ok {
			delete(s.byKey, key)
			slice.Endpoints = append(slice.Endpoints, e)
		}
	}
}

// Same compares what may change in place.
func Same(a, b *discoveryv1.Endpoint) bool {
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

// PortKey distinguishes sets of ports.
func PortKey(ports []discoveryv1.EndpointPort) string {
	keys := make([]string, len(ports))
	for i, p := range ports {
		key := []byte{}
		if p.Name != nil {
			key = strconv.AppendQuote(key, *p.Name)
		}
		if p.Port != nil {
			key = strconv.AppendInt(append(key, ' '), int64(*p.Port), 10)
		}
		if p.Protocol != nil {
			key = strconv.AppendQuote(append(key, ' '), string(*p.Protocol))
		}
		if p.AppProtocol != nil {
			key = strconv.AppendQuote(append(key, " as "...), *p.AppProtocol)
		}
		keys[i] = string(key)
	}
	slices.Sort(keys)
	return strings.Join(keys, ",")
}
