package apiserver

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
)

// Request is what a URL and method ask for. Fields beyond Verb and Path are set for requests
// about resources only.
type Request struct {
	Verb       string
	Path       string
	IsResource bool
	// Prefix is "api" or "apis".
	Prefix      string
	Group       string
	Version     string
	Namespace   string
	Resource    string
	Subresource string
	Name        string
	// Selected tells that Name comes from a field selector, not from the path.
	Selected bool
	// Rest are the parts of the path after the subresource.
	Rest []string
}

// ParseRequest reads method and URL as upstream does. It accepts anything; whether such a
// resource exists is another matter.
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
	watching := false
	if parts[0] == "watch" && len(parts) > 1 {
		watching = true
		parts = parts[1:]
	}
	q.resource(parts)
	q.verb(r, watching)
	return q
}

// resource takes namespace, resource, name and subresource from what follows the version.
func (q *Request) resource(parts []string) {
	if parts[0] == "namespaces" && len(parts) > 1 {
		q.Namespace = parts[1]
		// What follows a namespace is a resource in it, but for the namespace's own subresources.
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	q.Resource = parts[0]
	if len(parts) > 1 {
		q.Name = parts[1]
	}
	if len(parts) > 2 {
		q.Subresource = parts[2]
		q.Rest = parts[3:]
	}
}

func (q *Request) verb(r *http.Request, watching bool) {
	switch {
	case watching:
		q.Verb = "watch" // whatever the method
	case r.Method == http.MethodPost:
		q.Verb = "create"
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		q.Verb = "get"
	case r.Method == http.MethodPut:
		q.Verb = "update"
	case r.Method == http.MethodPatch:
		q.Verb = "patch"
	case r.Method == http.MethodDelete:
		q.Verb = "delete"
	default:
		q.Verb = ""
	}
	query := r.URL.Query()
	switch {
	case q.Verb == "get" && q.Name == "" && wantsWatch(query):
		q.Verb = "watch"
	case q.Verb == "get" && q.Name == "":
		q.Verb = "list"
	case q.Verb == "delete" && q.Name == "":
		q.Verb = "deletecollection"
	}
	if q.Name == "" && (q.Verb == "list" || q.Verb == "watch" || q.Verb == "deletecollection") {
		// One object by field selector counts as naming it, for authorization.
		if s, err := fields.ParseSelector(query.Get("fieldSelector")); err == nil {
			if name, ok := s.RequiresExactMatch("metadata.name"); ok {
				q.Name, q.Selected = name, true
			}
		}
	}
}

// wantsWatch tells whether the query asks for a watch: by any value that does not deny it.
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
