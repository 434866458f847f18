package aggregation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/component"
)

// errStale is why what a version has is not known.
var errStale = errors.New("stale GroupVersion discovery")

// resources returns the resources of other servers whose objects can be listed, watched and deleted, each in the first
// version of its group, and the versions of which it is not known what they have.
func resources(d *apiserver.Delegated) (all []component.Resource, unknown component.Undiscovered) {
	unknown = component.Undiscovered{}
	versions := slices.Clone(d.Versions)
	slices.SortStableFunc(versions, func(a, b apiserver.DelegatedVersion) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(b.VersionPriority, a.VersionPriority),
			version.CompareKubeAwareVersionStrings(b.Discovery.Version, a.Discovery.Version))
	})
	known := map[schema.GroupResource]bool{}
	for _, v := range versions {
		gv := schema.GroupVersion{Group: v.Group, Version: v.Discovery.Version}
		if v.Discovery.Freshness == apidiscovery.DiscoveryFreshnessStale {
			unknown[gv] = fmt.Errorf("%w: %s", errStale, gv)
			continue
		}
		for i := range v.Discovery.Resources {
			r := &v.Discovery.Resources[i]
			gvr := gv.WithResource(r.Resource)
			if known[gvr.GroupResource()] || !hasObjects(r) {
				continue
			}
			known[gvr.GroupResource()] = true
			all = append(all, component.Resource{
				GroupVersionResource: gvr, Kind: r.ResponseKind.Kind, Namespaced: r.Scope == apidiscovery.ScopeNamespace,
				Scalable: slices.ContainsFunc(r.Subresources, func(s apidiscovery.APISubresourceDiscovery) bool { return s.Subresource == "scale" }),
			})
		}
	}
	return all, unknown
}

// hasObjects reports whether the objects of a resource are stored somewhere, so that they have to be cared for.
func hasObjects(r *apidiscovery.APIResourceDiscovery) bool {
	for _, verb := range []string{"list", "watch", "delete"} {
		if !slices.Contains(r.Verbs, verb) {
			return false
		}
	}
	return true
}
