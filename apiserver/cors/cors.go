// Package cors lets pages of other origins use an API server from a browser, by cross-origin resource sharing
// (https://fetch.spec.whatwg.org/#http-cors-protocol). Which origins may is kube-apiserver's flag --cors-allowed-origins, and
// so are the headers that they get.
package cors

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// ErrOrigin means that an expression for origins is not usable.
var ErrOrigin = errors.New("not an expression for origins")

// Handler answers for other origins what next answers. Make one with New.
type Handler struct {
	next    http.Handler
	origins []*regexp.Regexp
}

// New returns a handler that lets pages read next's answers if an expression matches their origin, such as
// https://example.com:8080. Each has to say where the host begins, by ^ or //, and where it ends, by $ or a colon: otherwise
// it would match other hosts that contain this one, and the error is around ErrOrigin. Browsers ask first, without
// credentials, and get their answer here.
//
// Without expressions no other origin is allowed. The handler is safe for concurrent use.
func New(next http.Handler, origins ...string) (*Handler, error) {
	h := &Handler{next: next}
	for _, text := range origins {
		switch {
		case text == "":
			return nil, fmt.Errorf("%w: it is empty", ErrOrigin)
		case !strings.Contains(text, "^") && !strings.Contains(text, "//") || !strings.ContainsAny(text, "$:"):
			return nil, fmt.Errorf(`%w: %q would match parts of other hosts: write ^https://example\.com$ or //example\.com(:|$)`, ErrOrigin, text)
		}
		e, err := regexp.Compile(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrOrigin, text, err)
		}
		h.origins = append(h.origins, e)
	}
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("Origin")
	if origin == "" || !h.allows(origin) {
		h.next.ServeHTTP(w, r)
		return
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Allow-Methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH")
	header.Set("Access-Control-Allow-Headers", "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since")
	header.Set("Access-Control-Expose-Headers", "Date")
	header.Set("Access-Control-Allow-Credentials", "true")
	if r.Method == http.MethodOptions {
		header.Set("Cache-Control", "no-cache, private")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h.next.ServeHTTP(w, r)
}

func (h *Handler) allows(origin string) bool {
	for _, e := range h.origins {
		if e.MatchString(origin) {
			return true
		}
	}
	return false
}
