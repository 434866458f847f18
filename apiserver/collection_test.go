package apiserver_test

import (
	"net/http"
	"testing"
)

// TestRefusedDeleteCollection: a request whose answer cannot be written deletes nothing.
func TestRefusedDeleteCollection(t *testing.T) {
	config := serve(t)
	const path = "/api/v1/namespaces/default/configmaps"
	if code, _, body := do(t, config, "POST", path, "", `{"metadata":{"name":"kept"}}`); code != http.StatusCreated {
		t.Fatalf("create: %d %s", code, body)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	resp, err := config.Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNotAcceptable {
		t.Errorf("an answer in HTML: %d", resp.StatusCode)
	}
	if code, _, body := do(t, config, "GET", path+"/kept", "", ""); code != http.StatusOK {
		t.Errorf("after a refused request: %d %s", code, body)
	}
}
