package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

// endpoint is one resource in one group-version.
type endpoint struct {
	*registry.Resource
	server  *Server
	version *registry.Version // nil: the stored version
	names   registry.Names
	gv      schema.GroupVersion
}

func (e *endpoint) gvk() schema.GroupVersionKind { return e.gv.WithKind(e.names.Kind) }

func (e *endpoint) listGVK() schema.GroupVersionKind { return e.gv.WithKind(e.names.Kind + "List") }

// protobuf tells whether objects can be written as protobuf.
func (e *endpoint) protobuf() bool {
	return e.New != nil && codec.HasProtobuf(e.new()) || e.NewRequest != nil && codec.HasProtobuf(e.NewRequest())
}

// new makes an empty object of this version.
func (e *endpoint) new() registry.Object {
	if e.version != nil {
		return e.version.New()
	}
	return e.New()
}

// stored converts from this version; the object is taken over.
func (e *endpoint) stored(obj registry.Object) registry.Object {
	if e.version != nil {
		return e.version.ToStored(obj)
	}
	return obj
}

// served converts to this version; the object may be shared.
func (e *endpoint) served(obj registry.Object) registry.Object {
	if e.version != nil {
		return e.version.FromStored(obj)
	}
	return obj
}

// body returns an item's JSON without type, in this version.
func (e *endpoint) body(i *registry.Item) ([]byte, error) {
	return i.Encoded(registry.Form{GroupVersion: e.gv.String(), Media: "json"}, func(o registry.Object) ([]byte, error) {
		return json.Marshal(e.served(o))
	})
}

// raw returns an item's protobuf message without envelope, in this version.
func (e *endpoint) raw(i *registry.Item) ([]byte, error) {
	return i.Encoded(registry.Form{GroupVersion: e.gv.String(), Media: "protobuf"}, func(o registry.Object) ([]byte, error) {
		return codec.Raw(e.served(o))
	})
}

// whole returns an item with its type, as one media type.
func (e *endpoint) whole(m media, i *registry.Item) ([]byte, error) {
	if m == mediaProtobuf {
		raw, err := e.raw(i)
		if err != nil {
			return nil, err
		}
		return codec.Envelope(e.gvk(), raw)
	}
	body, err := e.body(i)
	if err != nil {
		return nil, err
	}
	data := codec.WithType(e.gvk(), body)
	if m == mediaYAML {
		return boundedyaml.FromJSON(data)
	}
	return append(data, '\n'), nil
}

// call is one request to one endpoint.
type call struct {
	*endpoint
	q Request
	w http.ResponseWriter
	r *http.Request
	// warnings are those of the answer; nil in a call that answers nothing.
	warnings *warnings
}

// namespace is where the object lives; a namespace object lives nowhere.
func (c *call) namespace() string {
	if !c.Namespaced {
		return ""
	}
	return c.q.Namespace
}

// write answers with an item, in the form that the client wants.
func (c *call) write(w http.ResponseWriter, r *http.Request, code int, i *registry.Item) {
	f, err := c.accept()
	if err == nil {
		err = c.over()
	}
	if err != nil {
		writeError(w, r, err)
		return
	}
	data, err := c.encodeItem(f, i)
	if err != nil {
		writeError(w, r, err)
		return
	}
	writeBytes(w, code, f, data)
}

func (c *call) fail(err error) { writeError(c.w, c.r, err) }

// admission describes the request to admission plugins.
func (c *call) admission(op admission.Operation, obj, old registry.Object, options runtime.Object, dryRun bool) *admission.Request {
	q := &admission.Request{
		Operation: op, Kind: c.gvk(), Resource: c.gv.WithResource(c.names.Plural), Subresource: c.q.Subresource,
		Namespace: c.q.Namespace, Name: c.q.Name, Options: options, DryRun: dryRun,
		User: authn.FromContext(c.r.Context()),
	}
	if c.version != nil {
		// Plugins see objects as they are stored, whatever version they came in by.
		q.Kind, q.Resource = c.GroupVersion.WithKind(c.Names.Kind), c.GroupVersion.WithResource(c.Plural)
	}
	if obj != nil {
		q.Object = obj
		if q.Name == "" {
			q.Name = obj.GetName()
		}
		if q.Namespace == "" && c.GroupResource() == (schema.GroupResource{Resource: "namespaces"}) {
			q.Namespace = q.Name // a namespace is in itself, to plugins
		}
	}
	if old != nil {
		q.OldObject = old
	}
	return q
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// isDryRun tells whether a request asks not to be persisted.
func isDryRun(dryRun []string) bool { return len(dryRun) > 0 }

// checkName compares the name in an object with that in the URL.
func checkName(obj metav1.Object, name, namespace string) error {
	if obj.GetName() == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", name))
	}
	if obj.GetName() != name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), name))
	}
	if namespace != "" && obj.GetNamespace() != "" && obj.GetNamespace() != namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the request (%s)", obj.GetNamespace(), namespace))
	}
	return nil
}

// fieldLabels checks the labels of a field selector and translates them to the kind's.
func (e *endpoint) fieldLabel(label string) (string, error) {
	if label == "metadata.name" || label == "metadata.namespace" && e.Namespaced {
		return label, nil
	}
	if e.version != nil && e.version.FieldLabel != nil {
		if known, ok := e.version.FieldLabel(label); ok {
			return known, nil
		}
		return "", fmt.Errorf("field label not supported: %s", label)
	}
	if e.Fields == nil {
		return "", fmt.Errorf("%q is not a known field selector: only %q, %q", label, "metadata.name", "metadata.namespace")
	}
	if _, ok := e.Fields(e.New())[label]; ok {
		return label, nil
	}
	return "", fmt.Errorf("field label not supported: %s", label)
}

// verbs are what discovery says can be done with the resource.
func (e *endpoint) verbs() metav1.Verbs {
	if e.Answer != nil {
		return metav1.Verbs{"create"}
	}
	if e.Read != nil {
		return metav1.Verbs{"get", "list"}
	}
	if e.Rules.Deletion.Singly {
		return strings.Fields("create delete get list patch update watch")
	}
	return strings.Fields("create delete deletecollection get list patch update watch")
}
