package endpointslices

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/keelson-dev/keelson/controllers"
)

// NewTracker makes a tracker, for a test of its own.
var NewTracker = newTracker

// The tracker's methods.
func (t *tracker) Wrote(s *discoveryv1.EndpointSlice)          { t.wrote(s) }
func (t *tracker) ExpectDeletion(s *discoveryv1.EndpointSlice) { t.expectDeletion(s) }
func (t *tracker) Foreign(s *discoveryv1.EndpointSlice) bool   { return t.foreign(s) }
func (t *tracker) Deleted(s *discoveryv1.EndpointSlice) bool   { return t.deleted(s) }
func (t *tracker) Behind(k controllers.Key, cached ...*discoveryv1.EndpointSlice) bool {
	return t.behind(k, cached)
}
func (t *tracker) Forget(k controllers.Key) { t.forget(k) }
