package aggregator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	merger "k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/keelson-dev/keelson/apiserver/openapi"
)

const swaggerPath = "/openapi/v2"

// swagger is what a server's document of OpenAPI v2 says of the APIService's version.
type swagger struct {
	etag string
	spec *spec.Swagger // shared, not to be changed
}

// swagger asks for the server's document. It returns before if that has not changed, and nil if there is none.
func (a *Aggregator) swagger(ctx context.Context, s *apiregistrationv1.APIService, before *swagger) *swagger {
	q := question{path: swaggerPath, accept: "application/json", as: reader(), reads: true}
	if before != nil {
		q.etag = before.etag
	}
	got, err := a.ask(ctx, s, q)
	switch {
	case err != nil:
		a.options.Logger.Warn("no OpenAPI document", "apiservice", s.Name, "error", err)
		return before
	case got.code == http.StatusNotModified:
		return before
	case got.code != http.StatusOK:
		return nil
	}
	all := &spec.Swagger{}
	if err := json.Unmarshal(got.body, all); err != nil {
		a.options.Logger.Warn("no OpenAPI document", "apiservice", s.Name, "error", err)
		return nil
	}
	if all.Paths == nil {
		return nil
	}
	return &swagger{etag: got.header.Get("Etag"), spec: merger.FilterSpecByPathsWithoutSideEffects(all, []string{discoveryPath(s) + "/"})}
}

// swaggers are those of the servers, in upstream's order: by the priority of their groups, then of their versions.
func (a *Aggregator) swaggers() []*swagger {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*known
	for _, k := range a.known {
		if k.swagger != nil {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(one, two *known) int {
		v, w := one.version, two.version
		return cmp.Or(cmp.Compare(w.GroupPriority, v.GroupPriority), strings.Compare(v.Group, w.Group),
			cmp.Compare(w.VersionPriority, v.VersionPriority), strings.Compare(v.Discovery.Version, w.Discovery.Version))
	})
	specs := make([]*swagger, len(all))
	for i, k := range all {
		specs[i] = k.swagger
	}
	return specs
}

// merged serves the server's own document of OpenAPI v2 with those of others. It keeps the last one that a client asked for.
type merged struct {
	own  http.Handler
	of   func() []*swagger
	log  *slog.Logger
	mu   sync.Mutex // held while a document is made: others wait for it
	etag string     // of the own document that is in served
	from []*swagger
	last http.Handler
}

// ServeHTTP implements http.Handler.
func (m *merged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	others := m.of()
	if len(others) == 0 {
		m.forget()
		m.own.ServeHTTP(w, r)
		return
	}
	h, err := m.handler(r, others)
	if err != nil {
		http.Error(w, "the OpenAPI document could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h.ServeHTTP(w, r)
}

func (m *merged) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.etag, m.from, m.last = "", nil, nil
}

// handler returns what serves the documents together, as they are now.
func (m *merged) handler(r *http.Request, others []*swagger) (http.Handler, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ask := plain(r)
	ask.Header.Set("Accept", "application/json")
	if m.last != nil && slices.Equal(m.from, others) {
		ask.Header.Set("If-None-Match", m.etag)
	}
	own := &buffer{header: http.Header{}}
	m.own.ServeHTTP(own, ask)
	switch {
	case own.code == http.StatusNotModified && m.last != nil:
		return m.last, nil
	case own.code != 0 && own.code != http.StatusOK:
		return nil, fmt.Errorf("%w: %d %s", ErrAnswer, own.code, own.Bytes())
	}
	document, err := together(own.Bytes(), others, m.log)
	if err != nil {
		return nil, err
	}
	h, err := openapi.Foreign(document, message)
	if err != nil {
		return nil, err
	}
	m.etag, m.from, m.last = own.header.Get("Etag"), others, h
	return h, nil
}

// together merges documents. One that cannot be merged is left out.
func together(own []byte, others []*swagger, log *slog.Logger) ([]byte, error) {
	for others = slices.Clone(others); ; {
		all := &spec.Swagger{}
		if err := json.Unmarshal(own, all); err != nil {
			return nil, err
		}
		bad := slices.IndexFunc(others, func(s *swagger) bool {
			err := merge(all, s.spec)
			if err != nil {
				log.Warn("an OpenAPI document was left out", "error", err)
			}
			return err != nil
		})
		if bad < 0 {
			return json.Marshal(all)
		}
		others = slices.Delete(others, bad, bad+1)
	}
}

// merge adds a document, whose definitions of other names than theirs are renamed. The library is not made for malformed ones.
func merge(to, from *spec.Swagger) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrAnswer, p)
		}
	}()
	return merger.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(to, from)
}

// message is a document as a protobuf message.
func message(document []byte) ([]byte, error) {
	parsed, err := openapi_v2.ParseDocument(document)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(parsed)
}
