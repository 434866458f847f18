package inprocess_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/authntest"
	"github.com/keelson-dev/keelson/authn/inprocess"
)

func TestContract(t *testing.T) {
	scheduler := authn.Identity{Name: "system:kube-scheduler"}
	plain := httptest.NewRequest(http.MethodGet, "/", nil)
	stage := plain.WithContext(authn.NewContext(t.Context(), &scheduler))
	header := plain.Clone(t.Context())
	header.Header.Set("Authorization", "Bearer system:kube-scheduler")
	authntest.Run(t, inprocess.New(), authntest.Samples{
		Good:    []authntest.Sample{{Request: plain.WithContext(inprocess.Attach(t.Context(), &scheduler)), Want: scheduler}},
		Foreign: []*http.Request{stage, header, plain.WithContext(inprocess.Attach(t.Context(), nil))},
	})
}

// What a client puts into its own context stays on its side of a connection.
func TestDoesNotTravel(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := inprocess.New().Authenticate(r); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	ctx := inprocess.Attach(t.Context(), &authn.Identity{Name: "mallory", Groups: []string{authn.GroupMasters}})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d, want 401", response.StatusCode)
	}
}
