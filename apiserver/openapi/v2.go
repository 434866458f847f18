package openapi

import (
	"cmp"
	"encoding/base64"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// What follows is OpenAPI v2 in the order and extent in which kube-apiserver writes it.

type path2 struct {
	Get        *operation2  `json:"get,omitempty"`
	Put        *operation2  `json:"put,omitempty"`
	Post       *operation2  `json:"post,omitempty"`
	Delete     *operation2  `json:"delete,omitempty"`
	Options    *operation2  `json:"options,omitempty"`
	Head       *operation2  `json:"head,omitempty"`
	Patch      *operation2  `json:"patch,omitempty"`
	Parameters []parameter2 `json:"parameters,omitempty"`
}

type operation2 struct {
	Description string               `json:"description,omitempty"`
	Consumes    []string             `json:"consumes,omitempty"`
	Produces    []string             `json:"produces,omitempty"`
	Schemes     []string             `json:"schemes,omitempty"`
	Tags        []string             `json:"tags,omitempty"`
	ID          string               `json:"operationId,omitempty"`
	Parameters  []parameter2         `json:"parameters,omitempty"`
	Responses   map[string]response2 `json:"responses"`
	Action      string               `json:"x-kubernetes-action,omitempty"`
	Kind        *gvk                 `json:"x-kubernetes-group-version-kind,omitempty"`
}

// parameter2 has its members in the order that upstream's hashes of parameters are made over.
type parameter2 struct {
	Unique      bool        `json:"uniqueItems,omitempty"`
	Type        string      `json:"type,omitempty"`
	Description string      `json:"description,omitempty"`
	Name        string      `json:"name,omitempty"`
	In          string      `json:"in,omitempty"`
	Required    bool        `json:"required,omitempty"`
	Schema      *simpleType `json:"schema,omitempty"`
	Ref         string      `json:"$ref,omitempty"`
}

type response2 struct {
	Description string      `json:"description"`
	Schema      *simpleType `json:"schema,omitempty"`
}

const (
	prefix2 = "#/definitions/"
	meta    = "io.k8s.apimachinery.pkg.apis.meta.v1."
)

// parameters2 are the parameters that paths share, by the name under which they refer to them.
type parameters2 map[string]parameter2

// newPath2 writes the operations of one path and adds to the shared parameters.
func (s parameters2) newPath2(routes []route) (path2, error) {
	var p path2
	common := shared(routes)
	for _, c := range common {
		parameter, err := s.share(newParameter2(c))
		if err != nil {
			return p, err
		}
		p.Parameters = append(p.Parameters, parameter)
	}
	for i := range routes {
		op, err := s.newOperation2(&routes[i], common)
		if err != nil {
			return p, err
		}
		switch routes[i].method {
		case http.MethodGet:
			p.Get = op
		case http.MethodPut:
			p.Put = op
		case http.MethodPost:
			p.Post = op
		case http.MethodDelete:
			p.Delete = op
		case http.MethodOptions:
			p.Options = op
		case http.MethodHead:
			p.Head = op
		case http.MethodPatch:
			p.Patch = op
		}
	}
	return p, nil
}

func (s parameters2) newOperation2(t *route, common []param) (*operation2, error) {
	op := &operation2{
		Description: t.doc, Consumes: t.consumes, Produces: t.produces, Schemes: []string{"https"},
		Action: t.action, Responses: map[string]response2{},
	}
	op.ID, op.Tags = operationID(t.name, t.path)
	if t.kind.Kind != "" {
		op.Kind = &gvk{t.kind.Group, t.kind.Version, t.kind.Kind}
	}
	var all []parameter2
	for _, p := range own(t, common) {
		all = append(all, newParameter2(p))
	}
	if t.body != "" {
		schema := schemaOf(prefix2, t.body)
		all = append(all, parameter2{Name: "body", In: "body", Required: !t.optional, Schema: &schema})
	}
	slices.SortFunc(all, func(a, b parameter2) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.In, b.In)) })
	for _, p := range all {
		parameter, err := s.share(p)
		if err != nil {
			return nil, err
		}
		op.Parameters = append(op.Parameters, parameter)
	}
	for _, a := range t.answers {
		schema := schemaOf(prefix2, a.definition)
		op.Responses[strconv.Itoa(a.code)] = response2{http.StatusText(a.code), &schema}
	}
	op.Responses[strconv.Itoa(http.StatusUnauthorized)] = response2{Description: http.StatusText(http.StatusUnauthorized)}
	return op, nil
}

func newParameter2(p param) parameter2 {
	return parameter2{Unique: true, Type: p.kind, Description: p.doc, Name: p.name, In: p.in, Required: p.in == inPath}
}

// share keeps a parameter once and returns a reference to it. Parameters that speak of one kind
// stay where they are, and so do those by which kubectl once recognised what a server can.
func (s parameters2) share(p parameter2) (parameter2, error) {
	switch {
	case p.Name == "name", p.In == inQuery && (p.Name == "fieldValidation" || p.Name == "dryRun"),
		p.Schema != nil && !strings.HasPrefix(p.Schema.Ref, prefix2+"io.k8s.apimachinery"):
		return p, nil
	}
	data, err := marshal(p)
	if err != nil {
		return p, err
	}
	sum := fnv.New64()
	_, _ = sum.Write(data) // a hash takes everything
	name := p.Name + "-" + base64.URLEncoding.EncodeToString(sum.Sum(nil)[:6])
	s[name] = p
	return parameter2{Ref: "#/parameters/" + name}, nil
}
