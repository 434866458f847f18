package openapi

import (
	"net/http"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// route is one operation: a method of a path.
type route struct {
	method   string // as in net/http
	path     string
	name     string // upstream's name of the operation, before the group goes into it
	doc      string
	action   string // x-kubernetes-action
	kind     schema.GroupVersionKind
	consumes []string
	produces []string
	params   []param
	body     string // the definition that is read; empty: none
	optional bool   // the body may be left out
	answers  []answer
}

// param is a parameter in the path or the query. It is comparable: one that all operations of a
// path have is said once, for the path.
type param struct {
	name, in, doc, kind string
}

// answer is what a status code brings; without a definition it is a string.
type answer struct {
	code       int
	definition string
}

const (
	inPath  = "path"
	inQuery = "query"

	mediaJSON     = "application/json"
	mediaYAML     = "application/yaml"
	mediaProtobuf = "application/vnd.kubernetes.protobuf"
	watching      = ";stream=watch"
)

// serialized are the media types of all upstream kinds.
func serialized() []string { return []string{mediaJSON, mediaYAML, mediaProtobuf} }

// anything is what operations read, as upstream has it.
func anything() []string { return []string{"*/*"} }

// patches are the media types of patches.
func patches() []string {
	return []string{
		"application/json-patch+json", "application/merge-patch+json",
		"application/strategic-merge-patch+json", "application/apply-patch+yaml",
	}
}

// routes are the operations of one resource.
func (r *resource) routes() []route {
	if r.Answer != nil {
		return []route{r.create(r.collection(), r.gvk)}
	}
	all := r.parts()
	for name, action := range r.actions {
		s := *r
		s.sub, s.object = name, action.definition
		all = append(all, s.create(s.item(action.kind.Kind), action.kind))
	}
	for name, connect := range r.Sub.Connects {
		all = append(all, r.connect(name, connect)...)
	}
	return all
}

// parts are the operations on the resource itself and on parts of it.
func (r *resource) parts() []route {
	if r.Schema != nil && r.Stored() {
		return r.customRoutes()
	}
	all := r.objects()
	for name := range r.Sub.Views {
		verbs := viewVerbs()
		if name == "finalize" {
			verbs = []string{"update"} // it can only be written whole
		}
		all = append(all, r.view(name, r.gvk, r.object, verbs)...)
	}
	if r.Sub.Scale != nil {
		all = append(all, r.view("scale", scaleKind(), scaleDefinition, viewVerbs())...)
	}
	return all
}

// objects are the operations on the resource itself.
func (r *resource) objects() []route {
	collection, item := r.collection(), r.item(r.gvk.Kind)
	if r.Read != nil {
		all := []route{r.list(collection, ""), r.read(item, r.gvk)}
		if r.Namespaced {
			all = append(all, r.list(place{path: r.plural}, "ForAllNamespaces"))
		}
		return all
	}
	all := []route{
		r.list(collection, ""), r.create(collection, r.gvk),
		r.read(item, r.gvk), r.replace(item, r.gvk), r.patch(item, r.gvk), r.remove(item),
		r.watch(collection, "List", ""), r.watch(item, "", ""),
	}
	if !r.Rules.Deletion.Singly {
		all = append(all, r.removeAll(collection))
	}
	if r.Namespaced {
		everywhere := place{path: r.plural}
		all = append(all, r.list(everywhere, "ForAllNamespaces"), r.watch(everywhere, "List", "ForAllNamespaces"))
	}
	return all
}

// view are the operations on a subresource that shows a part of the object.
func (r *resource) view(name string, kind schema.GroupVersionKind, definition string, verbs []string) []route {
	s := *r
	s.sub, s.object = name, definition
	item := s.item(kind.Kind)
	var all []route
	for _, verb := range verbs {
		switch verb {
		case "get":
			all = append(all, s.read(item, kind))
		case "update":
			all = append(all, s.replace(item, kind))
		case "patch":
			all = append(all, s.patch(item, kind))
		}
	}
	return all
}

// place is where operations are, below the group-version.
type place struct {
	path   string
	params []param
}

func (r *resource) collection() place {
	if !r.Namespaced {
		return place{path: r.plural}
	}
	return place{"namespaces/{namespace}/" + r.plural, []param{
		{"namespace", inPath, "object name and auth scope, such as for teams and projects", "string"},
	}}
}

func (r *resource) item(kind string) place {
	p := r.collection()
	p.path += "/{name}"
	if r.sub != "" {
		p.path += "/" + r.sub
	}
	p.params = append(p.params, param{"name", inPath, "name of the " + kind, "string"})
	return p
}

// route begins an operation; the name is verb, kind and subresource in upstream's order.
func (r *resource) route(method, verb string, at place, suffix string) route {
	namespaced := ""
	if r.Namespaced && suffix != "ForAllNamespaces" && suffix != "ListForAllNamespaces" {
		namespaced = "Namespaced"
	}
	return route{
		method: method, path: r.base + at.path, name: verb + namespaced + r.gvk.Kind + title(r.sub) + suffix,
		consumes: anything(), produces: r.media,
		params: append([]param{{"pretty", inQuery, prettyDoc, "string"}}, at.params...),
	}
}

const prettyDoc = "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or command-line HTTP tool (curl and wget)."

func (r *resource) list(at place, suffix string) route {
	t := r.route(http.MethodGet, "list", at, suffix)
	t.doc, t.action, t.kind = "list or watch objects of kind "+r.gvk.Kind, "list", r.gvk
	if r.Read != nil { // what is computed cannot be watched
		t.doc = "list objects of kind " + r.gvk.Kind
	}
	t.produces = append(append([]string{}, r.media...), r.streams()...)
	t.params = append(t.params, fieldParams(metav1.ListOptions{})...)
	t.answers = []answer{{http.StatusOK, r.listed}}
	return t
}

func (r *resource) watch(at place, what, suffix string) route {
	t := r.route(http.MethodGet, "watch", place{"watch/" + at.path, at.params}, what+suffix)
	t.action, t.kind = "watch", r.gvk
	t.doc = "watch changes to an object of kind " + r.gvk.Kind +
		". deprecated: use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."
	if what != "" {
		t.action = "watchlist"
		t.doc = "watch individual changes to a list of " + r.gvk.Kind + ". deprecated: use the 'watch' parameter with a list operation instead."
	}
	t.produces = append(append([]string{}, r.media...), r.streams()...)
	t.params = append(t.params, fieldParams(metav1.ListOptions{})...)
	t.answers = []answer{{http.StatusOK, watchEvent}}
	return t
}

func (r *resource) create(at place, kind schema.GroupVersionKind) route {
	t := r.route(http.MethodPost, "create", at, "")
	t.doc, t.action, t.kind = "create"+article(r.gvk.Kind)+r.gvk.Kind, "post", kind
	if r.sub != "" {
		t.doc = "create " + r.sub + " of" + article(r.gvk.Kind) + r.gvk.Kind
	}
	t.params = append(t.params, fieldParams(metav1.CreateOptions{})...)
	t.body = r.object
	t.answers = []answer{{http.StatusOK, r.object}, {http.StatusCreated, r.object}, {http.StatusAccepted, r.object}}
	return t
}

func (r *resource) read(at place, kind schema.GroupVersionKind) route {
	t := r.route(http.MethodGet, "read", at, "")
	t.doc, t.action, t.kind = "read "+r.specified(), "get", kind
	t.answers = []answer{{http.StatusOK, r.object}}
	return t
}

func (r *resource) replace(at place, kind schema.GroupVersionKind) route {
	t := r.route(http.MethodPut, "replace", at, "")
	t.doc, t.action, t.kind = "replace "+r.specified(), "put", kind
	t.params = append(t.params, fieldParams(metav1.UpdateOptions{})...)
	t.body = r.object
	t.answers = []answer{{http.StatusOK, r.object}, {http.StatusCreated, r.object}}
	return t
}

func (r *resource) patch(at place, kind schema.GroupVersionKind) route {
	t := r.route(http.MethodPatch, "patch", at, "")
	t.doc, t.action, t.kind = "partially update "+r.specified(), "patch", kind
	t.consumes = patches()
	if !slices.Contains(r.media, mediaProtobuf) { // strategic merge is of upstream's types alone, as protobuf is
		t.consumes = slices.DeleteFunc(t.consumes, func(m string) bool { return strings.Contains(m, "strategic") })
	}
	t.params = append(t.params, fieldParams(metav1.PatchOptions{})...)
	t.body = patchDefinition
	t.answers = []answer{{http.StatusOK, r.object}, {http.StatusCreated, r.object}}
	return t
}

func (r *resource) remove(at place) route {
	t := r.route(http.MethodDelete, "delete", at, "")
	t.doc, t.action, t.kind = "delete"+article(r.gvk.Kind)+r.gvk.Kind, "delete", r.gvk
	t.params = append(t.params, fieldParams(metav1.DeleteOptions{})...)
	t.body, t.optional = deleteOptions, true
	removed := statusDefinition
	if r.Rules.Deletion.ReturnsObject && r.GroupResource() != (schema.GroupResource{Resource: "namespaces"}) {
		removed = r.object // of namespaces upstream says Status, whatever it answers
	}
	t.answers = []answer{{http.StatusOK, removed}, {http.StatusAccepted, removed}}
	return t
}

func (r *resource) removeAll(at place) route {
	t := r.route(http.MethodDelete, "deletecollection", at, "")
	t.doc, t.action, t.kind = "delete collection of "+r.gvk.Kind, "deletecollection", r.gvk
	t.params = append(t.params, fieldParams(metav1.DeleteOptions{})...)
	t.params = append(t.params, fieldParams(metav1.ListOptions{}, "watch", "allowWatchBookmarks")...)
	t.body, t.optional = deleteOptions, true
	t.answers = []answer{{http.StatusOK, statusDefinition}}
	return t
}

// specified is the object in the words of upstream's descriptions.
func (r *resource) specified() string {
	if r.sub != "" {
		return r.sub + " of the specified " + r.gvk.Kind
	}
	return "the specified " + r.gvk.Kind
}

// streams are the media types of watches.
func (r *resource) streams() []string {
	var all []string
	for _, m := range r.media {
		if m != mediaYAML {
			all = append(all, m+watching)
		}
	}
	return all
}

// article is what stands between a verb and a kind.
func article(noun string) string {
	switch {
	case strings.HasSuffix(noun, "s") && !strings.HasSuffix(noun, "ss"):
		return " "
	case strings.ContainsRune("aeiou", unicode.ToLower(rune(noun[0]))):
		return " an "
	}
	return " a "
}

// title is a subresource's name in an operation's.
func title(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + strings.ToLower(s[1:])
}

// operationID puts group and version into an operation's name, after the verb: the one that its
// name begins with, so that deletecollection becomes delete…Collection.
func operationID(name, path string) (id string, tags []string) {
	verb := ""
	for _, v := range []string{"get", "log", "read", "replace", "patch", "delete", "watch", "connect", "proxy", "list", "create"} {
		if strings.HasPrefix(name, v) {
			verb = v
		}
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "api" {
		parts = append([]string{"apis", "core"}, parts[1:]...)
	}
	if parts[0] != "apis" || len(parts) < 2 {
		return verb + identifier(name[len(verb):], true), []string{identifier(parts[0], false)}
	}
	group := strings.TrimSuffix(parts[1], ".k8s.io")
	id, tag := verb+identifier(group, true), identifier(group, false)
	if len(parts) > 2 {
		id += identifier(parts[2], true)
		tag += "_" + identifier(parts[2], false)
	}
	return id + identifier(name[len(verb):], true), []string{tag}
}

// identifier leaves letters, digits and underscores, with a capital after each gap.
func identifier(s string, capital bool) string {
	var b strings.Builder
	for i, r := range s {
		if !unicode.IsLetter(r) && r != '_' && (i == 0 || !unicode.IsDigit(r)) {
			capital = true
			continue
		}
		if capital {
			r, capital = unicode.ToUpper(r), false
		}
		b.WriteRune(r)
	}
	return b.String()
}
