package kubeconfig_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/keelson-dev/keelson/client/kubeconfig"
)

// Credentials of every form reach a server that speaks TLS.
func TestCredentialsOnTheWire(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := r.Header.Get("Authorization")
		if certs := r.TLS.PeerCertificates; len(certs) > 0 {
			who += "x509 " + certs[0].Subject.CommonName
		}
		if as := r.Header.Get("Impersonate-User"); as != "" {
			who += " as " + as
		}
		fmt.Fprint(w, who)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	certificate, key, err := cert.GenerateSelfSignedCertKey("alice", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), "filed\n")
	write(t, filepath.Join(dir, "alice.pem"), string(certificate))
	write(t, filepath.Join(dir, "alice.key"), string(key))
	b64 := base64.StdEncoding.EncodeToString
	for name, test := range map[string]struct{ user, want string }{
		"nothing":    {"{}", ""},
		"a token":    {"{token: t}", "Bearer t"},
		"token file": {"{tokenFile: token}", "Bearer filed"},
		"basic":      {"{username: u, password: p}", "Basic " + b64([]byte("u:p"))},
		"x509 files": {"{client-certificate: alice.pem, client-key: alice.key}", "x509 alice@"},
		"x509 data":  {"{client-certificate-data: " + b64(certificate) + ", client-key-data: " + b64(key) + "}", "x509 alice@"},
		"as another": {"{token: t, as: root}", "Bearer t as root"},
		"exec": {`{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [-c,
  'echo "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"plugged\"}}"']}}`, "Bearer plugged"},
		"oidc": {"{auth-provider: {name: oidc, config: {idp-issuer-url: 'https://issuer', client-id: c, id-token: " + idToken() + "}}}", "Bearer " + idToken()},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, filepath.Join(dir, "config"), `
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "`+server.URL+`", certificate-authority-data: `+b64(ca)+`}}]
users: [{name: u, user: `+test.user+`}]`)
			access, err := kubeconfig.Load(kubeconfig.Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			if got := ask(t, access.Config); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
				t.Errorf("the server saw %q, want %q", got, test.want)
			}
		})
	}
}

// idToken is a token that does not expire before the year 2200. The plugin does not verify it.
func idToken() string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none"}`)) + "." + part([]byte(`{"exp":7258118400}`)) + ".c2ln"
}

func ask(t *testing.T, config *rest.Config) string {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
