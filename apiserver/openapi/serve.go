package openapi

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (d *Documents) serveIndex(w http.ResponseWriter, r *http.Request) {
	index, err := d.index()
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
	e, err := d.get(d.v2, protobuf)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	d.send(w, r, e)
}

func (d *Documents) serveV3(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/openapi/v3/")
	doc, ok := d.v3[key]
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

// send answers with a document, compressed if the client takes that.
func (d *Documents) send(w http.ResponseWriter, r *http.Request, e *encoded) {
	w.Header().Set("Content-Type", e.media)
	w.Header().Set("Etag", strconv.Quote(e.etag))
	w.Header().Add("Vary", "Accept-Encoding")
	body := e.compressed
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		w.Header().Set("Content-Encoding", "gzip")
	} else {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			d.fail(w, r, err)
			return
		}
		if body, err = io.ReadAll(z); err != nil {
			d.fail(w, r, err)
			return
		}
	}
	http.ServeContent(w, r, "", e.modified, bytes.NewReader(body))
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
	for _, c := range clauses(header) {
		switch c.name {
		case mediaJSON, "*/*", "application/*":
			return false, true
		case "application/com.github.proto-openapi.spec." + version + ".v1.0+protobuf",
			"application/com.github.proto-openapi.spec." + version + "@v1.0+protobuf":
			return true, true
		}
	}
	return false, false
}

func acceptsGzip(header string) bool {
	return slices.ContainsFunc(clauses(header), func(c clause) bool {
		return (c.name == "gzip" || c.name == "*") && c.quality > 0
	})
}

// clause is one of the choices of a header such as Accept.
type clause struct {
	name    string
	quality float64
}

// clauses reads such a header, the most wanted first and wildcards after what is as much wanted.
// It does not use package mime, to which an @ is malformed.
func clauses(header string) []clause {
	var all []clause
	for part := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(part, ";")
		c := clause{name: strings.ToLower(strings.TrimSpace(name)), quality: 1}
		for p := range strings.SplitSeq(params, ";") {
			if q, ok := strings.CutPrefix(strings.TrimSpace(p), "q="); ok {
				if f, err := strconv.ParseFloat(q, 64); err == nil {
					c.quality = f
				}
			}
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b clause) int {
		return cmp.Or(cmp.Compare(b.quality, a.quality), cmp.Compare(strings.Count(a.name, "*"), strings.Count(b.name, "*")))
	})
	return all
}
