package kubeconfig_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/keelson-dev/keelson/client/kubeconfig"
)

const secret = "S3CRET"

// kept finds secrets where they belong: in fields that nobody prints.
var kept = regexp.MustCompile(`"?(token|password|client-key-data|client-secret)"?: *["']?` + secret + `|"?proxy-url"?: *["']?[a-z]+://\w+:` + secret)

// FuzzLoad: a file leads where it leads client-go, or to an error that names the file and tells none of its secrets; and a file that was
// loaded can be added to without a change to what was in it.
func FuzzLoad(f *testing.F) {
	const rest = "\ncontexts: [{name: x, context: {cluster: x, user: x, namespace: web}}]\ncurrent-context: x\n"
	for _, seed := range []string{
		firstFile, secondFile, "", "{}", "null", "[]", "current-context: x", "\x00", "a: &a [*a]", "kind: Pod\napiVersion: v1",
		"clusters: [{name: x, cluster: {server: 'https://x:1'}}]\nusers: [{name: x, user: {token: S3CRET}}]" + rest,
		"clusters: [{name: x, cluster: {server: 'https://x:1', proxy-url: 'http://u:S3CRET@x y'}}]" + rest,
		"clusters: [{name: x, cluster: {server: 'https://x:1', proxy-url: 'http://u:S3CRET@proxy:3128'}}]" + rest,
		"clusters: [{name: x, cluster: {server: 'https://x:1', certificate-authority-data: '!'}}]" + rest,
		"clusters: [{name: x, cluster: {server: 'https://x:1', certificate-authority-data: YQ==, insecure-skip-tls-verify: true}}]" + rest,
		"clusters: [{name: x, cluster: {server: 'x:1'}}]\nusers: [{name: x, user: {username: a, password: S3CRET, token: S3CRET}}]" + rest,
		"clusters: [{name: x, cluster: {server: 'https://x:1'}}]\nusers: [{name: x, user: {client-certificate-data: YQ==, client-key-data: S3CRET}}]" + rest,
		"clusters: [{name: x, cluster: {server: 'https://x:1'}}]\nusers: [{name: x, user: {exec: {command: a, apiVersion: b}, token: S3CRET}}]" + rest,
		"clusters: [{name: x, cluster: {server: 'https://x:1'}}]\nusers: [{name: x, user: {auth-provider: {name: oidc, config: {client-secret: S3CRET}}}}]" + rest,
		"clusters: {name: x}\nusers: [{name: x, user: {token: S3CRET}}]", `{"users":[{"name":"x","user":{"token":"S3CRET}]}`,
		"clusters: [{name: x, cluster: {server: '://', tls-server-name: y}}, {name: x, cluster: {server: 'https://y'}}]" + rest,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "config")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := kubeconfig.Load(kubeconfig.Options{Path: path})
		if err != nil {
			if !errors.Is(err, kubeconfig.ErrNoServer) && !strings.Contains(err.Error(), path) && !strings.Contains(err.Error(), "cluster ") && !strings.Contains(err.Error(), "user ") {
				t.Errorf("the error does not say where: %v", err)
			}
			if len(kept.FindAll(data, -1)) == strings.Count(string(data), secret) && strings.Contains(err.Error(), secret) {
				t.Errorf("the error tells a secret: %v", err)
			}
			return
		}
		theirs := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, &clientcmd.ConfigOverrides{})
		want, err := theirs.ClientConfig()
		if err != nil {
			t.Fatalf("client-go refuses it: %v", err)
		}
		namespace, _, err := theirs.Namespace()
		if err != nil || got.Namespace != namespace {
			t.Errorf("namespace %q, client-go's %q, %v", got.Namespace, namespace, err)
		}
		want.AuthConfigPersister, got.Config.AuthConfigPersister = nil, nil
		if diff := cmp.Diff(fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", got.Config)); diff != "" || want.BearerToken != got.Config.BearerToken || want.Password != got.Config.Password {
			t.Error(diff)
		}
		added(t, path)
	})
}

// added adds an entry and holds that nothing else has changed.
func added(t *testing.T, path string) {
	t.Helper()
	const name = "an entry of its own"
	before, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := kubeconfig.Add(t.Context(), path, kubeconfig.Entry{Name: name, Server: "https://new:1", Token: secret}); err != nil {
		t.Fatalf("Add: %v", err)
	}
	after, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatalf("after Add: %v", err)
	}
	if after.CurrentContext != name || after.Clusters[name].Server != "https://new:1" || after.AuthInfos[name].Token != secret || after.Contexts[name].Cluster != name {
		t.Errorf("after Add: %v", after.CurrentContext)
	}
	for _, c := range []*api.Config{before, after} {
		delete(c.Clusters, name)
		delete(c.AuthInfos, name)
		delete(c.Contexts, name)
	}
	after.CurrentContext = before.CurrentContext
	old, err := clientcmd.Write(*before)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := clientcmd.Write(*after)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(old), string(kept)); diff != "" {
		t.Errorf("Add changed what was there: %s", diff)
	}
}
