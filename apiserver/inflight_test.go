package apiserver_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/keelson-dev/keelson/apiserver"
)

// TestLimits: as many requests as allowed are served at once, readers and writers apart.
func TestLimits(t *testing.T) {
	tests := []struct {
		name            string
		options         apiserver.Options
		readOnly, write int // of 600 at once, how many are let in
	}{
		{"standard", apiserver.Options{}, 400, 200},
		{"chosen", apiserver.Options{MaxInFlight: 3, MaxMutatingInFlight: 2}, 3, 2},
		{"none", apiserver.Options{MaxInFlight: -1, MaxMutatingInFlight: -1}, 600, 600},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				test.options.Paths = map[string]http.Handler{"/hold": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })}
				s := newServer(t, test.options)
				var clients sync.WaitGroup
				var mu sync.Mutex
				codes := map[string]map[int]int{"GET": {}, "POST": {}}
				for method := range codes {
					for range 600 {
						clients.Go(func() {
							w := call(s, "ann", method, "/hold")
							mu.Lock()
							defer mu.Unlock()
							codes[method][w.Code]++
						})
					}
				}
				synctest.Wait()
				mu.Lock()
				if codes["GET"][429] != 600-test.readOnly || codes["POST"][429] != 600-test.write {
					t.Errorf("refused: %v", codes)
				}
				mu.Unlock()
				full(t, s, test.readOnly < 600)
				close(release)
				clients.Wait()
				if codes["GET"][200] != test.readOnly || codes["POST"][200] != test.write {
					t.Errorf("in the end: %v", codes)
				}
				if w := call(s, "ann", "GET", "/hold"); w.Code != 200 {
					t.Errorf("afterwards: %d", w.Code)
				}
			})
		})
	}
}

// full asks while all seats are taken: in upstream's words nobody is let in, but for masters,
// requests of this process and long-running ones.
func full(t *testing.T, s *apiserver.Server, full bool) {
	t.Helper()
	if w := call(s, "ann", "GET", "/version"); full && (w.Code != 429 || w.Header().Get("Retry-After") != "1" || w.Body.String() != "Too many requests, please try again later.\n") {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	if w := call(s, "root", "GET", "/version"); w.Code != 200 {
		t.Errorf("a master: %d", w.Code)
	}
	if w := call(s, "ann", "GET", "/debug/pprof/nothing"); w.Code != 404 {
		t.Errorf("a long-running request: %d", w.Code)
	}
	transport := apiserver.NewTransport(s, nil)
	defer transport.Close()
	r := httptest.NewRequest(http.MethodGet, "http://keelson/version", nil)
	r.Header.Set("Authorization", "Bearer ann")
	if resp, err := transport.RoundTrip(r); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("in process: %v %v", resp, err)
	}
}
