package apiserver

import (
	"encoding/json"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

// maxStatus bounds the Status of a response that is looked at for the record of its request.
const maxStatus = 64 << 10

// recording is how the record of a request comes to know the response. nil records nothing.
type recording struct {
	record  *audit.Record
	refused bool // before it was known whose the request is
	keep    bool // what is written is looked at in the end
	object  bool // as the response's object, not only as its Status
	limit   int
	body    []byte
	over    bool // it was larger
}

// begin asks the audit policy about the request. false means that nobody records it.
func (x *exchange) begin(r *http.Request) bool {
	if x.audit == nil {
		return false
	}
	if !x.audit.record.Begin(&audit.Request{HTTP: r, Attributes: x.attributes(r), ID: x.id[0], Received: x.received}) {
		x.audit = nil
	}
	return x.audit != nil
}

// refuse answers a request before it is known whose it is. Upstream records of such only that.
func (x *exchange) refuse(r *http.Request, err error) {
	recorded := x.begin(r)
	if recorded {
		status := statusOf(err)
		x.audit.refused = true
		x.audit.record.Status(status)
		if body, err := codec.JSON(statusGVK(), status.DeepCopy()); err == nil {
			x.audit.record.ResponseObject(body)
		}
	}
	writeError(x, r, err)
	if recorded {
		x.audit.record.Started()
	}
}

// decided notes what the authorizer said.
func (a *recording) decided(decision, reason string) {
	if a == nil {
		return
	}
	if decision != "" {
		a.record.Annotate("authorization.k8s.io/decision", decision)
	}
	a.record.Annotate("authorization.k8s.io/reason", reason)
}

// answered notes the code of the response, and decides what of its body is looked at.
func (x *exchange) answered(code int) {
	a := x.audit
	if a == nil {
		return
	}
	if a.record.Code(code); a.refused {
		return
	}
	failed := code >= http.StatusBadRequest
	if x.long && !failed {
		a.record.Started()
		return
	}
	switch {
	case a.record.WantsResponse():
		a.keep, a.object, a.limit = true, true, a.record.MaxObject()
	case failed, strings.HasPrefix(x.q.Verb, "delete"), x.q.Subresource != "":
		a.keep, a.limit = true, maxStatus // it may be a Status
	}
}

// add looks at a part of the body.
func (a *recording) add(b []byte) {
	if a == nil || !a.keep {
		return
	}
	if a.over = a.over || len(a.body)+len(b) > a.limit; a.over {
		a.body = nil
		return
	}
	a.body = append(a.body, b...)
}

// complete ends the record of a request whose handler returned, or panicked with p.
func (x *exchange) complete(p any) {
	a := x.audit
	switch {
	case a == nil || a.refused:
		return
	case p != nil:
		a.record.Panicked(p)
		return
	}
	if a.keep {
		x.look()
	}
	if x.long && x.code >= http.StatusBadRequest {
		a.record.Started() // it has waited for its Status
	}
	a.record.Completed()
}

// look records what the body is.
func (x *exchange) look() {
	a := x.audit
	if a.over {
		if a.object {
			a.record.ResponseObject(nil)
		}
		return
	}
	body := x.document()
	var named struct{ APIVersion, Kind string }
	if json.Unmarshal(body, &named) != nil || named.Kind == "" {
		return // no API object: a text, /version
	}
	if named.Kind == "Status" && named.APIVersion == "v1" {
		var status metav1.Status
		if json.Unmarshal(body, &status) == nil {
			a.record.Status(&status)
			a.record.Code(x.code)
		}
	}
	if a.object {
		a.record.ResponseObject(body)
	}
}

// document is the body as JSON, or nil if it is none.
func (x *exchange) document() []byte {
	name, _, _ := strings.Cut(x.Header().Get("Content-Type"), ";")
	switch media(name) {
	case mediaJSON:
		return x.audit.body
	case mediaYAML:
		if data, err := boundedyaml.ToJSON(x.audit.body, max(len(x.audit.body), boundedyaml.Limit)); err == nil {
			return data
		}
	case mediaProtobuf:
		return x.server.fromProtobuf(x.audit.body)
	}
	return nil
}

func (s *Server) fromProtobuf(body []byte) []byte {
	gvk, raw, err := codec.Open(body)
	if err != nil {
		return nil
	}
	var obj runtime.Object
	switch {
	case gvk == statusGVK():
		obj = &metav1.Status{}
	case gvk.Group == metav1.GroupName && gvk.Kind == "PartialObjectMetadata":
		obj = &metav1.PartialObjectMetadata{}
	case gvk.Group == metav1.GroupName && gvk.Kind == "PartialObjectMetadataList":
		obj = &metav1.PartialObjectMetadataList{}
	default:
		if obj, err = s.scheme.New(gvk); err != nil {
			return nil
		}
	}
	if codec.DecodeRaw(raw, obj) != nil {
		return nil
	}
	if list, ok := obj.(*metav1.PartialObjectMetadataList); ok {
		for i := range list.Items { // whose types protobuf leaves out
			list.Items[i].SetGroupVersionKind(gvk.GroupVersion().WithKind("PartialObjectMetadata"))
		}
	}
	data, err := codec.JSON(gvk, obj)
	if err != nil {
		return nil
	}
	return data
}

// recordOf is the record of the request that w answers, or nil.
func recordOf(w http.ResponseWriter) *audit.Record {
	if x, ok := w.(*exchange); ok && x.audit != nil {
		return x.audit.record
	}
	return nil
}

// note tells the record of the request what its body is: an object as it was decoded.
func (c *call) note(gvk schema.GroupVersionKind, obj runtime.Object) {
	record := recordOf(c.w)
	if record == nil {
		return
	}
	if meta, ok := obj.(metav1.Object); ok {
		record.Object(meta)
	}
	if !record.WantsRequest() {
		return
	}
	if data, err := codec.JSON(gvk, obj); err == nil {
		record.RequestObject(data)
	}
}

// noteStored is note for an object in its stored version, with its defaults. namespace is what the
// body itself said.
func (c *call) noteStored(obj registry.Object, namespace string) {
	if !recordOf(c.w).WantsRequest() {
		return
	}
	served := c.served(obj)
	if served.GetNamespace() != namespace {
		served = served.DeepCopyObject().(registry.Object)
		served.SetNamespace(namespace)
	}
	c.note(c.gvk(), served)
}

// notePatch tells the record of the request what its patch is, in JSON.
func (c *call) notePatch(data []byte) { recordOf(c.w).RequestObject(data) }
