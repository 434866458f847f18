package aggregation_test

import (
	"fmt"
	"slices"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/cluster/aggregation"
)

// TestResources: each resource that has objects counts once, in the first version of its group that has it.
func TestResources(t *testing.T) {
	resource := func(name string, verbs ...string) apidiscovery.APIResourceDiscovery {
		return apidiscovery.APIResourceDiscovery{
			Resource: name, Scope: apidiscovery.ScopeNamespace, ResponseKind: &metav1.GroupVersionKind{Kind: "K"},
			Verbs: append(verbs, "get", "list", "delete"),
		}
	}
	version := func(group, name string, priority int32, resources ...apidiscovery.APIResourceDiscovery) apiserver.DelegatedVersion {
		return apiserver.DelegatedVersion{Group: group, VersionPriority: priority, Discovery: apidiscovery.APIVersionDiscovery{
			Version: name, Resources: resources, Freshness: apidiscovery.DiscoveryFreshnessCurrent,
		}}
	}
	global := resource("global", "watch")
	global.Scope = apidiscovery.ScopeCluster
	scaled := resource("scaled", "watch")
	scaled.Subresources = []apidiscovery.APISubresourceDiscovery{{Subresource: "scale"}}
	stale := version("a", "v3", 30, resource("stale", "watch"))
	stale.Discovery.Freshness = apidiscovery.DiscoveryFreshnessStale
	all, unknown := aggregation.Resources(&apiserver.Delegated{Versions: []apiserver.DelegatedVersion{
		version("a", "v1", 10, resource("both", "watch"), resource("old", "watch")),
		version("b", "v1beta1", 10, resource("x", "watch")),
		version("a", "v2", 20, resource("both", "watch"), resource("metrics"), global, scaled),
		stale,
		version("b", "v1", 10, resource("x", "watch")),
	}})
	got := []string{}
	for _, r := range all {
		got = append(got, fmt.Sprintf("%s %s %t %t", r.GroupVersionResource, r.Kind, r.Namespaced, r.Scalable))
	}
	want := []string{
		"a/v2, Resource=both K true false", "a/v2, Resource=global K false false", "a/v2, Resource=scaled K true true",
		"a/v1, Resource=old K true false", "b/v1, Resource=x K true false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("resources: %q", got)
	}
	const missing = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: a/v3: stale GroupVersion discovery: a/v3"
	if unknown.Error() != missing {
		t.Errorf("unknown: %v", unknown)
	}
}
