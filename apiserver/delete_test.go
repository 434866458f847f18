package apiserver_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/apiserver"
)

// TestDeleteCollectionEnds: the deletion of a collection stops when its client is gone.
func TestDeleteCollectionEnds(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	judged := 0
	config := serveWith(t, apiserver.Options{Admission: admission.Chain{
		admission.ValidatorFunc("Leave", func(context.Context, *admission.Request) error {
			judged++
			leave()
			return nil
		}, admission.Delete),
	}})
	for _, name := range []string{"a", "b", "c"} {
		createMap(t, config, name)
	}
	r, err := http.NewRequestWithContext(gone, http.MethodDelete, config.Host+configMaps, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := config.Transport.RoundTrip(r); err == nil {
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Errorf("answered with %s", resp.Status)
		}
	}
	if judged != 1 {
		t.Errorf("%d deletions, want 1", judged)
	}
}

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
