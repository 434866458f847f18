package kubeconfig_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"pgregory.net/rapid"

	"github.com/keelson-dev/keelson/client/kubeconfig"
)

// The way to the server is the one that client-go finds with the same files and overrides.
func TestLoadAsClientGo(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), "from a file")
	rapid.Check(t, func(r *rapid.T) {
		var files []string
		for i := range rapid.IntRange(0, 3).Draw(r, "files") {
			files = append(files, write(t, filepath.Join(dir, fmt.Sprint("config", i)), randomFile(r)))
		}
		name := rapid.SampledFrom([]string{"", "", "x", "y"})
		overrides := clientcmd.ConfigOverrides{
			CurrentContext: name.Draw(r, "context"),
			Context:        api.Context{Cluster: name.Draw(r, "cluster"), AuthInfo: name.Draw(r, "user"), Namespace: name.Draw(r, "namespace")},
			ClusterInfo:    api.Cluster{InsecureSkipTLSVerify: rapid.Bool().Draw(r, "insecure"), TLSServerName: name.Draw(r, "server name")},
			AuthInfo:       api.AuthInfo{Token: name.Draw(r, "token"), Impersonate: name.Draw(r, "as")},
		}
		if rapid.Bool().Draw(r, "server") {
			overrides.ClusterInfo.Server = "https://flag"
		}
		options := kubeconfig.Options{
			Environment: kubeconfig.Environment{Kubeconfig: strings.Join(append(files, "/nowhere"), string(filepath.ListSeparator))},
			Overrides:   overrides,
		}
		theirs := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			&clientcmd.ClientConfigLoadingRules{Precedence: append(files, "/nowhere"), Warner: func(error) {}}, &overrides)
		want, wantErr := theirs.ClientConfig()
		got, err := kubeconfig.Load(options)
		if (err == nil) != (wantErr == nil) {
			r.Fatalf("error %v, client-go's %v", err, wantErr)
		}
		if err != nil {
			return
		}
		namespace, explicit, err := theirs.Namespace()
		if err != nil {
			r.Fatal(err)
		}
		want.AuthConfigPersister, got.Config.AuthConfigPersister = nil, nil
		if diff := cmp.Diff(fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", got.Config)); diff != "" {
			r.Error(diff)
		}
		if got.Config.BearerToken != want.BearerToken { // not printed
			r.Errorf("token %q, want %q", got.Config.BearerToken, want.BearerToken)
		}
		if got.Namespace != namespace || got.Explicit != explicit {
			r.Errorf("namespace %q %v, want %q %v", got.Namespace, got.Explicit, namespace, explicit)
		}
	})
}

// randomFile is a kubeconfig in which few names stand for clusters, users and contexts, some of
// which are missing.
func randomFile(r *rapid.T) string {
	var b strings.Builder
	name := rapid.SampledFrom([]string{"x", "y"})
	if rapid.Bool().Draw(r, "has current") {
		fmt.Fprintf(&b, "current-context: %s\n", name.Draw(r, "current"))
	}
	section := func(kind string, entry func() string) {
		fmt.Fprintf(&b, "%ss:\n", kind)
		for _, n := range []string{"x", "y"} {
			if rapid.Bool().Draw(r, kind+" "+n) {
				fmt.Fprintf(&b, "- {name: %s, %s: {%s}}\n", n, kind, entry())
			}
		}
	}
	section("cluster", func() string {
		return rapid.SampledFrom([]string{
			`server: "https://one:1/path?query"`, `server: "http://two"`, `server: "https://three", tls-server-name: s`,
			`server: "https://four", insecure-skip-tls-verify: true`, `insecure-skip-tls-verify: true`, `server: three`,
			`server: "https://five", proxy-url: "http://proxy"`,
		}).Draw(r, "cluster")
	})
	section("user", func() string {
		return rapid.SampledFrom([]string{
			``, `token: t`, `tokenFile: token`, `token: t, tokenFile: token`, `username: u, password: p`, `username: u, token: t`,
			`as: root, as-groups: [g]`, `as-groups: [g]`, `token: t, as: root, as-uid: "1"`,
			`exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, interactiveMode: Never}`,
			`auth-provider: {name: oidc, config: {id-token: t}}`,
		}).Draw(r, "user")
	})
	section("context", func() string {
		return fmt.Sprintf("cluster: %s, user: %s, namespace: %s", name.Draw(r, "its cluster"), name.Draw(r, "its user"),
			rapid.SampledFrom([]string{"", "shop"}).Draw(r, "its namespace"))
	})
	return b.String()
}
