package apiserver

import (
	"encoding/json"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/registry/codec"
)

// maxAuditedStatus bounds the Status of a response that is read for the audit record.
const maxAuditedStatus = 64 << 10

// auditedRequest adds to the audit record of a request what is learned of it. nil records nothing.
type auditedRequest struct {
	record  *audit.Record
	decoder *decoder
	// rejected tells that the request was answered before it was known whose it is.
	rejected bool
	// keepsBody tells that the body of the response is kept, up to limit bytes; object that it is recorded as the
	// response's object, not only its Status.
	keepsBody, object bool
	limit             int
	body              []byte
	truncated         bool // the body was larger than the limit
}

// begin asks the audit policy about the request. It returns false if nobody records it.
func (a *auditedRequest) begin(x *exchange, r *http.Request) bool {
	if a == nil {
		return false
	}
	if !a.record.Begin(&audit.Request{HTTP: r, Attributes: x.attributes(r), ID: x.auditID[0], Received: x.received}) {
		x.audit = nil
	}
	return x.audit != nil
}

// reject answers a request before it is known whose it is. That is all upstream records of such requests.
func (a *auditedRequest) reject(x *exchange, r *http.Request, err error) {
	recorded := a.begin(x, r)
	if recorded {
		status := statusOf(err)
		a.rejected = true
		a.record.Status(status)
		if body, err := codec.JSON(statusGVK(), status.DeepCopy()); err == nil {
			a.record.ResponseObject(body)
		}
	}
	writeError(x, r, err)
	if recorded {
		a.record.Started()
	}
}

// authorized notes what the authorizer said.
func (a *auditedRequest) authorized(verdict string, decision authz.Decision, about authz.Attributes) {
	if a == nil {
		return
	}
	if verdict != "" {
		a.record.Annotate("authorization.k8s.io/decision", verdict)
	}
	a.record.Annotate("authorization.k8s.io/reason", decision.Why(about))
}

// responseBegan notes the code of the response, and decides whether its body is kept.
func (a *auditedRequest) responseBegan(q *Request, longRunning bool, code int) {
	if a == nil {
		return
	}
	if a.record.Code(code); a.rejected {
		return
	}
	failed := code >= http.StatusBadRequest
	if longRunning && !failed {
		a.record.Started()
		return
	}
	switch {
	case a.record.WantsResponse():
		a.keepsBody, a.object, a.limit = true, true, a.record.MaxObject()
	case failed, strings.HasPrefix(q.Verb, "delete"), q.Subresource != "":
		a.keepsBody, a.limit = true, maxAuditedStatus // it may be a Status
	}
}

// wrote keeps a part of the body.
func (a *auditedRequest) wrote(b []byte) {
	if a == nil || !a.keepsBody {
		return
	}
	if a.truncated = a.truncated || len(a.body)+len(b) > a.limit; a.truncated {
		a.body = nil
		return
	}
	a.body = append(a.body, b...)
}

// finish ends the record of a request whose handler returned, or panicked with p.
func (a *auditedRequest) finish(x *exchange, p any) {
	switch {
	case a == nil || a.rejected:
		return
	case p != nil:
		a.record.Panicked(p)
		return
	}
	if a.keepsBody {
		a.recordBody(x)
	}
	if x.longRunning && x.code >= http.StatusBadRequest {
		a.record.Started() // it has waited for its Status
	}
	a.record.Completed()
}

// recordBody records the response's object, or its Status.
func (a *auditedRequest) recordBody(x *exchange) {
	if a.truncated {
		if a.object {
			a.record.ResponseObject(nil)
		}
		return
	}
	body := a.bodyAsJSON(x.Header().Get("Content-Type"))
	var named struct{ APIVersion, Kind string }
	if json.Unmarshal(body, &named) != nil || named.Kind == "" {
		return // not an API object: text, or /version
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

// bodyAsJSON is the body as JSON, or nil if it cannot be.
func (a *auditedRequest) bodyAsJSON(contentType string) []byte {
	name, _, _ := strings.Cut(contentType, ";")
	switch mediaType(name) {
	case mediaJSON:
		return a.body
	case mediaYAML:
		if data, err := boundedyaml.ToJSON(a.body, max(len(a.body), boundedyaml.Limit)); err == nil {
			return data
		}
	case mediaCBOR:
		if data, err := fromCBOR(a.body, memoryFactor*max(len(a.body), int(a.decoder.maxBody))); err == nil {
			return data
		}
	case mediaProtobuf:
		return a.decoder.jsonFromProtobuf(a.body)
	}
	return nil
}
