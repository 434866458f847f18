package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authn"
)

// errUnavailable says why discovery is stale.
var errUnavailable = errors.New("service unavailable")

// known is what is known of an APIService's server.
type known struct {
	version apiserver.DelegatedVersion
	openAPI string // where its document of OpenAPI v3 is, relative to the server; empty if it has none
	swagger *swagger
}

// Refresh reads again what the server of the APIService of that name says of itself. An error means that it could not be
// read, or that the APIService is not available; what was read before stays, marked as stale. The APIService may be
// gone, or be the server's own: then it is forgotten, and there is no error.
func (a *Aggregator) Refresh(ctx context.Context, name string) error {
	s, ok := a.services.Get("", name)
	if !ok || s.Spec.Service == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.known, name)
		a.publish()
		return nil
	}
	before := a.keep(s, nil, "", nil) // clients see the group while its server is being asked
	found, err := a.discover(ctx, s)
	if err != nil {
		a.keep(s, &apidiscovery.APIVersionDiscovery{Freshness: apidiscovery.DiscoveryFreshnessStale}, "", nil)
		return err
	}
	found.Version, found.Freshness = s.Spec.Version, apidiscovery.DiscoveryFreshnessCurrent
	a.keep(s, &found, a.document(ctx, s), a.swagger(ctx, s, before))
	return nil
}

// keep notes what is known of an APIService. Without anything new, or if that is stale, what was known stays. It returns the
// document of OpenAPI v2 that was known.
func (a *Aggregator) keep(s *apiregistrationv1.APIService, found *apidiscovery.APIVersionDiscovery, openAPI string, v2 *swagger) *swagger {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := known{version: apiserver.DelegatedVersion{
		Group: s.Spec.Group, GroupPriority: s.Spec.GroupPriorityMinimum, VersionPriority: s.Spec.VersionPriority,
		Discovery: apidiscovery.APIVersionDiscovery{Version: s.Spec.Version, Freshness: apidiscovery.DiscoveryFreshnessStale},
	}, openAPI: openAPI, swagger: v2}
	before := a.known[s.Name]
	switch {
	case found != nil && found.Freshness == apidiscovery.DiscoveryFreshnessCurrent:
		now.version.Discovery = *found
	case before != nil:
		now.version.Discovery, now.openAPI, now.swagger = before.version.Discovery, before.openAPI, before.swagger
		if found != nil {
			now.version.Discovery.Freshness = found.Freshness
		}
	}
	a.known[s.Name] = &now
	a.publish()
	if before == nil {
		return nil
	}
	return before.swagger
}

// publish makes what is known visible. The lock is held.
func (a *Aggregator) publish() {
	next := &apiserver.Delegated{}
	for _, name := range slices.Sorted(maps.Keys(a.known)) {
		next.Versions = append(next.Versions, a.known[name].version)
	}
	if before := a.snapshot.Load(); before == nil || !equality.Semantic.DeepEqual(before.Versions, next.Versions) {
		a.snapshot.Store(next)
		if a.options.Changed != nil {
			a.options.Changed()
		}
	}
}

// discover asks for what is served in the APIService's version.
func (a *Aggregator) discover(ctx context.Context, s *apiregistrationv1.APIService) (apidiscovery.APIVersionDiscovery, error) {
	none := apidiscovery.APIVersionDiscovery{}
	if !available(s) {
		return none, errUnavailable
	}
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	all, err := a.ask(ctx, s, question{path: "/apis", accept: aggregated, as: masters(), reads: true})
	switch {
	case err != nil:
		return none, err
	case all.code == http.StatusServiceUnavailable:
		return none, fmt.Errorf("%w: %s answers with %d", ErrAnswer, all.url, all.code)
	case all.code == http.StatusOK && isAggregated(all.header.Get("Content-Type")):
		return fromGroups(all.body, s.Spec.Group, s.Spec.Version)
	}
	one, err := a.ask(ctx, s, question{
		path: discoveryPath(s), accept: "application/json", as: &authn.Identity{Name: "system:kube-aggregator"}, reads: true,
	})
	switch {
	case err != nil:
		return none, err
	case one.code != http.StatusOK:
		return none, fmt.Errorf("%w: %s answers with %d", ErrAnswer, one.url, one.code)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(one.body, &list); err != nil {
		return none, fmt.Errorf("%w: %s: %w", ErrAnswer, one.url, err)
	}
	return apidiscovery.APIVersionDiscovery{Resources: apiserver.Discovered(list.APIResources)}, nil
}

// isAggregated reports whether an answer is the discovery of all groups.
func isAggregated(contentType string) bool {
	_, p, err := mime.ParseMediaType(contentType)
	return err == nil && p["g"] == "apidiscovery.k8s.io" && p["v"] == "v2" && p["as"] == "APIGroupDiscoveryList"
}

// fromGroups picks one version. A server that does not list it serves nothing in it.
func fromGroups(data []byte, group, version string) (apidiscovery.APIVersionDiscovery, error) {
	var list apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal(data, &list); err != nil {
		return apidiscovery.APIVersionDiscovery{}, fmt.Errorf("%w: discovery: %w", ErrAnswer, err)
	}
	for i := range list.Items {
		if list.Items[i].Name != group {
			continue
		}
		for _, v := range list.Items[i].Versions {
			if v.Version == version {
				complete(&v)
				return v, nil
			}
		}
	}
	return apidiscovery.APIVersionDiscovery{}, nil
}

// complete fills in the kinds that clients read without looking whether they are there.
func complete(v *apidiscovery.APIVersionDiscovery) {
	for i := range v.Resources {
		r := &v.Resources[i]
		if r.ResponseKind == nil {
			r.ResponseKind = &metav1.GroupVersionKind{}
		}
		for j := range r.Subresources {
			if r.Subresources[j].ResponseKind == nil {
				r.Subresources[j].ResponseKind = &metav1.GroupVersionKind{}
			}
		}
	}
}
