package apiserver

import (
	"bytes"
	"io"
	"mime"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
)

// bodyToJSON makes a body in CBOR one in JSON, when it is read.
func (d *decoder) bodyToJSON(r *http.Request) {
	name, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // what is malformed is refused later
	var as string
	switch name {
	case string(mediaCBOR):
		as = string(mediaJSON)
	case string(types.ApplyCBORPatchType):
		as = string(types.ApplyYAMLPatchType)
	}
	if as == "" || r.Body == nil || !servesCBOR(r) {
		return
	}
	r.Header = r.Header.Clone()
	r.Header.Set("Content-Type", as)
	r.Body = &cborBody{ReadCloser: r.Body, decoder: d}
}

// cborBody is a body in CBOR that is read as JSON.
type cborBody struct {
	io.ReadCloser
	decoder *decoder
	json    *bytes.Reader // nil before the first Read
	failure error
}

// Read implements io.Reader.
func (b *cborBody) Read(p []byte) (int, error) {
	if b.json == nil && b.failure == nil {
		b.convert()
	}
	if b.failure != nil {
		return 0, b.failure
	}
	return b.json.Read(p)
}

func (b *cborBody) convert() {
	limit := b.decoder.maxBody
	data, err := io.ReadAll(io.LimitReader(b.ReadCloser, limit+1))
	if err != nil {
		b.failure = err
		return
	}
	if int64(len(data)) > limit {
		b.failure = bodyTooLarge(limit)
		return
	}
	document, err := fromCBOR(data, memoryFactor*int(limit))
	if err != nil {
		b.failure = err
		return
	}
	b.json = bytes.NewReader(document)
}
