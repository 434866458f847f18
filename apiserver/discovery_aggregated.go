package apiserver

import (
	"cmp"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

func aggregatedGVK() schema.GroupVersionKind {
	return apidiscovery.SchemeGroupVersion.WithKind("APIGroupDiscoveryList")
}

// aggregated is a discovery document of many groups at once
// (https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery).
type aggregated struct {
	list *apidiscovery.APIGroupDiscoveryList
	json []byte
	etag string // quoted; the same for all media types, which Vary tells apart
}

func (d *discovery) aggregate(groups []metav1.APIGroup) (*aggregated, error) {
	a := &aggregated{list: &apidiscovery.APIGroupDiscoveryList{Items: []apidiscovery.APIGroupDiscovery{}}}
	for _, g := range groups {
		group := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
			switch {
			case d.delegated[gv] != nil:
				group.Versions = append(group.Versions, d.delegated[gv].Discovery)
			case d.resources[gv] != nil:
				group.Versions = append(group.Versions, apidiscovery.APIVersionDiscovery{
					Version: v.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent, Resources: Discovered(d.resources[gv].APIResources),
				})
			}
		}
		if len(group.Versions) > 0 {
			a.list.Items = append(a.list.Items, group)
		}
	}
	hashed, err := json.Marshal(a.list)
	if err != nil {
		return nil, err
	}
	sum := sha512.Sum512(hashed)
	a.etag = strconv.Quote(fmt.Sprintf("%X", sum[:]))
	a.json, err = encode(mediaJSON, aggregatedGVK(), a.list.DeepCopy())
	return a, err
}

// Discovered puts subresources under their resources, which come before them in the list; others are left out.
func Discovered(resources []metav1.APIResource) []apidiscovery.APIResourceDiscovery {
	all := []apidiscovery.APIResourceDiscovery{}
	for i := range resources {
		r := &resources[i]
		kind := &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
		if name, sub, ok := strings.Cut(r.Name, "/"); ok {
			i := slices.IndexFunc(all, func(d apidiscovery.APIResourceDiscovery) bool { return d.Resource == name })
			if i < 0 {
				continue
			}
			all[i].Subresources = append(all[i].Subresources, apidiscovery.APISubresourceDiscovery{
				Subresource: sub, ResponseKind: kind, Verbs: r.Verbs,
			})
			continue
		}
		scope := apidiscovery.ScopeCluster
		if r.Namespaced {
			scope = apidiscovery.ScopeNamespace
		}
		all = append(all, apidiscovery.APIResourceDiscovery{
			Resource: r.Name, ResponseKind: kind, Scope: scope, SingularResource: r.SingularName,
			Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		})
	}
	return all
}

// wantsAggregated tells whether any clause of an Accept header asks for the aggregated document, and in which media type:
// clients that know of it prefer it, wherever it stands in the header. As upstream, it no longer serves version v2beta1.
func wantsAggregated(r *http.Request) (mediaType, bool) {
	header := r.Header.Get("Accept")
	if !strings.Contains(header, aggregatedGVK().Kind) {
		return "", false
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		p := clause.Params
		if p["g"] != aggregatedGVK().Group || p["v"] != aggregatedGVK().Version || p["as"] != aggregatedGVK().Kind || p["sv"] != "" {
			continue
		}
		for _, m := range offered(r) {
			class, sub, _ := strings.Cut(m, "/")
			matches := clause.Type == class && (clause.SubType == sub || clause.SubType == "*") || clause.Type == "*" && clause.SubType == "*"
			streams := p["stream"] == "" || p["stream"] == "watch" && mediaType(m) != mediaYAML
			if matches && streams {
				return mediaType(m), true
			}
		}
	}
	return "", false
}

func (d *discovery) serveAggregated(w http.ResponseWriter, r *http.Request, path string, m mediaType) {
	get := d.named
	if path == "api" {
		get = d.legacy
	}
	a, err := get()
	if err != nil {
		writeError(w, r, err)
		return
	}
	w.Header().Set("ETag", a.etag)
	w.Header().Set("Vary", "Accept")
	w.Header().Set("Cache-Control", "public")
	if r.Header.Get("If-None-Match") == a.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	data := a.json
	if m != mediaJSON {
		if data, err = encode(m, aggregatedGVK(), a.list.DeepCopy()); err != nil {
			writeError(w, r, err)
			return
		}
	}
	w.Header().Set("Content-Type", string(m)+";g="+aggregatedGVK().Group+";v="+aggregatedGVK().Version+";as="+aggregatedGVK().Kind)
	_, _ = w.Write(format{mediaType: m, pretty: m == mediaJSON && wantsPretty(r)}.indent(data)) // a client that is gone is no error of ours
}

func coreGroup() metav1.APIGroup {
	return metav1.APIGroup{Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "v1", Version: "v1"}}}
}

const priorityOfCustomResources = 1000

// priority decides where upstream lists a group of the server's; groups of others come last.
func priority(group string) int {
	return cmp.Or(map[string]int{
		"apiregistration.k8s.io": 20000,
		"apps":                   17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600,
		"autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
		"rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700,
		"admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500,
		"node.k8s.io": 16300, "discovery.k8s.io": 16200, "resource.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100,
		"internal.apiserver.k8s.io": 16000, "storagemigration.k8s.io": 15800,
	}[group], priorityOfCustomResources)
}

// priority decides where a group is listed: the highest of its versions' priorities.
func (d *discovery) priority(g *metav1.APIGroup) int {
	highest := 0
	for _, v := range g.Versions {
		if e := d.delegated[schema.GroupVersion{Group: g.Name, Version: v.Version}]; e != nil {
			highest = max(highest, int(e.GroupPriority))
		} else {
			highest = max(highest, priority(g.Name))
		}
	}
	return highest
}

// versionPriority decides where a version is listed in its group.
func (d *discovery) versionPriority(group, version string) int32 {
	const ofBuiltin, ofCustomResources = 15, 100
	switch e := d.delegated[schema.GroupVersion{Group: group, Version: version}]; {
	case e != nil:
		return e.VersionPriority
	case priority(group) > priorityOfCustomResources:
		return ofBuiltin
	}
	return ofCustomResources
}

// sortGroups puts groups and their versions into upstream's order, the preferred version first.
// kubectl prints them in this order, and takes the first group that has a resource of some name.
func (d *discovery) sortGroups() {
	for i := range d.groups {
		g := &d.groups[i]
		slices.SortFunc(g.Versions, func(a, b metav1.GroupVersionForDiscovery) int {
			return cmp.Or(cmp.Compare(d.versionPriority(g.Name, b.Version), d.versionPriority(g.Name, a.Version)),
				version.CompareKubeAwareVersionStrings(b.Version, a.Version))
		})
		g.PreferredVersion = g.Versions[0]
	}
	slices.SortFunc(d.groups, func(a, b metav1.APIGroup) int {
		return cmp.Or(cmp.Compare(d.priority(&b), d.priority(&a)), cmp.Compare(service(a), service(b)))
	})
}

// service is the name of a group's first APIService, which breaks ties.
func service(g metav1.APIGroup) string {
	var names []string
	for _, v := range g.Versions {
		names = append(names, v.Version+"."+g.Name)
	}
	return slices.Min(names)
}

// byNameOnTie returns the groups in the order of the aggregated document.
func (d *discovery) byNameOnTie() []metav1.APIGroup {
	groups := slices.Clone(d.groups)
	slices.SortFunc(groups, func(a, b metav1.APIGroup) int {
		return cmp.Or(cmp.Compare(d.priority(&b), d.priority(&a)), cmp.Compare(a.Name, b.Name))
	})
	return groups
}
