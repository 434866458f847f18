package openapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/keelson-dev/keelson/registry"
)

// connect are the operations on a subresource that leads to what runs behind the object.
func (r *resource) connect(name string, connect registry.Connect) []route {
	s := *r
	s.sub, s.object = name, ""
	if connect.Reads {
		t := s.read(s.item(r.gvk.Kind), r.gvk)
		t.produces = append([]string{"text/plain"}, t.produces...)
		t.params = append(t.params, connectParams(connect)...)
		return []route{t}
	}
	at := s.item(connect.GroupVersionKind.Kind)
	var all []route
	for _, method := range connect.Methods {
		all = append(all, s.connectRoute(method, at, "", connect))
		if connect.Below {
			below := place{at.path + "/{path}", append([]param{{"path", inPath, "path to the resource", "string"}}, at.params...)}
			all = append(all, s.connectRoute(method, below, "WithPath", connect))
		}
	}
	return all
}

func (r *resource) connectRoute(method string, at place, suffix string, connect registry.Connect) route {
	t := r.route(method, "connect"+method[:1]+strings.ToLower(method[1:]), at, suffix)
	t.doc, t.action, t.kind = "connect "+method+" requests to "+r.sub+" of "+r.gvk.Kind, "connect", connect.GroupVersionKind
	t.produces = anything()
	t.params = append(append([]param{}, at.params...), connectParams(connect)...)
	t.answers = []answer{{code: http.StatusOK}}
	return t
}

// connectParams are the parameters, as they are without any.
func connectParams(connect registry.Connect) []param {
	options, err := connect.Parameters(url.Values{}, "")
	if err != nil {
		return nil
	}
	return fieldParams(options, "sinceTime") // upstream's documents do not know of times
}
