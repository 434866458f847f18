package apiserver_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
)

// TestAnonymousHTTP2: connections of who has not authenticated are not kept.
func TestAnonymousHTTP2(t *testing.T) {
	s := newServer(t, apiserver.Options{
		Authenticator: authn.AnonymousFallback(token.New(token.Static(map[string]*authn.Identity{"ann": {Name: "ann"}}))),
		Paths:         map[string]http.Handler{"/": nil, "/ok": says("ok")},
	})
	for who, want := range map[string]string{"": "close", "wrong": "close", "ann": ""} {
		r := from(who, "GET", "/ok")
		r.ProtoMajor = 2
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if got := w.Header().Get("Connection"); got != want {
			t.Errorf("%q: Connection %q, want %q", who, got, want)
		}
	}
}
