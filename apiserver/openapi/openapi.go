package openapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keelson-dev/keelson/registry"
)

// Options of Documents. The zero value is good.
type Options struct {
	// Version is the server's version, as in /version. It goes into the documents.
	Version string
	// Issuer tells that the server serves the keys of service-account tokens and the OpenID
	// configuration that leads to them.
	Issuer bool
	// Logger gets the error of a document that cannot be built. nil discards.
	Logger *slog.Logger
}

// Documents are the OpenAPI documents of a server.
type Documents struct {
	info    map[string]string
	log     *slog.Logger
	options Options
	kinds   func() []*registry.Kind

	newest   atomic.Pointer[edition]
	building sync.Mutex

	sharing sync.Mutex
	shared  parameters2       // all parameters that pieces of v2 have shared; there are some dozens
	named   map[string]string // their names
}

// edition is the documents of one set of kinds.
type edition struct {
	kinds []*registry.Kind
	v3    map[string]*document // by the path below /openapi/v3/
	v2    *swagger
	index func() (*encoded, error)
}

// document is one document of v3 in both encodings.
type document struct {
	service service
	// custom are the pieces of a document about custom kinds alone, and base is what they need.
	custom []*piece
	base   *piece

	mu       sync.Mutex
	etag     string // of the JSON; both encodings are told apart by Vary
	made     time.Time
	json     []byte // compressed; not kept of custom kinds, which may be thousands and have their pieces
	protobuf []byte // compressed, as json
}

// encoded is a document as it is served.
type encoded struct {
	etag       string
	modified   time.Time
	compressed []byte
	media      string
}

// New returns the documents of a server that serves these kinds. It makes none of them.
func New(kinds []registry.Kind, o Options) *Documents {
	fixed := make([]*registry.Kind, len(kinds))
	for i := range kinds {
		k := kinds[i]
		fixed[i] = &k
	}
	return Follow(func() []*registry.Kind { return fixed }, o)
}

