package admit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

// Request is a request to ask about. It needs an Object or a Text.
type Request struct {
	// Operation is admission.Create, Update or Delete; empty is Create.
	Operation admission.Operation
	// Object is what to create or to update, or names what to delete or to patch. An object that is updated or deleted is in the
	// world's state; an update without a resource version gets the current one where one is required. Without a namespace, a
	// namespaced object is in default. It is not changed.
	Object runtime.Object
	// Text is the object in YAML or JSON instead: it is sent as it is, and what is wrong with it, such as unknown fields, is told as
	// a server does.
	Text []byte
	// Patch, in an update, is applied to the object in the state.
	Patch *client.Patch
	// Subresource is the part of the object that is updated, such as "status", or what is created for it, such as "eviction".
	Subresource string
	// Resource is that of the path, if the object's kind does not tell: {"", "v1", "pods"} for a Binding.
	Resource schema.GroupVersionResource
	// User makes the request; nil is cluster.Admin.
	User *authn.Identity
	// Query are further parameters, such as fieldValidation or fieldManager.
	Query url.Values
	// DryRun tells plugins that nothing will be stored.
	DryRun bool
	// Keep stores the result in the world, for later requests. It cannot be a dry run.
	Keep bool
}

// Ask runs a request through the server. A refusal is a Result, no error.
func (w *World) Ask(ctx context.Context, q Request) (*Result, error) {
	call, err := w.call(ctx, &q)
	if err != nil {
		return nil, err
	}
	r := &recording{keep: q.Keep, dry: q.DryRun, allowed: !w.authorize}
	user := q.User
	if user == nil {
		user = cluster.Admin()
	}
	out := &Result{}
	id := "admit-" + strconv.FormatUint(w.requests.Add(1), 10)
	call.request.Header.Set("Audit-ID", id)
	w.annotated.expect(id, &out.Annotations)
	defer w.annotated.forget(id)
	answer, err := w.cluster.ConfigFor(user).Transport.RoundTrip(call.request.WithContext(context.WithValue(ctx, recordingKey{}, r)))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.ContentLength < 0 {
		return nil, fmt.Errorf("answer %d has no end", answer.StatusCode) // nothing that can be asked is streamed
	}
	out.body = make([]byte, answer.ContentLength)
	if _, err := io.ReadFull(answer.Body, out.body); err != nil {
		return nil, err
	}
	for _, header := range answer.Header.Values("Warning") {
		if text, err := warning(header); err == nil {
			out.Warnings = append(out.Warnings, text)
		}
	}
	return out, out.fill(r, call, answer.StatusCode)
}

// fill completes the result of a request.
func (out *Result) fill(r *recording, c *call, code int) error {
	out.Steps, out.Costs = r.steps, r.costs
	if len(out.Steps) > 0 {
		first := &out.Steps[0]
		first.before = snapshot{sent: c.sent, of: c.of}
		if c.sent == nil || first.after.none() { // nothing was sent, or only a change
			out.Steps = out.Steps[1:]
		}
	}
	gvk, err := codec.Type(out.body)
	if err != nil {
		return fmt.Errorf("answer %d: %w", code, err)
	}
	isStatus := gvk.Kind == "Status" && gvk.GroupVersion() == schema.GroupVersion{Version: "v1"}
	if code >= http.StatusBadRequest {
		if !isStatus {
			return fmt.Errorf("answer %d has a %s", code, gvk)
		}
		var s metav1.Status
		if _, err := codec.Decode(out.body, &s); err != nil {
			return fmt.Errorf("answer %d: %w", code, err)
		}
		out.Refusal = r.refusal(&s)
		return nil
	}
	if !isStatus && c.resource != nil {
		out.object = c.decode
	}
	return nil
}

// warning returns the text of a header: 299 - "text".
func warning(header string) (string, error) {
	_, quoted, _ := strings.Cut(header, "\"")
	return strconv.Unquote("\"" + quoted)
}

