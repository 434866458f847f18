package apiserver

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/internal/boundedcbor"
)

// CBOR (KEP-4222) is another way to write JSON here, as YAML is: what arrives is converted to JSON, what leaves is made from it.

// speaksCBOR is the key of contexts of requests to a server that speaks CBOR.
type speaksCBOR struct{}

// servesCBOR reports whether a request is to a server that speaks CBOR.
func servesCBOR(r *http.Request) bool { return r.Context().Value(speaksCBOR{}) != nil }

// fromCBOR returns a body as JSON. memory bounds what it takes while it is converted.
func fromCBOR(data []byte, memory int) ([]byte, error) {
	if len(data) == 0 {
		return nil, nil
	}
	document, err := boundedcbor.ToJSON(data, memory)
	switch {
	case errors.Is(err, boundedcbor.ErrTooLarge):
		return nil, apierrors.NewRequestEntityTooLargeError(err.Error())
	case err != nil:
		return nil, apierrors.NewBadRequest("error decoding CBOR: " + err.Error())
	}
	return document, nil
}
