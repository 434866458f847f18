package extender

import (
	"net/http"
	"time"
)

// Limits are how long a question, a handshake and a connection that is not in use may last.
func (e *Extender) Limits() (question, handshake, idle time.Duration) {
	t, _ := e.http.Transport.(*http.Transport)
	return e.http.Timeout, t.TLSHandshakeTimeout, t.IdleConnTimeout
}
