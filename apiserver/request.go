package apiserver

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authz/selector"
)

// Request is what a URL and method ask for. Fields beyond Verb and Path are set for requests
// about resources only.
type Request struct {
	// Verb is that of the API, such as "list", for a request about resources, otherwise the method in lower case.
	Verb string
	// Path is the path of the URL.
	Path string
	// IsResource tells that the path is one of the API's for resources.
	IsResource bool
	// Prefix is "api" or "apis".
	Prefix string
	// Group and Version are the API group, empty for the core group, and its version.
	Group, Version string
	// Namespace is the one in the path. Requests about a Namespace have its own name here, too.
	Namespace string
	// Resource and Subresource are names as in the path: "pods", "log".
	Resource, Subresource string
	// Name is the name of the object, if the request is about one.
	Name string
	// Selected tells that Name comes from a field selector, not from the path.
	Selected bool
	// Rest are the parts of the path after the subresource.
	Rest []string

	prefixed bool // the verb stands in the path: /api/v1/watch/pods
	nameless bool // the path names no resource where it must
}

// LongRunning tells whether the request lasts as long as its client wants. Such requests have no timeout and do not count as
// in flight.
func (q *Request) LongRunning() bool {
	switch {
	case q.Verb == "watch" || q.Verb == "proxy":
		return true
	case q.IsResource:
		switch q.Subresource {
		case "attach", "exec", "proxy", "log", "portforward":
			return true
		}
		return false
	}
	return strings.HasPrefix(q.Path, "/debug/pprof/")
}

func (q *Request) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: q.Group, Version: q.Version, Resource: q.Resource}
}

// ReadOnly tells whether the request's verb changes nothing.
func (q *Request) ReadOnly() bool { return q.Verb == "get" || q.Verb == "list" || q.Verb == "watch" }

// ParseRequest reads method and URL as upstream does. It accepts any; whether there is such a resource it does not say.
func ParseRequest(r *http.Request) Request {
	q := Request{Verb: strings.ToLower(r.Method), Path: r.URL.Path}
	parts := split(r.URL.Path)
	if len(parts) < 3 || parts[0] != "api" && parts[0] != "apis" {
		return q
	}
	q.Prefix, parts = parts[0], parts[1:]
	if q.Prefix == "apis" {
		if len(parts) < 3 {
			return q
		}
		q.Group, parts = parts[0], parts[1:]
	}
	q.IsResource = true
	q.Version, parts = parts[0], parts[1:]
	if parts[0] == "watch" || parts[0] == "proxy" {
		q.Verb, q.prefixed = parts[0], true
		if parts = parts[1:]; len(parts) == 0 {
			q.nameless = true
			return q
		}
	}
	q.resource(parts)
	if !q.prefixed {
		q.verb(r)
	}
	return q
}

// resource takes namespace, resource, name and subresource from what follows the version.
func (q *Request) resource(parts []string) {
	if parts[0] == "namespaces" && len(parts) > 1 {
		q.Namespace = parts[1]
		// A resource of the namespace follows, unless it is one of the namespace's own subresources.
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	q.Resource = parts[0]
	if len(parts) > 1 {
		q.Name = parts[1]
	}
	if len(parts) > 2 && q.Verb != "proxy" {
		q.Subresource = parts[2]
		q.Rest = parts[3:]
	}
}

func (q *Request) verb(r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		q.Verb = "create"
	case http.MethodGet, http.MethodHead:
		q.Verb = "get"
	case http.MethodPut:
		q.Verb = "update"
	case http.MethodPatch:
		q.Verb = "patch"
	case http.MethodDelete:
		q.Verb = "delete"
	default:
		q.Verb = ""
	}
	switch {
	case q.Name != "":
	case q.Verb == "delete":
		q.Verb = "deletecollection"
	case q.Verb == "get":
		q.Verb = "list"
		if r.URL.RawQuery == "" {
			return
		}
		query := r.URL.Query()
		if wantsWatch(query) {
			q.Verb = "watch"
		}
		// To authorizers, a field selector for one object names it.
		raw := query.Get("fieldSelector")
		if selector.Check(raw) != nil {
			return // it is refused later
		}
		if s, err := fields.ParseSelector(raw); err == nil {
			if name, ok := s.RequiresExactMatch("metadata.name"); ok && len(content.IsPathSegmentName(name)) == 0 {
				q.Name, q.Selected = name, true
			}
		}
	}
}

// wantsWatch tells whether the query asks for a watch, by any value but false.
func wantsWatch(query url.Values) bool {
	values := query["watch"]
	return len(values) > 0 && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

func split(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// namesByField tells whether the request's name comes from a field selector, not from the path.
func (q *Request) namesByField() bool {
	return q.Verb == "list" || q.Verb == "deletecollection" || q.Verb == "watch" && q.Selected
}
