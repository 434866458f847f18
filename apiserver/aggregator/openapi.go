package aggregator

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/authn"
)

const openAPI = "/openapi/v3"

// index lists documents of OpenAPI v3.
type index struct {
	Paths map[string]located `json:"paths"`
}

type located struct {
	URL string `json:"serverRelativeURL"`
}

// reader is who upstream's aggregator is when it reads OpenAPI documents.
func reader() *authn.Identity { return &authn.Identity{Name: "system:aggregator"} }

// document asks where the version's document is; empty if the server has none.
func (a *Aggregator) document(ctx context.Context, s *apiregistrationv1.APIService) string {
	got, err := a.ask(ctx, s, question{path: openAPI, accept: "application/json", as: reader(), reads: true})
	if err != nil || got.code != http.StatusOK {
		return ""
	}
	var all index
	if err := json.Unmarshal(got.body, &all); err != nil {
		a.options.Logger.Warn("no index of OpenAPI documents", "apiservice", s.Name, "error", err)
		return ""
	}
	key := strings.TrimPrefix(discoveryPath(s), "/")
	if at := all.Paths[key].URL; strings.HasPrefix(at, openAPI+"/"+key) {
		return at
	}
	return ""
}

// OpenAPI wraps the handlers that serve /openapi/v2, /openapi/v3, its index, and what is below it, so that the documents of
// delegated versions are merged, listed and served, too.
func (a *Aggregator) OpenAPI(paths map[string]http.Handler) {
	if own := paths[swaggerPath]; own != nil {
		paths[swaggerPath] = &merged{own: own, of: a.swaggers, log: a.options.Logger}
	}
	own, below := paths[openAPI], paths[openAPI+"/"]
	if own == nil || below == nil {
		return
	}
	paths[openAPI] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serveIndex(w, r, own) })
	paths[openAPI+"/"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := a.documented(strings.TrimPrefix(r.URL.Path, openAPI+"/")); s != nil {
			a.forward(w, r.WithContext(authn.NewContext(r.Context(), reader())), s)
			return
		}
		below.ServeHTTP(w, r)
	})
}

// documented finds the APIService whose server has a document.
func (a *Aggregator) documented(key string) *apiregistrationv1.APIService {
	group, version, ok := strings.Cut(strings.TrimPrefix(key, "apis/"), "/")
	if !ok || !strings.HasPrefix(key, "apis/") {
		return nil
	}
	gv := schema.GroupVersion{Group: group, Version: version}
	s, ok := a.services.Get("", gv.Version+"."+gv.Group)
	if !ok || s.Spec.Service == nil {
		return nil
	}
	return s
}

// serveIndex adds the documents of others to the server's own index.
func (a *Aggregator) serveIndex(w http.ResponseWriter, r *http.Request, own http.Handler) {
	others := index{Paths: map[string]located{}}
	a.mu.Lock()
	for _, k := range a.known {
		key := "apis/" + k.version.Group + "/" + k.version.Discovery.Version
		if k.openAPI != "" {
			others.Paths[key] = located{k.openAPI}
		}
	}
	a.mu.Unlock()
	if len(others.Paths) == 0 {
		own.ServeHTTP(w, r)
		return
	}
	kept := &buffer{header: http.Header{}}
	own.ServeHTTP(kept, plain(r))
	all := index{Paths: map[string]located{}}
	if err := json.Unmarshal(kept.Bytes(), &all); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for key, at := range others.Paths {
		all.Paths[key] = at
	}
	data, err := json.Marshal(all)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	sum := sha512.Sum512(data)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Etag", strconv.Quote(fmt.Sprintf("%X", sum[:])))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// plain is a request for the same document, whole and as it is.
func plain(r *http.Request) *http.Request {
	plain := r.Clone(r.Context())
	for _, name := range []string{"Accept-Encoding", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Range", "If-Range", "If-Match"} {
		plain.Header.Del(name)
	}
	plain.Method = http.MethodGet
	return plain
}

// buffer keeps an answer.
type buffer struct {
	bytes.Buffer
	header http.Header
	code   int // 0 means http.StatusOK
}

// Header implements http.ResponseWriter.
func (b *buffer) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *buffer) WriteHeader(code int) { b.code = code }
