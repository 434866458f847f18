package customresources_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// session compares one definition and its objects.
type session struct {
	random
	*comparison
	d       *definition
	objects map[string]*object
}

// object is stored by both servers.
type object struct {
	name     string
	content  m
	versions [2]string // by server
}

var errServe = errors.New("the definition is not served")

// run compares a definition, then another state of it, with objects.
func (s *session) run(ctx context.Context) error {
	for range 4 {
		d := define(s.random, s.d.plural)
		if s.chance(0.75) {
			oddDefinition(s.random, d)
		}
		if _, err := s.compare(ctx, request{what: "define", method: http.MethodPost, path: definitions + "?dryRun=All&" + s.validation(), body: encode(d.object)}, nil); err != nil {
			return err
		}
	}
	for _, v := range s.d.object["spec"].(m)["versions"].(l) { // whatever was made odd, it tells which state is served
		if properties, ok := v.(m)["schema"].(m)["openAPIV3Schema"].(m)["properties"].(m); ok {
			properties[marker] = mark(1)
		}
	}
	made, err := s.compare(ctx, request{what: "define for real", method: http.MethodPost, path: definitions, body: encode(s.d.object)}, nil)
	if err != nil || !same(made) || made[0].code != http.StatusCreated {
		return err
	}
	path := definitions + "/" + s.d.object["metadata"].(m)["name"].(string)
	defer func() { // not compared: the objects go in the background
		for _, server := range s.servers {
			_, _ = server.send(context.WithoutCancel(ctx), request{method: http.MethodDelete, path: path}, "")
		}
	}()
	for generation := 1; generation <= 2; generation++ {
		if generation == 2 {
			if ok, err := s.tighten(ctx, path); err != nil || !ok {
				return err
			}
		}
		if err := s.served(ctx, generation); err != nil {
			return err
		}
		for range 6 {
			if len(s.objects) < 2 {
				if err := s.store(ctx); err != nil {
					return err
				}
			}
		}
		for range s.requests {
			if err := s.one(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// tighten replaces the definition by one that may refuse what is stored.
func (s *session) tighten(ctx context.Context, path string) (bool, error) {
	var versions [2]string
	for i, server := range s.servers {
		a, err := server.send(ctx, request{method: http.MethodGet, path: path}, "")
		if err != nil {
			return false, err
		}
		versions[i] = a.resourceVersion()
	}
	next := clone(s.d.object)
	next["metadata"].(m)["resourceVersion"] = version
	g := newSchemas(s.random)
	for _, v := range next["spec"].(m)["versions"].(l) {
		schema := v.(m)["schema"].(m)["openAPIV3Schema"].(m)
		for range 1 + s.IntN(4) {
			g.tighten(schema)
		}
		schema["properties"].(m)[marker] = mark(2)
	}
	a, err := s.compare(ctx, request{what: "redefine", method: http.MethodPut, path: path, body: encode(next)}, &versions)
	if err != nil || !same(a) || a[0].code != http.StatusOK {
		return false, err
	}
	s.d.object = next
	return true, nil
}

// served waits until both servers serve a state of the definition.
func (s *session) served(ctx context.Context, generation int) error {
	body := encode(m{"apiVersion": group + "/" + s.d.versions[0], "kind": s.d.kind, "metadata": m{"name": "probe"}, marker: "?"})
	want := fmt.Appendf(nil, "generation-%d", generation)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < len(s.servers); {
		a, err := s.servers[i].send(ctx, request{method: http.MethodPost, path: s.path(s.d.versions[0]) + "?dryRun=All&fieldValidation=Ignore", body: body}, "")
		if err == nil && bytes.Contains(a.raw, want) {
			i++
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w by %s: %d %s\n%s", errServe, s.servers[i].name, a.code, a.raw, encode(s.d.object))
		}
	}
	return nil
}

func (s *session) path(v string) string {
	if s.d.namespaced {
		return "/apis/" + group + "/" + v + "/namespaces/default/" + s.d.plural
	}
	return "/apis/" + group + "/" + v + "/" + s.d.plural
}

func (s *session) validation() string {
	return "fieldValidation=" + one(s.random, "Strict", "Warn", "Ignore")
}

// fresh returns an object of the definition.
func (s *session) fresh(v, name string, wrong float64) m {
	g := &values{s.random, wrong}
	o, ok := g.object(s.d.schemaOf(v)).(m)
	if !ok || s.chance(0.9) {
		delete(o, marker)
	}
	metadata := m{"name": name}
	if s.chance(0.15) {
		metadata[one(s.random, "labels", "annotations")] = m{"a": "b"}
	}
	o["apiVersion"], o["kind"], o["metadata"] = group+"/"+v, s.d.kind, metadata
	return o
}

// store stores an object if both servers accept it.
func (s *session) store(ctx context.Context) error {
	v, name := one(s.random, s.d.versions...), fmt.Sprint("object-", len(s.objects))
	a, err := s.compare(ctx, request{what: "store", method: http.MethodPost, path: s.path(v), body: encode(s.fresh(v, name, 0))}, nil)
	if err == nil && same(a) && a[0].code == http.StatusCreated {
		s.objects[name] = &object{name, a[1].object(), [2]string{a[0].resourceVersion(), a[1].resourceVersion()}}
	}
	return err
}

// one compares one request.
func (s *session) one(ctx context.Context) error {
	v := one(s.random, s.d.versions...)
	if len(s.objects) == 0 || s.chance(0.25) {
		return s.create(ctx, v)
	}
	o := s.objects[one(s.random, keys(toAny(s.objects))...)]
	switch n := s.IntN(20); {
	case n < 6:
		return s.update(ctx, v, o, "")
	case n < 9:
		return s.patch(ctx, v, o, "")
	case n < 11:
		return s.update(ctx, v, o, "/status")
	case n < 13:
		return s.patch(ctx, v, o, "/status")
	case n < 15:
		return s.apply(ctx, v, o)
	case n < 17 && s.d.scale:
		return s.scale(ctx, v, o)
	case n < 18:
		return s.jsonPatch(ctx, v, o)
	}
	return s.read(ctx, v, o)
}

func toAny(o map[string]*object) m {
	out := m{}
	for k := range o {
		out[k] = nil
	}
	return out
}

func (s *session) create(ctx context.Context, v string) error {
	o := s.fresh(v, "new", one(s.random, 0, 0, 0.02, 0.1))
	for range one(s.random, 0, 0, 1, 1, 2) {
		s.mutate(o)
	}
	return s.send(ctx, request{what: "create", method: http.MethodPost, path: s.path(v) + "?dryRun=All&" + s.validation(), body: s.duplicate(encode(o))}, nil)
}

// duplicate repeats a field sometimes.
func (s *session) duplicate(body []byte) []byte {
	if !s.chance(0.04) {
		return body
	}
	at := one(s.random, `"spec":{`, `"metadata":{`, `{`)
	return bytes.Replace(body, []byte(at), []byte(at+one(s.random, `"a":1,"a":2,`, `"a":"x",`, `"kind":"K",`, `"name":"n",`, `"b":{"c":1,"c":2},`)), 1)
}

// state returns an object as an update may send it.
func (s *session) state(v string, o *object) m {
	content := clone(o.content)
	content["apiVersion"] = group + "/" + v
	metadata := content["metadata"].(m)
	for _, k := range []string{"managedFields", "uid", "creationTimestamp"} {
		delete(metadata, k)
	}
	metadata["resourceVersion"] = version
	switch s.IntN(30) {
	case 0:
		delete(metadata, "resourceVersion")
	case 1:
		metadata["resourceVersion"] = one(s.random, "1", "x", "0")
	}
	return content
}

func (s *session) update(ctx context.Context, v string, o *object, sub string) error {
	content := s.state(v, o)
	if s.chance(0.6) {
		fresh := s.fresh(v, o.name, one(s.random, 0, 0.05))
		for _, k := range keys(fresh) {
			if k != "metadata" && s.chance(0.5) {
				content[k] = fresh[k]
			}
		}
	}
	for range one(s.random, 0, 1, 1, 2) {
		s.mutate(content)
	}
	return s.send(ctx, request{what: "update" + sub, method: http.MethodPut, path: s.path(v) + "/" + o.name + sub + "?dryRun=All&" + s.validation(), body: s.duplicate(encode(content))}, o)
}

// change returns some fields of an object.
func (s *session) change(v string, o *object) m {
	fresh := s.fresh(v, o.name, one(s.random, 0, 0.05))
	for _, k := range keys(fresh) {
		if k == "metadata" && s.chance(0.9) || s.chance(0.5) {
			delete(fresh, k)
		}
	}
	if s.chance(0.5) {
		s.mutate(fresh)
	}
	return fresh
}

func (s *session) patch(ctx context.Context, v string, o *object, sub string) error {
	return s.send(ctx, request{
		what: "patch" + sub, method: http.MethodPatch, content: "application/merge-patch+json",
		path: s.path(v) + "/" + o.name + sub + "?dryRun=All&" + s.validation(), body: s.duplicate(encode(s.change(v, o))),
	}, o)
}

func (s *session) apply(ctx context.Context, v string, o *object) error {
	fresh := s.fresh(v, one(s.random, o.name, o.name, "applied"), one(s.random, 0, 0.02))
	if s.chance(0.4) {
		s.mutate(fresh)
	}
	name := o.name
	if metadata, ok := fresh["metadata"].(m); ok {
		name, _ = metadata["name"].(string)
	}
	sub := one(s.random, "", "", "", "/status")
	if name == "" {
		name = "applied"
	}
	return s.send(ctx, request{
		what: "apply" + sub, method: http.MethodPatch, content: "application/apply-patch+yaml",
		path: s.path(v) + "/" + strings.Trim(name, "/% ") + sub + "?fieldManager=me&force=" + one(s.random, "true", "false") + "&dryRun=All&" + s.validation(), body: encode(fresh),
	}, o)
}

func (s *session) scale(ctx context.Context, v string, o *object) error {
	r := request{what: "scale", method: http.MethodGet, path: s.path(v) + "/" + o.name + "/scale?dryRun=All&" + s.validation()}
	replicas := one[any](s.random, 0, 3, 3, -1, 5000000000, nil, "3", 1.5)
	switch s.IntN(4) {
	case 0:
	case 1:
		r.what, r.method, r.content, r.body = "patch/scale", http.MethodPatch, "application/merge-patch+json", encode(m{"spec": m{"replicas": replicas}})
	default:
		body := m{
			"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": m{"name": o.name, "resourceVersion": version},
			"spec": m{"replicas": replicas},
		}
		if s.d.namespaced {
			body["metadata"].(m)["namespace"] = "default"
		}
		if s.chance(0.3) {
			s.mutate(body)
		}
		r.what, r.method, r.body = "update/scale", http.MethodPut, encode(body)
	}
	return s.send(ctx, r, o)
}

func (s *session) jsonPatch(ctx context.Context, v string, o *object) error {
	var operations l
	for range 1 + s.IntN(2) {
		path := one(s.random, "/spec", "/data", "/status", "/metadata/labels", "/spec/a", "/spec/b/0", "/spec/x-y", "/spec/nope/deep", "/extra", "/metadata/name")
		op := m{"op": one(s.random, "add", "replace", "remove", "test", "copy"), "path": path, "value": s.anything(2)}
		if op["op"] == "copy" {
			op["from"] = "/spec"
		}
		operations = append(operations, op)
	}
	return s.send(ctx, request{
		what: "json patch", method: http.MethodPatch, content: "application/json-patch+json",
		path: s.path(v) + "/" + o.name + "?dryRun=All&" + s.validation(), body: encode(operations),
	}, o)
}

func (s *session) read(ctx context.Context, v string, o *object) error {
	r := request{what: "get", method: http.MethodGet, path: s.path(v) + "/" + o.name}
	switch s.IntN(6) {
	case 0:
		r.what, r.accept = "table", "application/json;as=Table;g=meta.k8s.io;v=v1"
	case 1:
		r.what, r.path = "list", s.path(v)
		if s.chance(0.5) {
			r.accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
		}
	case 2:
		field := "spec.a"
		if len(s.d.selectable) > 0 {
			field = one(s.random, s.d.selectable...)
		}
		r.what, r.path = "select", s.path(v)+"?fieldSelector="+field+one(s.random, "=", "!=")+one(s.random, "", "a", "3", "true", "abc")
	case 3:
		r.what, r.method, r.path = "delete", http.MethodDelete, r.path+"?dryRun=All"
	case 4: // stores
		content := s.state(v, o)
		if status, ok := s.fresh(v, o.name, 0)["status"]; ok {
			content["status"] = status
		}
		r = request{what: "store/status", method: http.MethodPut, path: r.path + one(s.random, "", "/status"), body: encode(content)}
	}
	return s.send(ctx, r, o)
}

// send compares the answers to a request about an object.
func (s *session) send(ctx context.Context, r request, o *object) error {
	var versions *[2]string
	if o != nil {
		versions = &o.versions
	}
	a, err := s.compare(ctx, r, versions)
	if err == nil && r.what == "store/status" && a[0].code == http.StatusOK && a[1].code == http.StatusOK {
		o.content, o.versions = a[1].object(), [2]string{a[0].resourceVersion(), a[1].resourceVersion()}
	}
	return err
}

// compare sends a request to both servers and records a difference.
func (s *session) compare(ctx context.Context, r request, versions *[2]string) ([2]answer, error) {
	if versions == nil {
		versions = &[2]string{}
	}
	a, err := s.ask(ctx, r, *versions)
	if err != nil {
		return a, err
	}
	if s.count(r, a[1]); same(a) {
		return a, nil
	}
	if (a[0].code/100 == 4 || a[0].code == a[1].code) && (a[1].code == 0 || a[1].code == http.StatusInternalServerError) {
		s.failed(r, a[1]) // what upstream fails at is refused here
		return a, nil
	}
	if a[0].code == http.StatusUnprocessableEntity && a[0].code == a[1].code && bytes.Contains(a[0].raw, []byte("more bytes are left out")) {
		return a, nil // messages have a limit here
	}
	refused := a[0].code >= http.StatusBadRequest && a[1].code >= http.StatusBadRequest
	if r.method == http.MethodGet || strings.Contains(r.path, "dryRun=All") || refused {
		// Upstream's own answer may vary.
		for range 5 {
			if again, err := s.ask(ctx, r, *versions); err != nil || same(again) || same([2]answer{a[0], again[1]}) {
				s.unstable()
				return again, err
			}
		}
	}
	s.report(ctx, s, r, a, *versions)
	return a, nil
}

func (c *comparison) ask(ctx context.Context, r request, versions [2]string) (a [2]answer, err error) {
	for i, server := range c.servers {
		if a[i], err = server.send(ctx, r, versions[i]); err != nil {
			return a, err
		}
	}
	return a, nil
}

func same(a [2]answer) bool { return differences(a[0], a[1]) == "" }

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // made of JSON
	}
	return text
}
