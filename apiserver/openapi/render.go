package openapi

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
)

// service is what one document of v3 speaks of; the document of v2 speaks of all.
type service struct {
	key   string // the path below /openapi/v3/
	gv    schema.GroupVersion
	kinds []*registry.Kind
	fixed []route // the routes of no kind
	// custom says that all kinds have a schema. Upstream publishes such group-versions, and groups, without their discovery.
	custom bool
}

// services are what a server of these kinds offers.
func services(kinds []*registry.Kind, o Options) []service {
	all := []service{
		fixed("api", "getAPIVersions", "get available API versions", meta+"APIVersions"),
		fixed("apis", "getAPIVersions", "get available API versions", meta+"APIGroupList"),
		fixed("version", "getCodeVersion", "get the version information for this server", "io.k8s.apimachinery.pkg.version.Info"),
	}
	if o.Issuer {
		all = append(all,
			fixed(".well-known/openid-configuration", "getServiceAccountIssuerOpenIDConfiguration",
				"get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'", ""),
			fixed("openid/v1/jwks", "getServiceAccountIssuerOpenIDKeyset",
				"get service account issuer OpenID JSON Web Key Set (contains public token verification keys)", ""))
	}
	return append(all, groupVersions(kinds)...)
}

// groupVersions are the services of kinds, in the order in which the kinds name them, each group before its versions.
func groupVersions(kinds []*registry.Kind) []service {
	var order []schema.GroupVersion
	groups, services := map[string]bool{}, map[schema.GroupVersion]*service{} // groups: whether their discovery is published
	for _, k := range kinds {
		for _, v := range k.Served() {
			s := services[v.GroupVersion]
			if s == nil {
				s = &service{gv: v.GroupVersion, custom: true}
				services[v.GroupVersion] = s
				order = append(order, v.GroupVersion)
			}
			s.kinds = append(s.kinds, k)
			s.custom = s.custom && v.Schema != nil
			groups[v.GroupVersion.Group] = groups[v.GroupVersion.Group] || v.Schema == nil
		}
	}
	groups[""] = false
	var all []service
	for _, gv := range order {
		if groups[gv.Group] {
			groups[gv.Group] = false
			all = append(all, fixed("apis/"+gv.Group, "getAPIGroup", "get information of a group", meta+"APIGroup"))
		}
		s := fixed(strings.Trim(base(gv), "/"), "getAPIResources", "get available resources", meta+"APIResourceList")
		s.gv, s.kinds, s.custom = gv, services[gv].kinds, services[gv].custom
		if s.custom {
			s.fixed = nil
		}
		all = append(all, s)
	}
	return all
}

// fixed is a service with one route.
func fixed(key, name, doc, definition string) service {
	t := route{method: http.MethodGet, path: "/" + key + "/", name: name, doc: doc, answers: []answer{{http.StatusOK, definition}}}
	t.consumes, t.produces = serialized(), serialized()
	switch key {
	case "version":
		t.consumes, t.produces = []string{mediaJSON}, []string{mediaJSON}
	case ".well-known/openid-configuration":
		t.consumes, t.produces = nil, []string{mediaJSON}
	case "openid/v1/jwks":
		t.consumes, t.produces = nil, []string{"application/jwk-set+json"}
	}
	return service{key: key, fixed: []route{t}}
}

// paths are the routes of a service by their paths.
func (s *service) paths(t *types) map[string][]route {
	all := slices.Clone(s.fixed)
	for _, k := range s.kinds {
		r := newResource(k, s.gv, t)
		all = append(all, r.routes()...)
	}
	byPath := map[string][]route{}
	for _, t := range all {
		byPath[t.path] = append(byPath[t.path], t)
	}
	return byPath
}

// content is a document piece by piece, so that no more than a piece of it is in memory.
type content struct {
	version string // "v2" or "v3"
	info    map[string]string
	types   *types
	paths   map[string][]route
	gv      schema.GroupVersion // of a document of v3
	custom  bool                // about kinds with a schema alone
}

// item returns the JSON of the operations of a path.
func (c *content) item(path string, shared parameters2) ([]byte, error) {
	if c.version == "v3" {
		return marshal(newPath3(c.paths[path]))
	}
	item, err := shared.newPath2(c.paths[path])
	if err != nil {
		return nil, err
	}
	return marshal(item)
}

