package admit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// ErrSuite means that a file of cases cannot be used. Its errors name the file and the line.
var ErrSuite = errors.New("unusable file of cases")

// Suite is a file of cases: a YAML document for each, and one that describes their world (see the documentation of the program
// examples/admit for an example of each). It does not change, and is safe for concurrent use.
type Suite struct {
	path  string
	world world
	state []runtime.Object
	parts []part
}

// world is the document that describes the world.
type world struct {
	// State has objects, and names of files with objects, relative to this one.
	State []json.RawMessage `json:"state"`
	// Disable and Enable name plugins to leave out and to add: those that upstream leaves off by default.
	Disable   []string `json:"disable"`
	Enable    []string `json:"enable"`
	Authorize bool     `json:"authorize"`
}

// document is that of a case.
type document struct {
	Name   string          `json:"name"`
	Create json.RawMessage `json:"create"`
	Update json.RawMessage `json:"update"`
	Delete json.RawMessage `json:"delete"`
	Patch  *patch          `json:"patch"`
	// As is who makes the request.
	As          *user             `json:"as"`
	Subresource string            `json:"subresource"`
	Resource    string            `json:"resource"` // GROUP/VERSION/RESOURCE or VERSION/RESOURCE
	Query       map[string]string `json:"query"`
	DryRun      bool              `json:"dryRun"`
	Keep        bool              `json:"keep"`
	Want        *expectation      `json:"want"`
}

// patch is a change of an object that is in the state.
type patch struct {
	Of        json.RawMessage `json:"of"`
	Merge     json.RawMessage `json:"merge"`
	JSON      json.RawMessage `json:"json"`
	Strategic json.RawMessage `json:"strategic"`
	Apply     json.RawMessage `json:"apply"`
}

type user struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid"`
	Groups []string            `json:"groups"`
	Extra  map[string][]string `json:"extra"`
}

// part is a document of the file as it was read.
type part struct {
	line int // of its first line, from 1 on
	text []byte
	doc  *document // nil if it is no case
}

// Case is a case of a suite.
type Case struct {
	Name string
	// Line is where its document begins in the file.
	Line    int
	Request Request
	want    *expectation
	at      int // among the parts
}

// Load reads a file of cases and the files that it names.
func Load(path string) (*Suite, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSuite, err)
	}
	s := &Suite{path: path, parts: split(text)}
	described := false
	for i := range s.parts {
		p := &s.parts[i]
		data, err := boundedyaml.ToJSONStrict(p.text, max(len(p.text), boundedyaml.Limit))
		if err != nil {
			return nil, s.failed(p.line, err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(data, &fields); err != nil {
			return nil, s.failed(p.line, err)
		}
		switch _, named := fields["name"]; {
		case fields == nil: // only comments
		case named:
			p.doc = &document{}
			err = strict(data, p.doc)
		case described:
			err = errors.New("the world is described twice; a case needs a name")
		default:
			described = true
			if err = strict(data, &s.world); err == nil {
				err = s.read()
			}
		}
		if err != nil {
			return nil, s.failed(p.line, err)
		}
	}
	_, err = s.Cases()
	return s, err
}

func (s *Suite) failed(line int, err error) error {
	return fmt.Errorf("%w: %s:%d: %w", ErrSuite, s.path, line, err)
}

// split returns the documents of a text with everything that stands between their separators.
func split(text []byte) []part {
	parts := []part{{line: 1}}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if bytes.HasPrefix(line, []byte("---")) {
			parts = append(parts, part{line: n + 1})
			continue
		}
		last := &parts[len(parts)-1]
		last.text = append(last.text, line...)
	}
	return parts
}

// strict decodes JSON and refuses unknown fields.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// read reads the state.
func (s *Suite) read() error {
	for i, data := range s.world.State {
		objects, err := s.objects(data)
		if err != nil {
			return fmt.Errorf("state[%d]: %w", i, err)
		}
		s.state = append(s.state, objects...)
	}
	return nil
}

