package serving_test

import (
	"errors"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"weak"

	"github.com/keelson-dev/keelson/apiserver/serving"
)

// TestRequest: handlers see of a request over HTTP/2 all that net/http tells them.
func TestRequest(t *testing.T) {
	check := func(r *http.Request) error {
		address, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		switch _, server := r.Context().Value(http.ServerContextKey).(*http.Server); {
		case r.Proto != "HTTP/2.0" || r.RequestURI != "/a?b=c" || r.URL.Path != "/a" || r.URL.RawQuery != "b=c":
			return errors.New("not what was asked for: " + r.Proto + " " + r.RequestURI)
		case r.Header.Get("X-One") != "1" || r.TLS == nil || r.Body == nil || r.RemoteAddr == "" || r.Host == "":
			return errors.New("something is missing")
		case !ok || !server || r.Host != address.String():
			return errors.New("the context does not know the connection")
		}
		return nil
	}
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
			_, _ = io.WriteString(w, r.FormValue("name")) //nolint:gosec // a test's own form
			return
		}
		_, _ = io.Copy(w, r.Body)
	}), serving.Options{})
	form := &strings.Builder{}
	fields := multipart.NewWriter(form)
	if err := errors.Join(fields.WriteField("name", "value"), fields.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, contentType, body, want string }{
		{http.MethodGet, "", "", ""},
		{http.MethodPost, "text/plain", "some text", "some text"},
		{http.MethodPost, fields.FormDataContentType(), form.String(), "value"},
	} {
		q, err := http.NewRequestWithContext(t.Context(), c.method, r.url+"/a?b=c", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("X-One", "1")
		q.Header.Set("Content-Type", c.contentType)
		resp, err := r.client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || string(got) != c.want {
			t.Errorf("%s %s: %s %q, %v, want %q", c.method, c.contentType, resp.Status, got, err, c.want)
		}
	}
}

// TestLean: what a handler no longer needs of its request is free while it goes on, and its goroutine's stack does
// not begin with net/http's largest frame. Should that change with Go's version, watches cost more.
func TestLean(t *testing.T) {
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stack := string(debug.Stack())
		request, url := weak.Make(r), weak.Make(r.URL)
		for range 3 {
			runtime.GC()
		}
		switch {
		case strings.Contains(stack, "initALPNRequest"):
			http.Error(w, stack, http.StatusInternalServerError)
		case request.Value() != nil || url.Value() != nil:
			http.Error(w, "the request is still there", http.StatusInternalServerError)
		}
	}), serving.Options{})
	resp := r.get(t, "/")
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, %v", resp.Status, body, err)
	}
}
