package openapi

import (
	"bytes"
	"cmp"
	"crypto/sha512"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/registry"
)

// swagger is the document of v2. It speaks of all kinds, of which custom ones come and go: what it says of each is kept,
// compressed, in a piece of its own, so that a change costs what has changed. The base is the rest, and the definitions that
// the others need.
type swagger struct {
	base   *piece
	custom []*piece
	made   time.Time
}

// piece is what documents say of some services, or of one custom kind in one group-version.
type piece struct {
	services []service
	base     bool // the definitions that others need are in it

	mu    sync.Mutex
	extra []string // definitions beyond those that the services need
	forms map[format]*form
}

// format is a version of OpenAPI, "v2" or "v3", in an encoding.
type format struct {
	version  string
	protobuf bool
}

// form is a piece in one format. It never changes.
type form struct {
	paths, definitions chunk
	needs              []string // embedded definitions, which are not in the piece of a custom kind
	parameters         []string // names of shared parameters
}

// pieces cuts a service of custom kinds into one piece for each kind, of which those that did not change are taken from before.
func pieces(s *service, before []*piece) []*piece {
	kept := make(map[*registry.Kind]*piece, len(before))
	for _, p := range before {
		kept[p.services[0].kinds[0]] = p
	}
	all := make([]*piece, len(s.kinds))
	for i, k := range s.kinds {
		all[i] = kept[k]
		if all[i] == nil {
			all[i] = &piece{services: []service{{key: s.key, gv: s.gv, kinds: s.kinds[i : i+1], custom: true}}}
		}
	}
	slices.SortFunc(all, (*piece).compare)
	return all
}

// compare orders pieces of custom kinds, so that servers of the same kinds have the same documents, whichever came first.
func (p *piece) compare(as *piece) int {
	a, b := &p.services[0], &as.services[0]
	return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.kinds[0].Plural, b.kinds[0].Plural))
}

// newSwagger returns the document of v2 of all services, of which custom ones have these pieces.
func newSwagger(all []service, custom []*piece, before *swagger) *swagger {
	s := &swagger{made: time.Now(), custom: slices.SortedFunc(slices.Values(custom), (*piece).compare)}
	base := slices.DeleteFunc(slices.Clone(all), func(s service) bool { return s.custom })
	s.base = &piece{services: base, base: true}
	if before != nil && slices.EqualFunc(base, before.base.services, func(a, b service) bool { return a.same(&b) }) {
		s.base = before.base
	}
	return s
}

// same reports whether the documents say the same of both.
func (s *service) same(as *service) bool {
	return s.key == as.key && s.custom == as.custom && slices.Equal(s.kinds, as.kinds)
}

// drawer makes the forms of pieces, with what that takes.
type drawer struct {
	*Documents
	chunker
	format

	archive func() (*archive, error)
}

func (d *Documents) drawer(f format) *drawer {
	return &drawer{Documents: d, format: f, archive: sync.OnceValues(openArchive)}
}

// getV2 returns the document of v2 in one of its encodings; it makes what is not kept.
func (d *Documents) getV2(s *swagger, protobuf bool) (*encoded, error) {
	chunks, err := d.drawer(format{"v2", protobuf}).document(s.base, s.custom)
	if err != nil {
		return nil, err
	}
	media := mediaJSON
	if protobuf {
		media = mediaProtobufV2
	}
	return &encoded{tagOf(chunks), s.made, join(chunks), media}, nil
}

// tagOf is the entity tag of what chunks consist of.
func tagOf(chunks []chunk) string {
	h := sha512.New()
	for i := range chunks {
		_, _ = h.Write(chunks[i].sum[:]) // a hash takes everything
	}
	return fmt.Sprintf("%X", h.Sum(nil))
}

// document returns a document that consists of a base and the pieces of custom kinds.
func (w *drawer) document(base *piece, custom []*piece) ([]chunk, error) {
	forms, needs := make([]*form, 1, 1+len(custom)), map[string]bool{}
	for _, p := range custom {
		f, err := w.form(p, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.services[0].key, err)
		}
		forms = append(forms, f)
		for _, name := range f.needs {
			needs[name] = true
		}
	}
	var err error
	if forms[0], err = w.form(base, slices.Sorted(maps.Keys(needs))); err != nil {
		return nil, err
	}
	return w.chunks(forms)
}

// form returns a piece in the format that is drawn.
func (w *drawer) form(p *piece, extra []string) (*form, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.forms == nil || !slices.Equal(p.extra, extra) {
		p.extra, p.forms = extra, map[format]*form{}
	}
	if p.forms[w.format] == nil {
		f, err := w.draw(p)
		if err != nil {
			return nil, err
		}
		p.forms[w.format] = f
	}
	return p.forms[w.format], nil
}