// call is a request as it is sent.
type call struct {
	request  *http.Request
	resource *registry.Resource // of the answer; nil if the answer is something else
	sent     []byte             // the object as JSON, if there is one
	of       reflect.Type       // its Go type, if it has one
}

// decode reads the answer.
func (c *call) decode(body []byte) (runtime.Object, error) {
	gvk, err := codec.Type(body)
	if err != nil {
		return nil, err
	}
	var obj runtime.Object = c.resource.New()
	if gvk.Kind != c.resource.Names.Kind {
		obj = &unstructured.Unstructured{}
		return obj, json.Unmarshal(body, obj)
	}
	if _, err := codec.Decode(body, obj); err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}

// call makes what to send.
func (w *World) call(ctx context.Context, q *Request) (*call, error) {
	if q.Keep && q.DryRun {
		return nil, fmt.Errorf("%w: a dry run cannot be kept", ErrRequest)
	}
	body, err := w.body(q)
	if err != nil {
		return nil, err
	}
	named, err := w.identify(q.Object, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	at, err := w.find(named.GroupVersionKind(), q.Resource)
	if err != nil {
		return nil, err
	}
	out := &call{}
	if q.Subresource == "" || at.Sub.Views[q.Subresource].ValidateUpdate != nil || at.Sub.Views[q.Subresource].PrepareUpdate != nil {
		out.resource = at
		if at.Decode == nil {
			out.of = w.typeOf(at)
		}
	}
	method, media := http.MethodPost, "application/json"
	switch {
	case q.Patch != nil && (q.Operation == admission.Update || q.Operation == ""):
		method, media, body = http.MethodPatch, string(q.Patch.Type), q.Patch.Data
	case q.Operation == admission.Update:
		method = http.MethodPut
		if q.Object != nil && at.Storage().Rules.ConditionalUpdate {
			body = w.current(ctx, at, named, body)
		}
		out.sent = body
	case q.Operation == admission.Delete:
		method, body = http.MethodDelete, nil
	case q.Operation == admission.Create || q.Operation == "":
		out.sent = body
	default:
		return nil, fmt.Errorf("%w: cannot %s", ErrRequest, q.Operation)
	}
	if q.Text != nil && out.sent != nil {
		media, body = "application/yaml", q.Text
	}
	target := path(at, named, method, q.Subresource) + "?" + query(q)
	if out.request, err = http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	out.request.Header.Set("Content-Type", media)
	out.request.Header.Set("Accept", "application/json")
	if out.of != nil && out.of.Implements(reflect.TypeFor[message]()) {
		out.request.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
	}
	return out, nil
}

// current fills in the resource version of the object in the state, for kinds that require one.
func (w *World) current(ctx context.Context, at *registry.Resource, named *metav1.PartialObjectMetadata, body []byte) []byte {
	u := &unstructured.Unstructured{}
	namespace := ""
	if at.Namespaced {
		namespace = cmp.Or(named.Namespace, metav1.NamespaceDefault)
	}
	item, err := at.Storage().Get(ctx, namespace, named.Name, "")
	if named.ResourceVersion != "" || err != nil || json.Unmarshal(body, u) != nil {
		return body // the server says what is wrong
	}
	u.SetResourceVersion(item.Object.GetResourceVersion())
	if changed, err := json.Marshal(u); err == nil {
		return changed
	}
	return body
}

// path is that of the request.
func path(at *registry.Resource, named *metav1.PartialObjectMetadata, method, subresource string) string {
	var b strings.Builder
	b.WriteString("http://keelson.in-process")
	if at.GroupVersion.Group == "" {
		b.WriteString("/api/" + at.GroupVersion.Version)
	} else {
		b.WriteString("/apis/" + at.GroupVersion.String())
	}
	if at.Namespaced {
		b.WriteString("/namespaces/" + url.PathEscape(cmp.Or(named.Namespace, metav1.NamespaceDefault)))
	}
	b.WriteString("/" + at.Plural)
	if method != http.MethodPost || subresource != "" {
		b.WriteString("/" + url.PathEscape(named.Name))
	}
	if subresource != "" {
		b.WriteString("/" + subresource)
	}
	return b.String()
}

func query(q *Request) string {
	values := url.Values{}
	for key, value := range q.Query {
		values[key] = value
	}
	if !q.Keep {
		values.Set("dryRun", metav1.DryRunAll)
	}
	if q.Patch != nil && q.Patch.Type == types.ApplyYAMLPatchType && !values.Has("fieldManager") {
		values.Set("fieldManager", "admit")
	}
	return values.Encode()
}

// body returns the object as JSON.
func (w *World) body(q *Request) ([]byte, error) {
	switch {
	case (q.Object == nil) == (q.Text == nil):
		return nil, fmt.Errorf("%w: needs an Object or a Text", ErrRequest)
	case q.Text != nil:
		data, err := boundedyaml.ToJSON(q.Text, boundedyaml.Limit)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRequest, err)
		}
		return data, nil
	}
	data, err := w.encode(q.Object)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return data, nil
}

