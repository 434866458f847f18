package openapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// mediaProtobufV2 is the media type of documents of OpenAPI v2 as protobuf messages.
const mediaProtobufV2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

// Foreign serves a document of OpenAPI v2 that was made elsewhere, with the media types, compression and entity tags of
// Documents: JSON, and a protobuf message, which protobuf makes of it when a client first asks. It is safe for concurrent use.
func Foreign(document []byte, protobuf func(document []byte) ([]byte, error)) (http.Handler, error) {
	compressed, err := pack(document)
	if err != nil {
		return nil, err
	}
	sum := sha512.Sum512(document)
	text := &encoded{fmt.Sprintf("%X", sum[:]), time.Now(), compressed, mediaJSON}
	message := sync.OnceValues(func() (*encoded, error) {
		document, err := unpack(text.compressed)
		if err != nil {
			return nil, err
		}
		data, err := protobuf(document)
		if err != nil {
			return nil, err
		}
		packed, err := pack(data)
		return &encoded{text.etag, text.modified, packed, mediaProtobufV2}, err
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		asMessage, ok := accepted(r.Header.Get("Accept"), "v2")
		if !ok {
			w.WriteHeader(http.StatusNotAcceptable)
			return
		}
		e, err := text, error(nil)
		if asMessage {
			e, err = message()
		}
		if err == nil {
			err = e.send(w, r)
		}
		if err != nil {
			http.Error(w, "the OpenAPI document could not be made: "+err.Error(), http.StatusInternalServerError)
		}
	}), nil
}

func pack(data []byte) ([]byte, error) {
	return compress(func(w io.Writer) error { _, err := w.Write(data); return err })
}

func unpack(compressed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