// draw makes a form of a piece, whose lock is held.
func (w *drawer) draw(p *piece) (*form, error) {
	a, err := w.archive()
	if err != nil {
		return nil, err
	}
	c := w.content(w.version, p.services, a)
	names := c.names(p.extra...)
	f := &form{}
	if !p.base {
		f.needs = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !a.has(name) })
		names = slices.DeleteFunc(names, a.has)
	}
	shared := parameters2{}
	paths, definitions, err := w.members(c, names, shared)
	if err != nil {
		return nil, err
	}
	if f.paths, err = w.chunk(paths); err != nil {
		return nil, err
	}
	if f.definitions, err = w.chunk(definitions); err != nil {
		return nil, err
	}
	f.parameters = w.keep(shared)
	return f, nil
}

// members are the paths and definitions of some services.
func (w *drawer) members(c *content, names []string, shared parameters2) (paths, definitions []byte, err error) {
	if w.protobuf {
		t := tables2()
		if w.version == "v3" {
			t = tables3()
		}
		return c.protobuf(t, names, shared)
	}
	var p, d bytes.Buffer
	out := &writer{w: &p}
	c.writePaths(out, shared)
	if out.err != nil {
		return nil, nil, out.err
	}
	out = &writer{w: &d}
	c.writeDefinitions(out, names)
	return p.Bytes(), d.Bytes(), out.err
}

// keep keeps shared parameters once for all pieces and returns their names. What they are follows from their names.
func (d *Documents) keep(shared parameters2) []string {
	d.sharing.Lock()
	defer d.sharing.Unlock()
	names := make([]string, 0, len(shared))
	for name, p := range shared {
		if _, ok := d.shared[name]; !ok {
			d.shared[name] = p
			d.named[name] = name
		}
		names = append(names, d.named[name])
	}
	return names
}

// chunks are the whole document of these forms.
func (w *drawer) chunks(forms []*form) ([]chunk, error) {
	shared := parameters2{}
	w.sharing.Lock()
	for _, f := range forms {
		for _, name := range f.parameters {
			shared[name] = w.shared[name]
		}
	}
	w.sharing.Unlock()
	between := chunk{}
	if !w.protobuf {
		var err error
		if between, err = w.chunk([]byte(",")); err != nil {
			return nil, err
		}
	}
	paths, definitions := make([]chunk, 0, 2*len(forms)), make([]chunk, 0, 2*len(forms))
	for _, f := range forms {
		paths, definitions = appendMember(paths, f.paths, between), appendMember(definitions, f.definitions, between)
	}
	head, middle, tail, err := w.frame(shared, size(paths), size(definitions))
	if err != nil {
		return nil, err
	}
	return slices.Concat([]chunk{head}, paths, []chunk{middle}, definitions, []chunk{tail}), nil
}

// appendMember appends a chunk with what stands between two.
func appendMember(chunks []chunk, c, between chunk) []chunk {
	if c.size == 0 {
		return chunks
	}
	if len(chunks) > 0 && between.size > 0 {
		chunks = append(chunks, between)
	}
	return append(chunks, c)
}

// size is the number of bytes of which chunks are the compressed form.
func size(chunks []chunk) int {
	n := 0
	for i := range chunks {
		n += chunks[i].size
	}
	return n
}

// frame is what stands around paths and definitions of these sizes.
func (w *drawer) frame(shared parameters2, paths, definitions int) (head, middle, tail chunk, err error) {
	var h, m, t []byte
	switch w.format {
	case format{"v2", true}:
		h, m, t, err = frame2(w.info, shared, paths, definitions)
	case format{"v2", false}:
		h, m, t, err = frameJSON2(w.info, shared)
	case format{"v3", true}:
		h, m = frame3(customInfo(), paths, definitions)
	default:
		h, m, t, err = frameJSON3(customInfo())
	}
	for _, part := range []struct {
		data []byte
		to   *chunk
	}{{h, &head}, {m, &middle}, {t, &tail}} {
		if err == nil {
			*part.to, err = w.chunk(part.data)
		}
	}
	return head, middle, tail, err
}

func frameJSON2(info map[string]string, shared parameters2) (head, middle, tail []byte, err error) {
	about, err := marshal(info)
	if err != nil {
		return nil, nil, nil, err
	}
	parameters, err := marshal(shared)
	if err != nil {
		return nil, nil, nil, err
	}
	return fmt.Appendf(nil, `{"swagger":"2.0","info":%s,"paths":{`, about), []byte(`},"definitions":{`),
		fmt.Appendf(nil, `},"parameters":%s,"securityDefinitions":%s,"security":[{"BearerToken":[]}]}`, parameters, security), nil
}

// frameJSON3 is what stands around paths and definitions of custom kinds.
func frameJSON3(info map[string]string) (head, middle, tail []byte, err error) {
	about, err := marshal(info)
	return fmt.Appendf(nil, `{"openapi":"3.0.0","info":%s,"paths":{`, about), []byte(`},"components":{"schemas":{`), []byte(`}}}`), err
}