// encode returns an object as JSON with its type.
func (w *World) encode(obj runtime.Object) ([]byte, error) {
	if u, ok := obj.(runtime.Unstructured); ok {
		return json.Marshal(u.UnstructuredContent())
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if !gvk.Empty() {
		return json.Marshal(obj)
	}
	kinds, _, err := w.cluster.Scheme().ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	return codec.JSON(kinds[0], obj)
}

// identify returns what an object of a request says it is, which its JSON says if it has no Go type.
func (w *World) identify(obj runtime.Object, data []byte) (*metav1.PartialObjectMetadata, error) {
	of, ok := obj.(metav1.Object)
	if _, untyped := obj.(runtime.Unstructured); untyped || !ok {
		return identify(data)
	}
	kind := obj.GetObjectKind().GroupVersionKind()
	if kind.Empty() {
		kinds, _, err := w.cluster.Scheme().ObjectKinds(obj)
		if err != nil {
			return nil, err
		}
		kind = kinds[0]
	}
	named := &metav1.PartialObjectMetadata{}
	named.SetGroupVersionKind(kind)
	named.Namespace, named.Name, named.ResourceVersion = of.GetNamespace(), of.GetName(), of.GetResourceVersion()
	return named, nil
}

// typeOf returns the Go type of a resource's objects.
func (w *World) typeOf(at *registry.Resource) reflect.Type {
	if t, ok := w.types.Load(at); ok {
		return t.(reflect.Type)
	}
	t := reflect.TypeOf(at.New())
	w.types.Store(at, t)
	return t
}

// identify reads what an object says it is.
func identify(data []byte) (*metav1.PartialObjectMetadata, error) {
	var named metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &named); err != nil {
		return nil, err
	}
	if named.Kind == "" || named.APIVersion == "" {
		return nil, errors.New("an object needs an apiVersion and a kind")
	}
	return &named, nil
}

// find returns the resource that a request is about.
func (w *World) find(kind schema.GroupVersionKind, gvr schema.GroupVersionResource) (*registry.Resource, error) {
	if !gvr.Empty() {
		if at, ok := w.cluster.Registry().Find(gvr); ok {
			return at, nil
		}
		return nil, fmt.Errorf("%w: %s are not served", ErrRequest, gvr)
	}
	if at, ok := w.kinds.Find(kind); ok {
		return at, nil
	}
	return nil, fmt.Errorf("%w: %w", ErrRequest, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}})
}

func described(obj runtime.Object) string {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = fmt.Sprintf("%T", obj)
	}
	if m, err := meta.Accessor(obj); err == nil {
		return strings.TrimPrefix(kind+" "+m.GetNamespace()+"/"+m.GetName(), "/")
	}
	return kind
}
