package main

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn/serviceaccount"
	"github.com/keelson-dev/keelson/pki"
)

// TestForeign: the server uses a certificate issued elsewhere, accepts users' certificates of another authority, and
// signs tokens as another issuer.
func TestForeign(t *testing.T) {
	const issuer = "https://tokens.example.com"
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	company, err := pki.New("company")
	if err != nil {
		t.Fatal(err)
	}
	issue := func(s pki.Subject) pki.Pair {
		pair, err := company.Issue(s, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	shown, jane := issue(pki.Subject{Name: "api.example.com", Hosts: []string{"127.0.0.1"}}), issue(pki.Subject{Name: "jane"})
	data := filepath.Join(dir, "data")
	process := started(t, program(t), data, "--storage", "memory", "--service-account-issuer", issuer, "--cors-allowed-origins", "^https://a$,^https://b$",
		"--client-ca-file", write("company.crt", company.PEM()),
		"--tls-cert-file", write("shown.crt", append(shown.Certificate, company.PEM()...)), "--tls-private-key-file", write("shown.key", shown.Key))
	config, api := clients(t, process)
	for path, want := range map[string]string{
		"/flagz": "\ncors-allowed-origins=^https://a$,^https://b$\n", "/statusz": "\nBinary version: 1.37.1\nEmulation version: 1.37\nPaths: /debug /flagz /healthz /livez /metrics /readyz",
	} {
		if text, err := api.Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context()); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v", path, text, err)
		}
	}
	eventually(t, "there is a service account", func() bool {
		_, err := api.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	connection, err := tls.Dial("tcp", strings.TrimPrefix(config.Host, "https://"), &tls.Config{RootCAs: company.Pool(), MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	question := "OPTIONS /api HTTP/1.1\r\nHost: api\r\nOrigin: https://b\r\n\r\n"
	if _, err := io.WriteString(connection, question); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil || answer.StatusCode != http.StatusNoContent || answer.Header.Get("Access-Control-Allow-Origin") != "https://b" {
		t.Errorf("a browser's question: %+v, %v", answer, err)
	}
	if name := connection.ConnectionState().PeerCertificates[0].Subject.CommonName; name != "api.example.com" {
		t.Errorf("the server is %s", name)
	}
	if err := connection.Close(); err != nil {
		t.Error(err)
	}
	as := rest.CopyConfig(config)
	as.CertData, as.KeyData = jane.Certificate, jane.Key
	client, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "jane"`) {
		t.Errorf("whose certificate another authority has signed: %v", err)
	}
	made, err := api.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(made.Status.Token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		Issuer   string   `json:"iss"`
		Audience []string `json:"aud"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Issuer != issuer || len(claims.Audience) != 1 || claims.Audience[0] != issuer {
		t.Errorf("the token says %s, %v", payload, err)
	}
	review, err := api.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: made.Status.Token},
	}, metav1.CreateOptions{})
	if err != nil || review.Status.User.Username != "system:serviceaccount:default:default" {
		t.Errorf("it is %+v, %v", review, err)
	}
	if keys, err := serviceaccount.ReadPublicKeys(filepath.Join(data, "pki", "sa.pub")); err != nil || len(keys) != 1 {
		t.Errorf("by which others verify it: %v, %v", keys, err)
	}
	said, err := api.Discovery().RESTClient().Get().AbsPath("/.well-known/openid-configuration").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(said), `"issuer":"`+issuer+`"`) {
		t.Errorf("it is discovered as %s, %v", said, err)
	}
	roots, err := api.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil || !strings.Contains(roots.Data["client-ca-file"], string(company.PEM())) {
		t.Errorf("published authorities: %v, %v", roots.Data, err)
	}
}
