package apiserver

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/status"
)

// discovery tells clients what is served, from documents that are built once.
type discovery struct {
	of        *served
	elsewhere *Delegated
	ending    []*registry.Resource // when it was made
	groups    []metav1.APIGroup    // in the order of upstream's priorities, without the core group
	resources map[schema.GroupVersion]*metav1.APIResourceList
	delegated map[schema.GroupVersion]*DelegatedVersion
	// legacy and named are the aggregated documents of the core group and of all others.
	legacy, named func() (*aggregated, error)
}

func discover(now *served, elsewhere *Delegated) *discovery {
	d := &discovery{
		of: now, elsewhere: elsewhere,
		resources: map[schema.GroupVersion]*metav1.APIResourceList{}, delegated: map[schema.GroupVersion]*DelegatedVersion{},
	}
	for _, res := range now.resources {
		for _, v := range res.Versions() {
			d.add(now.endpoints[v.GroupVersion.WithResource(v.Plural)])
		}
	}
	for _, l := range d.resources {
		sort.Slice(l.APIResources, func(a, b int) bool { return l.APIResources[a].Name < l.APIResources[b].Name })
	}
	d.addDelegated()
	d.sortGroups()
	d.legacy = sync.OnceValues(func() (*aggregated, error) { return d.aggregate([]metav1.APIGroup{coreGroup()}) })
	d.named = sync.OnceValues(func() (*aggregated, error) { return d.aggregate(d.byNameOnTie()) })
	return d
}

func (d *discovery) add(e *endpoint) {
	list := d.resources[e.gv]
	if list == nil {
		list = &metav1.APIResourceList{GroupVersion: e.gv.String()}
		d.resources[e.gv] = list
		if e.gv.Group != "" {
			d.addVersion(e.gv)
		}
	}
	resource := metav1.APIResource{
		Name: e.names.Plural, SingularName: e.names.Singular, Namespaced: e.resource.Namespaced, Kind: e.names.Kind,
		Verbs: e.verbs(), ShortNames: e.names.Short, Categories: e.names.Categories,
	}
	if e.resource.Stored() {
		resource.StorageVersionHash = storageVersionHash(e.resource.Storage().StoredAs())
	}
	list.APIResources = append(list.APIResources, resource)
	sub := func(name string, verbs ...string) metav1.APIResource {
		return metav1.APIResource{Name: e.names.Plural + "/" + name, Namespaced: e.resource.Namespaced, Kind: e.names.Kind, Verbs: verbs}
	}
	for name := range e.resource.Sub.Views {
		view := sub(name, "get", "patch", "update")
		if name == "finalize" {
			view.Verbs = metav1.Verbs{"update"}
		}
		list.APIResources = append(list.APIResources, view)
	}
	if e.resource.Sub.Scale != nil {
		scale := sub("scale", "get", "patch", "update")
		scale.Group, scale.Version, scale.Kind = scaleGVK().Group, scaleGVK().Version, scaleGVK().Kind
		list.APIResources = append(list.APIResources, scale)
	}
	for name, action := range e.resource.Sub.Actions {
		a := sub(name, "create")
		a.Kind = action.GroupVersionKind.Kind
		if gv := action.GroupVersionKind.GroupVersion(); gv != e.gv {
			a.Group, a.Version = gv.Group, gv.Version
		}
		list.APIResources = append(list.APIResources, a)
	}
	for name, connect := range e.resource.Sub.Connects {
		a := sub(name, connectVerbs(connect.Methods)...)
		if !connect.Reads {
			a.Kind = connect.GroupVersionKind.Kind
		}
		list.APIResources = append(list.APIResources, a)
	}
}

// addDelegated adds what others serve, which comes before what the server has of the same version.
func (d *discovery) addDelegated() {
	if d.elsewhere == nil {
		return
	}
	for i := range d.elsewhere.Versions {
		v := &d.elsewhere.Versions[i]
		gv := schema.GroupVersion{Group: v.Group, Version: v.Discovery.Version}
		d.delegated[gv] = v
		if d.resources[gv] == nil && gv.Group != "" {
			d.addVersion(gv)
		}
	}
}