// Follow returns the documents of a server whose kinds change: kinds returns those that it serves now, as Registry.Kinds does.
// What a document says is known once it is asked for, and kept while its kinds are the same.
func Follow(kinds func() []*registry.Kind, o Options) *Documents {
	d := &Documents{info: map[string]string{"title": "Kubernetes", "version": o.Version}, log: o.Logger, options: o, kinds: kinds}
	d.shared, d.named = parameters2{}, map[string]string{}
	if o.Version == "" {
		d.info["version"] = "unversioned"
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	return d
}

// edition returns the documents of the kinds that are served now.
func (d *Documents) edition() *edition {
	if e := d.newest.Load(); e.of(d.kinds()) {
		return e
	}
	d.building.Lock()
	defer d.building.Unlock()
	kinds, before := d.kinds(), d.newest.Load()
	if before.of(kinds) {
		return before
	}
	if before == nil {
		before = &edition{}
	}
	all := services(kinds, d.options)
	e := &edition{kinds: kinds, v3: map[string]*document{}}
	var custom []*piece
	for i := range all {
		last := before.v3[all[i].key]
		doc := newDocument(&all[i], last)
		e.v3[all[i].key] = doc
		custom = append(custom, doc.custom...)
	}
	e.v2 = newSwagger(all, custom, before.v2)
	e.index = sync.OnceValues(func() (*encoded, error) { return d.makeIndex(e) })
	d.newest.Store(e)
	return e
}

// newDocument returns the document of a service, which takes what it can from that of an earlier state, if there was one.
func newDocument(s *service, before *document) *document {
	if before != nil && s.same(&before.service) {
		return before
	}
	doc := &document{service: *s}
	if !s.custom {
		return doc
	}
	var kept []*piece
	if before != nil && before.base != nil {
		kept, doc.base = before.custom, before.base
	} else {
		doc.base = &piece{services: []service{{gv: s.gv, custom: true}}, base: true}
	}
	doc.custom = pieces(s, kept)
	return doc
}

// of reports whether the documents are of exactly these kinds.
func (e *edition) of(kinds []*registry.Kind) bool { return e != nil && slices.Equal(e.kinds, kinds) }

// Paths returns what is to be served, by path, or by prefix where the path ends in a slash: the
// shape of apiserver.Options.Paths.
func (d *Documents) Paths() map[string]http.Handler {
	return map[string]http.Handler{
		"/openapi/v2":  http.HandlerFunc(d.serveV2),
		"/openapi/v3":  http.HandlerFunc(d.serveIndex),
		"/openapi/v3/": http.HandlerFunc(d.serveV3),
	}
}

// content lays a document, or a part of it, out. It is custom if all services are.
func (d *Documents) content(version string, services []service, a *archive) *content {
	c := &content{version: version, info: d.info, gv: services[0].gv, paths: map[string][]route{}, types: newTypes(a), custom: true}
	for i := range services {
		c.custom = c.custom && services[i].custom
		maps.Copy(c.paths, services[i].paths(c.types))
	}
	return c
}

func customInfo() map[string]string {
	return map[string]string{"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
}

// makeIndex hashes all documents of v3, each once.
func (d *Documents) makeIndex(e *edition) (*encoded, error) {
	w := d.drawer(format{"v3", false})
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	paths := map[string]entry{}
	for key, doc := range e.v3 {
		doc.mu.Lock()
		err := w.hash(doc)
		doc.mu.Unlock()
		if err != nil {
			return nil, fmt.Errorf("OpenAPI document of %s: %w", key, err)
		}
		paths[key] = entry{location(key, doc.etag)}
	}
	data, err := json.Marshal(map[string]any{"paths": paths})
	if err != nil {
		return nil, err
	}
	sum := sha512.Sum512(data)
	compressed, err := compress(func(w io.Writer) error { _, err := w.Write(data); return err })
	return &encoded{fmt.Sprintf("%X", sum[:]), time.Now(), compressed, mediaJSON}, err
}

// hash computes the entity tag of a document's JSON, whose lock is held.
func (w *drawer) hash(doc *document) error {
	switch {
	case doc.etag != "":
		return nil
	case doc.base != nil:
		json := &drawer{Documents: w.Documents, format: format{"v3", false}, archive: w.archive}
		chunks, err := json.document(doc.base, doc.custom)
		if err == nil {
			doc.tagged(tagOf(chunks))
		}
		return err
	}
	a, err := w.archive()
	if err != nil {
		return err
	}
	h := sha512.New()
	if err := w.content("v3", []service{doc.service}, a).writeJSON(h); err != nil {
		return err
	}
	doc.tagged(fmt.Sprintf("%X", h.Sum(nil)))
	return nil
}

// tagged sets the entity tag, once.
func (doc *document) tagged(etag string) {
	if doc.etag == "" {
		doc.etag, doc.made = etag, time.Now()
	}
}

// get returns a document of v3 in one of its encodings, made at the first request for it.
func (d *Documents) get(doc *document, protobuf bool) (*encoded, error) {
	doc.mu.Lock()
	defer doc.mu.Unlock()
	kept, media := &doc.json, mediaJSON
	if protobuf {
		kept, media = &doc.protobuf, "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	}
	data := *kept
	if data == nil {
		var err error
		if data, err = d.drawer(format{"v3", protobuf}).make(doc); err != nil {
			return nil, err
		}
		if doc.base == nil {
			*kept = data
		}
	}
	return &encoded{doc.etag, doc.made, data, media}, nil
}

// make writes a document, whose lock is held, and its entity tag if that is not known.
func (w *drawer) make(doc *document) ([]byte, error) {
	if w.protobuf || doc.base != nil {
		if err := w.hash(doc); err != nil {
			return nil, err
		}
	}
	if doc.base != nil {
		chunks, err := w.document(doc.base, doc.custom)
		return join(chunks), err
	}
	a, err := w.archive()
	if err != nil {
		return nil, err
	}
	c := w.content("v3", []service{doc.service}, a)
	if w.protobuf {
		return compress(c.writeProtobuf)
	}
	h := sha512.New()
	data, err := compress(func(to io.Writer) error { return c.writeJSON(io.MultiWriter(to, h)) })
	if err == nil {
		doc.tagged(fmt.Sprintf("%X", h.Sum(nil)))
	}
	return data, err
}

func compress(write func(io.Writer) error) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := write(z); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(b.Bytes()), nil
}

// location is where a document of v3 is found in the state that the hash names.
func location(key, hash string) string {
	u := url.URL{Path: "/openapi/v3/" + key, RawQuery: url.Values{"hash": {hash}}.Encode()}
	return u.String()
}
