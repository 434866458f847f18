package apiserver

import (
	"net/http"
	"slices"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/keelson-dev/keelson/registry"
)

// discovery answers what is served, from documents made once.
type discovery struct {
	groups    []metav1.APIGroup // in the order of definition, without the core group
	resources map[schema.GroupVersion]*metav1.APIResourceList
}

func discover(r *registry.Registry, endpoints map[schema.GroupVersionResource]*endpoint) *discovery {
	d := &discovery{resources: map[schema.GroupVersion]*metav1.APIResourceList{}}
	for _, res := range r.Resources() {
		d.add(endpoints[res.GroupVersion.WithResource(res.Plural)])
		for _, v := range res.Also {
			d.add(endpoints[v.GroupVersion.WithResource(v.Names.Plural)])
		}
	}
	for _, l := range d.resources {
		sort.Slice(l.APIResources, func(a, b int) bool { return l.APIResources[a].Name < l.APIResources[b].Name })
	}
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
	list.APIResources = append(list.APIResources, metav1.APIResource{
		Name: e.names.Plural, SingularName: e.names.Singular, Namespaced: e.Namespaced, Kind: e.names.Kind,
		Verbs: e.verbs(), ShortNames: e.names.Short, Categories: e.names.Categories,
	})
	sub := func(name string, verbs ...string) metav1.APIResource {
		return metav1.APIResource{Name: e.names.Plural + "/" + name, Namespaced: e.Namespaced, Kind: e.names.Kind, Verbs: verbs}
	}
	for name := range e.Sub.Views {
		view := sub(name, "get", "patch", "update")
		if name == "finalize" {
			view.Verbs = metav1.Verbs{"update"}
		}
		list.APIResources = append(list.APIResources, view)
	}
	if e.Sub.Scale != nil {
		scale := sub("scale", "get", "patch", "update")
		scale.Group, scale.Version, scale.Kind = scaleGVK.Group, scaleGVK.Version, scaleGVK.Kind
		list.APIResources = append(list.APIResources, scale)
	}
	for name, action := range e.Sub.Actions {
		a := sub(name, "create")
		a.Kind = action.GroupVersionKind.Kind
		if gv := action.GroupVersionKind.GroupVersion(); gv != e.gv {
			a.Group, a.Version = gv.Group, gv.Version
		}
		list.APIResources = append(list.APIResources, a)
	}
}

func (d *discovery) addVersion(gv schema.GroupVersion) {
	v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
	i := slices.IndexFunc(d.groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
	if i < 0 {
		d.groups = append(d.groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: v})
		i = len(d.groups) - 1
	}
	d.groups[i].Versions = append(d.groups[i].Versions, v)
}

// serve answers requests that are not about resources.
func (d *discovery) serve(w http.ResponseWriter, r *http.Request, v version.Info) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	meta := func(kind string) schema.GroupVersionKind { return schema.GroupVersionKind{Version: "v1", Kind: kind} }
	path := strings.Trim(r.URL.Path, "/")
	parts := strings.Split(path, "/")
	switch {
	case path == "version":
		serveVersion(w, v)
	case path == "api":
		writeObject(w, r, http.StatusOK, meta("APIVersions"), &metav1.APIVersions{
			Versions:                   []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host}},
		})
	case path == "apis":
		writeObject(w, r, http.StatusOK, meta("APIGroupList"), &metav1.APIGroupList{Groups: d.groups})
	case parts[0] == "apis" && len(parts) == 2:
		for _, g := range d.groups {
			if g.Name == parts[1] {
				writeObject(w, r, http.StatusOK, meta("APIGroup"), g.DeepCopy())
				return
			}
		}
		http.NotFound(w, r)
	default:
		gv := schema.GroupVersion{}
		if parts[0] == "api" && len(parts) == 2 {
			gv.Version = parts[1]
		} else if parts[0] == "apis" && len(parts) == 3 {
			gv = schema.GroupVersion{Group: parts[1], Version: parts[2]}
		}
		if list, ok := d.resources[gv]; ok {
			writeObject(w, r, http.StatusOK, meta("APIResourceList"), list.DeepCopy())
			return
		}
		http.NotFound(w, r)
	}
}
