package volume_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clientgo "k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

// TestTokensOf checks the request for a token.
func TestTokensOf(t *testing.T) {
	expires := metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var got authenticationv1.TokenRequest
		if err := json.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/ns/serviceaccounts/builder/token" ||
			got.APIVersion != "authentication.k8s.io/v1" || got.Kind != "TokenRequest" || got.Spec.BoundObjectRef.UID != "uid" || *got.Spec.ExpirationSeconds != 600 {
			t.Errorf("%s %s %s", r.Method, r.URL, body)
		}
		got.Status = authenticationv1.TokenRequestStatus{Token: "secret", ExpirationTimestamp: expires}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(got)
	}))
	defer server.Close()
	c, err := rest.New(&clientgo.Config{Host: server.URL}, scheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	status, err := volume.TokensOf(c).Token(t.Context(), "ns", "builder", authenticationv1.TokenRequestSpec{
		ExpirationSeconds: new(int64(600)), BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "p", UID: "uid"},
	})
	if err != nil || status.Token != "secret" || !status.ExpirationTimestamp.Equal(&expires) {
		t.Errorf("%+v, %v", status, err)
	}
	server.Close()
	if _, err := volume.TokensOf(c).Token(t.Context(), "ns", "builder", authenticationv1.TokenRequestSpec{}); err == nil {
		t.Error("a token without a server")
	}
}
