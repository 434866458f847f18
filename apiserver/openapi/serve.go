package openapi

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
)

func (d *Documents) serveIndex(w http.ResponseWriter, r *http.Request) {
	index, err := d.edition().index()
	if err != nil {
		d.fail(w, r, err)
		return
	}
	d.send(w, r, index)
}

func (d *Documents) serveV2(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	protobuf, ok := accepted(r.Header.Get("Accept"), "v2")
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	e, err := d.getV2(d.edition().v2, protobuf)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	d.send(w, r, e)
}

func (d *Documents) serveV3(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/openapi/v3/")
	doc, ok := d.edition().v3[key]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Add("Vary", "Accept")
	protobuf, ok := accepted(r.Header.Get("Accept"), "v3")
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	e, err := d.get(doc, protobuf)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != e.etag {
			w.Header().Set("Content-Type", e.media)
			w.Header().Set("Etag", strconv.Quote(e.etag))
			http.Redirect(w, r, location(key, e.etag), http.StatusMovedPermanently)
			return
		}
		// Under the URL with this hash, nothing else will ever be found.
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
	}
	d.send(w, r, e)
}

// send answers with a document.
func (d *Documents) send(w http.ResponseWriter, r *http.Request, e *encoded) {
	if err := e.send(w, r); err != nil {
		d.fail(w, r, err)
	}
}

// send answers with the document, compressed if the client takes that.
func (e *encoded) send(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", e.media)
	w.Header().Set("Etag", strconv.Quote(e.etag))
	w.Header().Add("Vary", "Accept-Encoding")
	body := e.compressed
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		w.Header().Set("Content-Encoding", "gzip")
	} else {
		var err error
		if body, err = unpack(body); err != nil {
			return err
		}
	}
	http.ServeContent(w, r, "", e.modified, bytes.NewReader(body))
	return nil
}

func (d *Documents) fail(w http.ResponseWriter, r *http.Request, err error) {
	d.log.Error("OpenAPI document could not be made", "path", r.URL.Path, "error", err)
	http.Error(w, "the OpenAPI document could not be made: "+err.Error(), http.StatusInternalServerError)
}

// accepted picks an encoding by an Accept header. The name of the protobuf type with an @ is the
// one that older clients know.
func accepted(header, version string) (protobuf, ok bool) {
	if header == "" {
		return false, true
	}
	for _, c := range goautoneg.ParseAccept(header) {
		name := "com.github.proto-openapi.spec." + version
		switch {
		case c.Type != "application" && c.Type != "*":
		case c.SubType == "json", c.SubType == "*":
			return false, true
		case c.SubType == name+".v1.0+protobuf", c.SubType == name+"@v1.0+protobuf":
			return true, true
		}
	}
	return false, false
}

// acceptsGzip reads an Accept-Encoding header.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(part, ";")
		if name = strings.ToLower(strings.TrimSpace(name)); name != "gzip" && name != "*" {
			continue
		}
		q, ok := strings.CutPrefix(strings.TrimSpace(params), "q=")
		quality, err := strconv.ParseFloat(q, 64)
		return !ok || err != nil || quality > 0
	}
	return false
}
