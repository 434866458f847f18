package apiserver

import (
	"net/http"

	"github.com/keelson-dev/keelson/apiserver/audit"
)

// auditFilter opens the audit record of a request.
type auditFilter struct {
	log     *audit.Log // nil records nothing
	decoder *decoder
}

// open gives the request a record, before anything is known of it.
func (f *auditFilter) open(x *exchange, r *http.Request) {
	if f.log == nil {
		return
	}
	x.audit = &auditedRequest{record: f.log.Open(), decoder: f.decoder}
	*r = *r.WithContext(audit.NewContext(r.Context(), x.audit.record))
}

// receive records that the request was received and whose it is. It returns false if that failed, which it has answered.
func (*auditFilter) receive(x *exchange, r *http.Request) bool {
	if !x.audit.begin(x, r) {
		return true
	}
	if err := x.audit.record.Received(); err != nil {
		x.audit = nil
		internalError(x, r, err)
		return false
	}
	return true
}
