package apiserver

import (
	"context"
	"net/http"
)

// cborFilter lets clients of a server speak CBOR.
type cborFilter struct{ on bool }

// admit marks a request to such a server.
func (f cborFilter) admit(r *http.Request) *http.Request {
	if !f.on {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), speaksCBOR{}, true))
}
