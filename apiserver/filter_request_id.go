package apiserver

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
)

// headerAuditID is the header that names a request, in and out.
const headerAuditID = "Audit-Id"

// filterRequestID gives the request its ID: the client's, if it sent one.
func filterRequestID(x *exchange, r *http.Request) {
	if x.auditID[0] = r.Header.Get(headerAuditID); x.auditID[0] == "" {
		x.auditID[0] = newID()
	}
	h := x.w.Header()
	if len(h[headerAuditID]) == 0 {
		h[headerAuditID] = x.auditID[:]
	}
}

// newID makes a random UUID (RFC 9562, version 4). It need not be secret.
func newID() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[:8], b[:4])
	hex.Encode(text[9:13], b[4:6])
	hex.Encode(text[14:18], b[6:8])
	hex.Encode(text[19:23], b[8:10])
	hex.Encode(text[24:], b[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
