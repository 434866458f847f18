package apiserver

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// paths are what is served beside the API.
type paths struct {
	exact    map[string]http.Handler
	prefixes []string // longest first
	byPrefix map[string]http.Handler
	index    []byte
}

func newPaths(handlers map[string]http.Handler, d *discovery) *paths {
	p := &paths{exact: map[string]http.Handler{}, byPrefix: map[string]http.Handler{}}
	known := map[string]bool{"/version": true, "/api": true, "/apis": true}
	for gv := range d.resources {
		if gv.Group == "" {
			known["/api/"+gv.Version] = true
			continue
		}
		known["/apis/"+gv.Group] = true
		known["/apis/"+gv.String()] = true
	}
	for pattern, h := range handlers {
		if pattern == "/" || known[pattern] {
			continue
		}
		if strings.HasSuffix(pattern, "/") {
			p.byPrefix[pattern] = h
		} else {
			p.exact[pattern] = h
			known[pattern] = true
		}
	}
	p.prefixes = slices.SortedFunc(maps.Keys(p.byPrefix), func(a, b string) int { return len(b) - len(a) })
	index := metav1.RootPaths{Paths: slices.Sorted(maps.Keys(known))}
	p.index, _ = json.MarshalIndent(index, "", "  ") //nolint:errchkjson // strings marshal
	return p
}

// serve answers for a path that was given to the server, and for the index of all; else it
// returns false.
func (p *paths) serve(w http.ResponseWriter, r *http.Request) bool {
	path := r.URL.Path
	if path == "/" || path == "" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(p.index) // a client that is gone is no error of ours
		return true
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