func (d *discovery) addVersion(gv schema.GroupVersion) {
	v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
	i := slices.IndexFunc(d.groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
	if i < 0 {
		d.groups = append(d.groups, metav1.APIGroup{Name: gv.Group})
		i = len(d.groups) - 1
	}
	d.groups[i].Versions = append(d.groups[i].Versions, v)
}

// storageVersionHash changes, as upstream's does, when objects come to be stored as another type.
func storageVersionHash(gvk schema.GroupVersionKind) string {
	sum := sha256.Sum256([]byte(gvk.Group + "/" + gvk.Version + "/" + gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// serve answers requests that are not about resources. The documents of groups take any method, since upstream's
// aggregator serves them; the others take GET alone, and check first what the client accepts.
func (d *discovery) serve(w http.ResponseWriter, r *http.Request, v version.Info) {
	path := strings.Trim(r.URL.Path, "/")
	gvk, obj := d.document(path, r.Host)
	aggregator := gvk.Kind == "APIGroup" || gvk.Kind == "APIGroupList"
	switch {
	case obj == nil && path != "version":
		group := ""
		if parts := strings.Split(path, "/"); parts[0] == "apis" && len(parts) > 2 {
			group = parts[1]
		} else if parts[0] != "api" {
			http.NotFound(w, r)
			return
		}
		d.notFound(w, r, group)
	case r.Method != http.MethodGet && !aggregator:
		writeError(w, r, status.NoRoute(http.StatusMethodNotAllowed, "405: Method Not Allowed"))
	case obj == nil:
		serveVersion(w, v)
	default:
		if err := acceptable(r, offered(r)); err != nil && !aggregator {
			writeError(w, r, err)
			return
		}
		if m, ok := wantsAggregated(r); ok && (path == "api" || path == "apis") {
			d.serveAggregated(w, r, path, m)
			return
		}
		writeObject(w, r, http.StatusOK, gvk, obj)
	}
}

// notFound answers requests for a path that does not exist: with a Status below a group that is served, else with plain
// text.
func (d *discovery) notFound(w http.ResponseWriter, r *http.Request, group string) {
	if group == "" || slices.ContainsFunc(d.groups, func(g metav1.APIGroup) bool { return g.Name == group }) {
		writeError(w, r, status.NoRoute(http.StatusNotFound, "404: Page Not Found"))
		return
	}
	http.NotFound(w, r)
}

// document returns the discovery document at a path, or nil.
func (d *discovery) document(path, host string) (schema.GroupVersionKind, runtime.Object) {
	meta := func(kind string) schema.GroupVersionKind { return schema.GroupVersionKind{Version: "v1", Kind: kind} }
	parts := strings.Split(path, "/")
	var gv schema.GroupVersion
	switch {
	case path == "api":
		return gv.WithKind("APIVersions"), &metav1.APIVersions{
			Versions:                   []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: host}},
		}
	case path == "apis":
		return meta("APIGroupList"), &metav1.APIGroupList{Groups: d.groups}
	case parts[0] == "apis" && len(parts) == 2:
		i := slices.IndexFunc(d.groups, func(g metav1.APIGroup) bool { return g.Name == parts[1] })
		if i < 0 {
			return gv.WithKind(""), nil
		}
		return meta("APIGroup"), d.groups[i].DeepCopy()
	case parts[0] == "api" && len(parts) == 2:
		gv.Version = parts[1]
	case parts[0] == "apis" && len(parts) == 3:
		gv.Group, gv.Version = parts[1], parts[2]
	}
	if list, ok := d.resources[gv]; ok {
		if gv.Group == "" { // upstream's oldest document, which names no apiVersion
			return schema.GroupVersionKind{Kind: "APIResourceList"}, list.DeepCopy()
		}
		return meta("APIResourceList"), list.DeepCopy()
	}
	return gv.WithKind(""), nil
}
