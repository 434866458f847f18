package apiserver

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// paths are served besides the API.
type paths struct {
	exact    map[string]http.Handler
	prefixes []string // longest first
	byPrefix map[string]http.Handler
}

func newPaths(handlers map[string]http.Handler) *paths {
	p := &paths{exact: map[string]http.Handler{}, byPrefix: map[string]http.Handler{}}
	for pattern, h := range handlers {
		switch {
		case pattern == "/" || pattern == "/version":
		case strings.HasSuffix(pattern, "/"):
			p.byPrefix[pattern] = h
		default:
			p.exact[pattern] = h
		}
	}
	p.prefixes = slices.SortedFunc(maps.Keys(p.byPrefix), func(a, b string) int { return len(b) - len(a) })
	return p
}

// documents are the paths of the API's own documents.
func (d *discovery) documents() map[string]bool {
	all := map[string]bool{"/version": true, "/api": true, "/apis": true}
	for gv := range d.delegated {
		if gv.Group != "" {
			all["/apis/"+gv.Group] = true
			all["/apis/"+gv.String()] = true
		}
	}
	for gv := range d.resources {
		if gv.Group == "" {
			all["/api/"+gv.Version] = true
			continue
		}
		all["/apis/"+gv.Group] = true
		all["/apis/"+gv.String()] = true
	}
	return all
}

// index lists all paths.
func (p *paths) index(d *discovery) []byte {
	all := d.documents()
	for path := range p.exact {
		all[path] = true
	}
	index, _ := json.MarshalIndent(metav1.RootPaths{Paths: slices.Sorted(maps.Keys(all))}, "", "  ") //nolint:errchkjson // strings marshal
	return index
}

// serve answers requests for one of Options.Paths or for the index of all paths. It returns false for others.
func (p *paths) serve(w http.ResponseWriter, r *http.Request, d func() *discovery) bool {
	path := r.URL.Path
	if path == "/" || path == "" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(p.index(d())) // a client that is gone is no error of ours
		return true
	}
	if strings.HasPrefix(path, "/api") && d().documents()[path] {
		return false
	}
	if h, ok := p.exact[path]; ok {
		h.ServeHTTP(w, r)
		return true
	}
	for _, prefix := range p.prefixes {
		if strings.HasPrefix(path, prefix) {
			p.byPrefix[prefix].ServeHTTP(w, r)
			return true
		}
	}
	return false
}
