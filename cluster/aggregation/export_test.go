package aggregation

import (
	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/component"
)

// Resources returns what components learn of delegated versions.
func Resources(d *apiserver.Delegated) ([]component.Resource, component.Undiscovered) {
	return resources(d)
}
