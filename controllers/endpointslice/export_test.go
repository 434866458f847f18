package endpointslice

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/keelson-dev/keelson/controllers"
)

// Plan is the pure part, for tables.
func Plan(service *corev1.Service, pods []*corev1.Pod, existing []*discoveryv1.EndpointSlice, most int) (create, update, remove []*discoveryv1.EndpointSlice, missing []error) {
	p := planner{service: service, addressType: discoveryv1.AddressTypeIPv4, most: most}
	missing = p.take(pods, func(name string) (*corev1.Node, bool) {
		node := &corev1.Node{}
		node.Labels = map[string]string{corev1.LabelTopologyZone: "zone-" + name}
		return node, name != "missing"
	})
	out := p.plan(existing)
	return out.create, out.update, out.delete, missing
}

// HintsFor is a pure part, for tables.
func HintsFor(service *corev1.Service, e *discoveryv1.Endpoint) (*discoveryv1.EndpointHints, bool) {
	return (&planner{service: service}).hintsFor(e)
}

// The parts that compare, for tables.
var (
	SameEndpoint = sameEndpoint
	KeyOf        = func(e *discoveryv1.Endpoint) any { return endpointKeyOf(e) }
	PortKey      = portKey
	NewTracker   = newTracker
)

// The tracker's methods, for a test of their own.
func (t *tracker) Wrote(s *discoveryv1.EndpointSlice)          { t.wrote(s) }
func (t *tracker) ExpectDeletion(s *discoveryv1.EndpointSlice) { t.expectDeletion(s) }
func (t *tracker) Foreign(s *discoveryv1.EndpointSlice) bool   { return t.foreign(s) }
func (t *tracker) Deleted(s *discoveryv1.EndpointSlice) bool   { return t.deleted(s) }
func (t *tracker) Behind(k controllers.Key, cached ...*discoveryv1.EndpointSlice) bool {
	return t.behind(k, cached)
}
func (t *tracker) Forget(k controllers.Key) { t.forget(k) }