// names are the definitions that the paths need, these others, and those that these need.
func (c *content) names(others ...string) []string {
	need := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if name == "" || need[name] {
			return
		}
		need[name] = true
		next := c.types.archive.index[name]
		if m, ok := c.types.made[name]; ok {
			next = m.needs
		}
		for _, n := range next {
			visit(n)
		}
	}
	for _, name := range others {
		visit(name)
	}
	for _, routes := range c.paths {
		for i := range routes {
			visit(routes[i].body)
			for _, a := range routes[i].answers {
				visit(a.definition)
			}
		}
	}
	return slices.Sorted(maps.Keys(need))
}

// definition returns the JSON of a definition.
func (c *content) definition(name string) ([]byte, error) {
	if m, ok := c.types.made[name]; ok {
		if m.custom {
			return c.customDefinition(m.schema)
		}
		data, err := marshal(m.schema)
		if c.version == "v2" {
			data = bytes.ReplaceAll(data, []byte(prefix3), []byte(prefix2))
		}
		return data, err
	}
	data, err := c.types.archive.definition(c.version, name)
	if err != nil || c.version == "v2" || name != watchEvent && name != deleteOptions {
		return data, err
	}
	return c.onlyHere(name, data)
}

// onlyHere leaves, of the kinds of a definition that every group-version has, that of this one
// and of the core group; or, if all kinds here have a schema, those of the groups that upstream's clients know.
func (c *content) onlyHere(name string, data []byte) ([]byte, error) {
	var s map[string]json.RawMessage
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	kind := name[strings.LastIndexByte(name, '.')+1:]
	kinds := []gvk{{"", "v1", kind}}
	if c.custom {
		if err := json.Unmarshal(s[kindExtension], &kinds); err != nil {
			return nil, err
		}
		kinds = slices.DeleteFunc(kinds, func(k gvk) bool { return slices.Contains(unknownToClients(), k.Group) })
	} else if c.gv != (schema.GroupVersion{Version: "v1"}) {
		kinds = append(kinds, gvk{c.gv.Group, c.gv.Version, kind})
	}
	list, err := marshal(kinds)
	if err != nil {
		return nil, err
	}
	s[kindExtension] = list
	return marshal(s)
}

// unknownToClients are upstream's groups that are not in the scheme of client-go.
func unknownToClients() []string {
	return []string{"admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"}
}

// writeJSON writes a document of v3 that is not about custom kinds alone.
func (c *content) writeJSON(w io.Writer) error {
	out := &writer{w: w}
	out.text(`{"openapi":"3.0.0","info":`)
	out.value(marshal(c.info))
	out.text(`,"paths":{`)
	c.writePaths(out, nil)
	out.text(`},"components":{"schemas":{`)
	out.more = false
	c.writeDefinitions(out, c.names())
	out.text(`},"securitySchemes":` + security + `}}`)
	return out.err
}

// writePaths writes the members of the object of all paths.
func (c *content) writePaths(out *writer, shared parameters2) {
	for _, path := range slices.Sorted(maps.Keys(c.paths)) {
		out.member(path)
		out.value(c.item(path, shared))
	}
}

// writeDefinitions writes the members of the object of all definitions.
func (c *content) writeDefinitions(out *writer, names []string) {
	for _, name := range names {
		out.member(name)
		out.value(c.definition(name))
	}
}

const security = `{"BearerToken":{"type":"apiKey","description":"Bearer Token authentication","name":"authorization","in":"header"}}`

// writer writes JSON and keeps the first error.
type writer struct {
	w    io.Writer
	more bool // the object that is written has members already
	err  error
}

func (w *writer) text(s string) { w.value([]byte(s), nil) }

func (w *writer) value(data []byte, err error) {
	if w.err == nil {
		w.err = err
	}
	if w.err == nil {
		_, w.err = w.w.Write(data)
	}
}

// member begins the next member of an object.
func (w *writer) member(name string) {
	if w.more {
		w.text(",")
	}
	w.more = true
	w.value(marshal(name))
	w.text(":")
}

// marshal is json.Marshal that leaves HTML's characters as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
