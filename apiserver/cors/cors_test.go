package cors_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/apiserver/cors"
)

// api answers every request as an API server does whose client is not known.
func api(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = fmt.Fprint(w, r.Method)
}

func TestOrigins(t *testing.T) {
	h, err := cors.New(http.HandlerFunc(api), `^https://example\.com$`, `//(.+\.)?example\.org(:|$)`)
	if err != nil {
		t.Fatal(err)
	}
	for origin, allowed := range map[string]bool{
		"": false, "https://example.com": true, "http://example.com": false, "https://example.com:8080": false, "https://example.com.evil.net": false, "https://evil-example.com": false,
		"https://example.org": true, "http://a.example.org:8080": true, "https://example.org.evil.net": false, "https://evil.net": false, "null": false,
	} {
		for _, method := range []string{"GET", "DELETE", "OPTIONS"} {
			r := httptest.NewRequest(method, "/api/v1/pods", nil)
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			want := map[string]string{
				"Access-Control-Allow-Origin": origin, "Access-Control-Allow-Methods": "POST, GET, OPTIONS, PUT, DELETE, PATCH", "Access-Control-Expose-Headers": "Date", "Access-Control-Allow-Credentials": "true",
				"Access-Control-Allow-Headers": "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
			}
			for name, value := range want {
				if !allowed {
					value = ""
				}
				if got := answer.Header().Get(name); got != value {
					t.Errorf("%s from %q: %s: %q", method, origin, name, got)
				}
			}
			code, body, cache := http.StatusUnauthorized, method, ""
			if allowed && method == "OPTIONS" {
				code, body, cache = http.StatusNoContent, "", "no-cache, private"
			}
			if answer.Code != code || answer.Body.String() != body || answer.Header().Get("Cache-Control") != cache {
				t.Errorf("%s from %q: %d %q %v", method, origin, answer.Code, answer.Body, answer.Header())
			}
		}
	}
}

// TestNoOrigins: without expressions the browser's question is the API's to answer.
func TestNoOrigins(t *testing.T) {
	h, err := cors.New(http.HandlerFunc(api))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodOptions, "/", nil)
	r.Header.Set("Origin", "https://example.com")
	answer := httptest.NewRecorder()
	if h.ServeHTTP(answer, r); answer.Code != http.StatusUnauthorized || answer.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", answer.Code, answer.Header())
	}
}

func TestBadExpressions(t *testing.T) {
	for text, want := range map[string]string{
		"": "empty", "example.com": "parts of other hosts", "^https://example": "", "//example.com": "parts of other hosts", "example.com$": "parts of other hosts", "^(": "parts of other hosts", "^($": "missing closing",
	} {
		_, err := cors.New(http.NotFoundHandler(), `^https://good$`, text)
		if want == "" && err != nil || want != "" && (!errors.Is(err, cors.ErrOrigin) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The pages of a dashboard may use the API.
func Example() {
	api := http.NotFoundHandler() // an apiserver.Server, for example
	h, err := cors.New(api, `^https://dashboard\.example\.com(:|$)`)
	if err != nil {
		fmt.Println(err)
		return
	}
	question := httptest.NewRequest(http.MethodOptions, "/api/v1/pods", nil)
	question.Header.Set("Origin", "https://dashboard.example.com")
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, question)
	fmt.Println(answer.Code, answer.Header().Get("Access-Control-Allow-Origin"))
	// Output: 204 https://dashboard.example.com
}
