package openapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
)

// What follows is OpenAPI v3.0 in the order and extent in which kube-apiserver writes it.

type path3 struct {
	Get        *operation3  `json:"get,omitempty"`
	Put        *operation3  `json:"put,omitempty"`
	Post       *operation3  `json:"post,omitempty"`
	Delete     *operation3  `json:"delete,omitempty"`
	Options    *operation3  `json:"options,omitempty"`
	Head       *operation3  `json:"head,omitempty"`
	Patch      *operation3  `json:"patch,omitempty"`
	Parameters []parameter3 `json:"parameters,omitempty"`
}

type operation3 struct {
	Tags        []string             `json:"tags,omitempty"`
	Description string               `json:"description,omitempty"`
	ID          string               `json:"operationId,omitempty"`
	Parameters  []parameter3         `json:"parameters,omitempty"`
	Body        *body3               `json:"requestBody,omitempty"`
	Responses   map[string]response3 `json:"responses"`
	Action      string               `json:"x-kubernetes-action,omitempty"`
	Kind        *gvk                 `json:"x-kubernetes-group-version-kind,omitempty"`
}

type parameter3 struct {
	Name        string     `json:"name"`
	In          string     `json:"in"`
	Description string     `json:"description,omitempty"`
	Required    bool       `json:"required,omitempty"`
	Schema      simpleType `json:"schema"`
}

type simpleType struct {
	Ref    string `json:"$ref,omitempty"`
	Type   string `json:"type,omitempty"`
	Unique bool   `json:"uniqueItems,omitempty"`
}

type body3 struct {
	Content  map[string]media3 `json:"content"`
	Required bool              `json:"required,omitempty"`
}

type response3 struct {
	Description string            `json:"description"`
	Content     map[string]media3 `json:"content,omitempty"`
}

type media3 struct {
	Schema simpleType `json:"schema"`
}

type gvk struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

const prefix3 = "#/components/schemas/"

// schemaOf refers to a definition; none is a string.
func schemaOf(prefix, definition string) simpleType {
	if definition == "" {
		return simpleType{Type: "string"}
	}
	return simpleType{Ref: prefix + definition}
}

// newPath3 writes the operations of one path.
func newPath3(routes []route) path3 {
	var p path3
	common := shared(routes)
	p.Parameters = parameters3(common)
	for i := range routes {
		t := &routes[i]
		op := newOperation3(t, common)
		switch t.method {
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
	return p
}

func newOperation3(t *route, common []param) *operation3 {
	op := &operation3{Description: t.doc, Action: t.action, Responses: map[string]response3{}}
	op.ID, op.Tags = operationID(t.name, t.path)
	if t.kind.Kind != "" {
		op.Kind = &gvk{t.kind.Group, t.kind.Version, t.kind.Kind}
	}
	op.Parameters = parameters3(own(t, common))
	if t.body != "" {
		op.Body = &body3{Content: content3(t.consumes, t.body), Required: !t.optional}
	}
	for _, a := range t.answers {
		op.Responses[strconv.Itoa(a.code)] = response3{Description: http.StatusText(a.code), Content: content3(t.produces, a.definition)}
	}
	op.Responses[strconv.Itoa(http.StatusUnauthorized)] = response3{Description: http.StatusText(http.StatusUnauthorized)}
	return op
}

func content3(media []string, definition string) map[string]media3 {
	c := map[string]media3{}
	for _, m := range media {
		c[m] = media3{schemaOf(prefix3, definition)}
	}
	return c
}

func parameters3(params []param) []parameter3 {
	var all []parameter3
	for _, p := range params {
		all = append(all, parameter3{
			Name: p.name, In: p.in, Description: p.doc, Required: p.in == inPath,
			Schema: simpleType{Type: p.kind, Unique: true},
		})
	}
	return all
}

// shared are the parameters that all operations of a path have, in order.
func shared(routes []route) []param {
	count := map[[2]string]int{}
	last := map[[2]string]param{}
	for i := range routes {
		for _, p := range routes[i].params {
			count[[2]string{p.name, p.in}]++
			last[[2]string{p.name, p.in}] = p
		}
	}
	var all []param
	for key, n := range count {
		if n == len(routes) {
			all = append(all, last[key])
		}
	}
	return sorted(all)
}

// own are an operation's parameters that are not said for the path.
func own(t *route, common []param) []param {
	var all []param
	for _, p := range t.params {
		if !slices.ContainsFunc(common, func(c param) bool { return c.name == p.name && c.in == p.in }) {
			all = append(all, p)
		}
	}
	return sorted(all)
}

func sorted(params []param) []param {
	slices.SortFunc(params, func(a, b param) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.in, b.in)) })
	return params
}
