package openapi

import (
	"bytes"
	"crypto/sha512"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// swagger is the document of v2. It speaks of all kinds, of which custom ones come and go: what it says of each of their
// group-versions is kept, compressed, in a piece of its own, so that a change costs what has changed. The base is the
// rest, and the definitions that the others need.
type swagger struct {
	base   *piece
	custom []*piece
	made   time.Time
}

// piece is what the document says of some services.
type piece struct {
	services []service

	mu             sync.Mutex
	extra          []string // definitions beyond those that the services need
	json, protobuf *form
}

// form is a piece in one encoding. It never changes.
type form struct {
	paths, definitions chunk
	needs              []string // embedded definitions, which are not in the piece of a custom kind
	parameters         []string // names of shared parameters
}

// newSwagger cuts the document of all services into pieces, of which those that did not change are taken from before.
func newSwagger(all []service, before *swagger) *swagger {
	s := &swagger{made: time.Now()}
	kept := map[string]*piece{}
	if before != nil {
		for _, p := range before.custom {
			kept[p.services[0].key] = p
		}
	}
	var base []service
	for i := range all {
		if !all[i].custom {
			base = append(base, all[i])
			continue
		}
		p := kept[all[i].key]
		if p == nil || !all[i].same(&p.services[0]) {
			p = &piece{services: all[i : i+1]}
		}
		s.custom = append(s.custom, p)
	}
	slices.SortFunc(s.custom, func(a, b *piece) int { return strings.Compare(a.services[0].key, b.services[0].key) })
	s.base = &piece{services: base}
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

	archive  func() (*archive, error)
	protobuf bool
}

// getV2 returns the document of v2 in one of its encodings; it makes what is not kept.
func (d *Documents) getV2(s *swagger, protobuf bool) (*encoded, error) {
	draw := &drawer{Documents: d, archive: sync.OnceValues(openArchive), protobuf: protobuf}
	forms, needs := make([]*form, 1, 1+len(s.custom)), map[string]bool{}
	for _, p := range s.custom {
		f, err := draw.form(p, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.services[0].key, err)
		}
		forms = append(forms, f)
		for _, name := range f.needs {
			needs[name] = true
		}
	}
	var err error
	if forms[0], err = draw.form(s.base, slices.Sorted(maps.Keys(needs))); err != nil {
		return nil, err
	}
	chunks, err := draw.chunks(forms)
	if err != nil {
		return nil, err
	}
	h := sha512.New()
	for i := range chunks {
		_, _ = h.Write(chunks[i].sum[:]) // a hash takes everything
	}
	media := mediaJSON
	if protobuf {
		media = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	}
	return &encoded{fmt.Sprintf("%X", h.Sum(nil)), s.made, join(chunks), media}, nil
}

// form returns a piece in the encoding that is drawn.
func (w *drawer) form(p *piece, extra []string) (*form, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.extra, extra) {
		p.extra, p.json, p.protobuf = extra, nil, nil
	}
	kept := &p.json
	if w.protobuf {
		kept = &p.protobuf
	}
	if *kept == nil {
		f, err := w.draw(p)
		if err != nil {
			return nil, err
		}
		*kept = f
	}
	return *kept, nil
}

// draw makes a form of a piece, whose lock is held.
func (w *drawer) draw(p *piece) (*form, error) {
	a, err := w.archive()
	if err != nil {
		return nil, err
	}
	c := w.content("v2", p.services, a)
	names := c.names(p.extra...)
	f := &form{}
	if c.custom {
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

// members are the paths and definitions of some services. In JSON, those of custom kinds follow others.
func (w *drawer) members(c *content, names []string, shared parameters2) (paths, definitions []byte, err error) {
	if w.protobuf {
		return c.protobuf(tables2(), names, shared)
	}
	var p, d bytes.Buffer
	out := &writer{w: &p, more: c.custom}
	c.writePaths(out, shared)
	if out.err != nil {
		return nil, nil, out.err
	}
	out = &writer{w: &d, more: c.custom}
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
	paths, definitions := 0, 0
	for _, f := range forms {
		paths, definitions = paths+f.paths.size, definitions+f.definitions.size
	}
	head, middle, tail, err := w.frame(shared, paths, definitions)
	if err != nil {
		return nil, err
	}
	all := []chunk{head}
	for _, f := range forms {
		all = append(all, f.paths)
	}
	all = append(all, middle)
	for _, f := range forms {
		all = append(all, f.definitions)
	}
	return append(all, tail), nil
}

// frame is what stands around paths and definitions of these sizes.
func (w *drawer) frame(shared parameters2, paths, definitions int) (head, middle, tail chunk, err error) {
	var h, m, t []byte
	if w.protobuf {
		h, m, t, err = frame2(w.info, shared, paths, definitions)
	} else {
		h, m, t, err = frameJSON2(w.info, shared)
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