// objects returns an entry of the state, which is an object, a list of some, or the name of a file of them.
func (s *Suite) objects(entry json.RawMessage) ([]runtime.Object, error) {
	var file string
	if json.Unmarshal(entry, &file) != nil {
		return Decode(entry)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(s.path), file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	objects, err := Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return objects, nil
}

// Cases returns the cases in the order of the file.
func (s *Suite) Cases() ([]Case, error) {
	var all []Case
	for i, p := range s.parts {
		if p.doc == nil {
			continue
		}
		q, err := p.doc.request()
		if err != nil {
			return nil, s.failed(p.line, fmt.Errorf("%s: %w", p.doc.Name, err))
		}
		all = append(all, Case{Name: p.doc.Name, Line: p.line, Request: q, want: p.doc.Want, at: i})
	}
	return all, nil
}

// Start makes the world of the suite's cases. What the file says of plugins adds to the options.
func (s *Suite) Start(ctx context.Context, o Options) (*World, error) {
	o.Disable = slices.Concat(o.Disable, s.world.Disable)
	o.Authorize = o.Authorize || s.world.Authorize
	if len(s.world.Enable) > 0 && o.Admission == nil {
		o.Admission = cluster.DefaultAdmission()
	}
	for _, name := range s.world.Enable {
		optional := cluster.OptionalAdmission()
		i := slices.Index(cluster.StageNames(optional), name)
		if i < 0 {
			return nil, fmt.Errorf("%w: %s: cannot enable %q; there are %s", ErrSuite, s.path, name, strings.Join(cluster.StageNames(optional), ", "))
		}
		o.Admission = cluster.WithStages(o.Admission, optional[i])
	}
	w, err := Start(ctx, s.state, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	return w, nil
}

// request is what a document asks.
func (d *document) request() (Request, error) {
	q := Request{Subresource: d.Subresource, DryRun: d.DryRun, Keep: d.Keep}
	var of json.RawMessage
	asked := 0
	for _, one := range []struct {
		operation admission.Operation
		object    json.RawMessage
	}{{admission.Create, d.Create}, {admission.Update, d.Update}, {admission.Delete, d.Delete}} {
		if one.object != nil {
			q.Operation, of = one.operation, one.object
			asked++
		}
	}
	if d.Patch != nil {
		q.Operation, of = admission.Update, d.Patch.Of
		asked++
		var err error
		if q.Patch, err = d.Patch.patch(); err != nil {
			return q, err
		}
	}
	if asked != 1 || of == nil {
		return q, errors.New("needs one of create, update, patch with of, and delete")
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(of, u); err != nil {
		return q, err
	}
	q.Object = u
	if d.Resource != "" {
		parts := strings.Split(d.Resource, "/")
		if len(parts) == 2 {
			parts = append([]string{""}, parts...)
		}
		if len(parts) != 3 {
			return q, fmt.Errorf("resource %q: must be GROUP/VERSION/RESOURCE", d.Resource)
		}
		q.Resource = schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	}
	if d.As != nil {
		q.User = cluster.User(d.As.Name, d.As.Groups...)
		q.User.UID, q.User.Extra = d.As.UID, d.As.Extra
	}
	if len(d.Query) > 0 {
		q.Query = url.Values{}
	}
	for key, value := range d.Query {
		q.Query.Set(key, value)
	}
	return q, nil
}

// patch is the one form of a patch that is given.
func (p *patch) patch() (*client.Patch, error) {
	all := []client.Patch{
		{Type: types.MergePatchType, Data: p.Merge}, {Type: types.JSONPatchType, Data: p.JSON},
		{Type: types.StrategicMergePatchType, Data: p.Strategic}, {Type: types.ApplyYAMLPatchType, Data: p.Apply},
	}
	all = slices.DeleteFunc(all, func(o client.Patch) bool { return o.Data == nil })
	if len(all) != 1 {
		return nil, errors.New("a patch needs one of merge, json, strategic and apply")
	}
	return &all[0], nil
}
