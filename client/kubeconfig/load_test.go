package kubeconfig_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/keelson-dev/keelson/client/kubeconfig"
)

// Two files that share names: the first to hold a name wins, whole.
const firstFile = `
current-context: dev
clusters:
- {name: dev, cluster: {server: "https://dev:1", tls-server-name: dev.local}}
users:
- {name: alice, user: {token: a1}}
contexts:
- {name: dev, context: {cluster: dev, user: alice, namespace: web}}
- {name: far, context: {cluster: prod, user: bob}}
- {name: nobody, context: {cluster: dev, user: gone}}
- {name: lost, context: {cluster: gone, user: alice}}
`

const secondFile = `
current-context: prod
clusters:
- {name: dev, cluster: {server: "https://other:1", insecure-skip-tls-verify: true}}
- {name: prod, cluster: {server: "https://prod:1"}}
users:
- {name: alice, user: {token: a2, as: root}}
- {name: bob, user: {tokenFile: bob.token}}
- {name: carol, user: {username: carol, password: pw}}
contexts:
- {name: prod, context: {cluster: prod, user: bob, namespace: shop}}
`

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// world is a home with ~/.kube/config and two more files.
func world(t *testing.T) (home, first, second string) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "home", ".kube", "config"),
		`{current-context: home, clusters: [{name: home, cluster: {server: "https://home:1"}}], contexts: [{name: home, context: {cluster: home, user: ""}}]}`)
	write(t, filepath.Join(dir, "bob.token"), "bob's")
	return filepath.Join(dir, "home"), write(t, filepath.Join(dir, "first"), firstFile), write(t, filepath.Join(dir, "second"), secondFile)
}

func TestLoadPrecedence(t *testing.T) {
	home, first, second := world(t)
	list := func(files ...string) string { return strings.Join(files, string(os.PathListSeparator)) }
	for name, test := range map[string]struct {
		options               kubeconfig.Options
		host, token, password string
		namespace             string
		explicit              bool
	}{
		"the home directory": {
			options: kubeconfig.Options{Environment: kubeconfig.Environment{Home: home}},
			host:    "https://home:1", namespace: "default",
		},
		"KUBECONFIG before home, the first file first": {
			options: kubeconfig.Options{Environment: kubeconfig.Environment{Home: home, Kubeconfig: list("", first, second, first)}},
			host:    "https://dev:1", token: "a1", namespace: "web",
		},
		"the other way round": {
			options: kubeconfig.Options{Environment: kubeconfig.Environment{Home: home, Kubeconfig: list(second, first)}},
			host:    "https://prod:1", token: "bob's", namespace: "shop",
		},
		"missing files are passed over": {
			options: kubeconfig.Options{Environment: kubeconfig.Environment{Kubeconfig: list("/nowhere", second)}},
			host:    "https://prod:1", token: "bob's", namespace: "shop",
		},
		"an explicit path before all": {
			options: kubeconfig.Options{Path: second, Environment: kubeconfig.Environment{Home: home, Kubeconfig: first}},
			host:    "https://prod:1", token: "bob's", namespace: "shop",
		},
		"a context across files": {
			options: kubeconfig.Options{
				Environment: kubeconfig.Environment{Kubeconfig: list(first, second)},
				Overrides:   clientcmd.ConfigOverrides{CurrentContext: "far"},
			},
			host: "https://prod:1", token: "bob's", namespace: "default",
		},
		"a user that is not there is anonymous": {
			options: kubeconfig.Options{Path: first, Overrides: clientcmd.ConfigOverrides{CurrentContext: "nobody"}},
			host:    "https://dev:1", namespace: "default",
		},
		"overrides win": {
			options: kubeconfig.Options{
				Environment: kubeconfig.Environment{Kubeconfig: list(first, second)},
				Overrides: clientcmd.ConfigOverrides{
					ClusterInfo: api.Cluster{Server: "https://flag:1"},
					AuthInfo:    api.AuthInfo{Token: "flag"},
					Context:     api.Context{Namespace: "flagged", AuthInfo: "bob"},
				},
			},
			host: "https://flag:1", token: "flag", namespace: "flagged", explicit: true,
		},
		"overrides alone": {
			options: kubeconfig.Options{Overrides: clientcmd.ConfigOverrides{
				ClusterInfo: api.Cluster{Server: "https://flag:1"}, AuthInfo: api.AuthInfo{Username: "u", Password: "p"},
			}},
			host: "https://flag:1", password: "p", namespace: "default",
		},
		"no credentials in the open": {
			options: kubeconfig.Options{Path: first, Overrides: clientcmd.ConfigOverrides{ClusterInfo: api.Cluster{Server: "http://plain"}}},
			host:    "http://plain", namespace: "web",
		},
		"basic auth": {
			options: kubeconfig.Options{
				Environment: kubeconfig.Environment{Kubeconfig: list(first, second)},
				Overrides:   clientcmd.ConfigOverrides{Context: api.Context{AuthInfo: "carol"}},
			},
			host: "https://dev:1", password: "pw", namespace: "web",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := kubeconfig.Load(test.options)
			if err != nil {
				t.Fatal(err)
			}
			if c := got.Config; c.Host != test.host || c.BearerToken != test.token || c.Password != test.password {
				t.Errorf("host %q, token %q, password %q", c.Host, c.BearerToken, c.Password)
			}
			if got.Namespace != test.namespace || got.Explicit != test.explicit {
				t.Errorf("namespace %q, explicit %v", got.Namespace, got.Explicit)
			}
		})
	}
}

func TestLoadImpersonationAndTimeout(t *testing.T) {
	_, first, _ := world(t)
	got, err := kubeconfig.Load(kubeconfig.Options{Path: first, Overrides: clientcmd.ConfigOverrides{
		AuthInfo: api.AuthInfo{Impersonate: "eve", ImpersonateGroups: []string{"ops"}},
		Timeout:  "3s", ClusterInfo: api.Cluster{InsecureSkipTLSVerify: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if c := got.Config; c.Impersonate.UserName != "eve" || !slices.Equal(c.Impersonate.Groups, []string{"ops"}) || c.Timeout != 3*time.Second || !c.Insecure || c.ServerName != "dev.local" {
		t.Errorf("%+v, timeout %v, insecure %v, server name %q", c.Impersonate, c.Timeout, c.Insecure, c.ServerName)
	}
}

func TestLoadWarnsOfNothing(t *testing.T) {
	var warned []error
	_, err := kubeconfig.Load(kubeconfig.Options{
		Environment: kubeconfig.Environment{Kubeconfig: "/nowhere"}, Warn: func(err error) { warned = append(warned, err) },
	})
	if !errors.Is(err, kubeconfig.ErrNoServer) || len(warned) != 1 || warned[0].Error() != "Config not found: /nowhere" {
		t.Errorf("%v, warnings %v", err, warned)
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	pem, key, err := cert.GenerateSelfSignedCertKey("server", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, otherKey, err := cert.GenerateSelfSignedCertKey("server", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "cert.pem"), string(pem))
	write(t, filepath.Join(dir, "key.pem"), string(key))
	write(t, filepath.Join(dir, "other.pem"), string(otherKey))
	write(t, filepath.Join(dir, "junk.pem"), "s3cr3t")
	one := func(cluster, user string) string {
		return `{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], clusters: [{name: k, cluster: {` + cluster +
			`}}], users: [{name: u, user: {` + user + `}}]}`
	}
	const server = `server: "https://s:1"`
	for name, test := range map[string]struct {
		file      string
		overrides clientcmd.ConfigOverrides
		want      string // FILE stands for its path, DIR for its directory
	}{
		"syntax":           {file: "a: b: s3cr3t", want: "kubeconfig FILE: yaml: mapping values are not allowed in this context"},
		"aliases":          {file: "a: &a " + strings.Repeat("x", 1<<17) + "\nb: [" + strings.Repeat("*a, ", 1<<15) + "]\n", want: "kubeconfig FILE: YAML is too large: its aliases expand to more than 3145728 bytes"},
		"another kind":     {file: "{apiVersion: v1, kind: Pod}", want: `kubeconfig FILE: no kind "Pod" is registered for version "v1"`},
		"empty":            {want: "no API server is configured in FILE: write the file, or name another one or a server"},
		"no current":       {file: `{contexts: [{name: c, context: {}}]}`, want: "FILE sets no current-context: choose one of c"},
		"unknown context":  {file: firstFile, overrides: clientcmd.ConfigOverrides{CurrentContext: "x"}, want: `context "x" not found in FILE: choose one of dev, far, lost, nobody`},
		"unknown current":  {file: "current-context: x", want: `current-context "x" not found in FILE: there is none`},
		"unknown user":     {file: firstFile, overrides: clientcmd.ConfigOverrides{Context: api.Context{AuthInfo: "x"}}, want: `user "x" not found in FILE: choose one of alice`},
		"unknown cluster":  {file: firstFile, overrides: clientcmd.ConfigOverrides{Context: api.Context{Cluster: "x"}}, want: `cluster "x" not found in FILE: choose one of dev`},
		"cluster lost":     {file: firstFile, overrides: clientcmd.ConfigOverrides{CurrentContext: "lost"}, want: `context "lost" in FILE: cluster "gone" not found in FILE: choose one of dev`},
		"no server":        {file: one("insecure-skip-tls-verify: true", ""), want: `kubeconfig FILE: context "c": invalid configuration: no server found for cluster "k"`},
		"base64 of a CA":   {file: one(server+", certificate-authority-data: s3cr3t", ""), want: `kubeconfig FILE: cluster "k": certificate-authority-data: illegal base64 data at input byte 4: it takes the base64 of a PEM file; certificate-authority takes a path`},
		"base64 of a key":  {file: one(server, "client-key-data: s3cr3t"), want: `kubeconfig FILE: user "u": client-key-data: illegal base64 data`},
		"no CA file":       {file: one(server+", certificate-authority: no.pem", ""), want: `kubeconfig FILE: context "c": invalid configuration: unable to read certificate-authority DIR/no.pem for k due to open DIR/no.pem: no such file`},
		"CA is junk":       {file: one(server+", certificate-authority: junk.pem", ""), want: `cluster "k" in FILE: certificate-authority DIR/junk.pem: data does not contain any valid RSA or ECDSA certificates: want the PEM`},
		"CA data is junk":  {file: one(server+", certificate-authority-data: czNjcjN0", ""), want: `cluster "k" in FILE: certificate-authority-data: data does not contain`},
		"CA and insecure":  {file: one(server+", certificate-authority: cert.pem, insecure-skip-tls-verify: true", ""), want: `cluster "k" in FILE: insecure-skip-tls-verify and a certificate-authority exclude each other`},
		"junk certificate": {file: one(server, "client-certificate: junk.pem, client-key: key.pem"), want: `user "u" in FILE: client-certificate DIR/junk.pem and client-key DIR/key.pem: tls: failed to find any PEM data in certificate input`},
		"another's key":    {file: one(server, "client-certificate: cert.pem, client-key: other.pem"), want: `tls: private key does not match public key`},
		"no key":           {file: one(server, "client-certificate: cert.pem"), want: "client-key-data or client-key must be specified for u"},
		"no token file":    {file: one(server, "tokenFile: no.token"), want: `kubeconfig FILE: context "c": open DIR/no.token: no such file`},
		"two methods":      {file: one(server, "token: s3cr3t, username: u, password: s3cr3t"), want: "more than one authentication method found for u; found [token basicAuth]"},
		"proxy":            {file: one(server+`, proxy-url: "http://u:s3cr3t@[x"`, ""), want: `kubeconfig FILE: cluster "k": proxy-url is not a URL`},
		"exec":             {file: one(server, "exec: {apiVersion: client.authentication.k8s.io/v1}"), want: "command must be specified for u to use exec authentication plugin"},
		"a namespace":      {file: firstFile, overrides: clientcmd.ConfigOverrides{Timeout: "soon"}, want: `Invalid timeout value`},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, filepath.Join(dir, "config"), test.file)
			_, err := kubeconfig.Load(kubeconfig.Options{Path: path, Overrides: test.overrides})
			if err == nil {
				t.Fatal("no error")
			}
			want := strings.NewReplacer("FILE", path, "DIR", dir).Replace(test.want)
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q,\nwant %q in it", err, want)
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("a secret in %q", err)
			}
		})
	}
}

func TestLoadSentinels(t *testing.T) {
	_, first, _ := world(t)
	for name, test := range map[string]struct {
		options kubeconfig.Options
		want    error
		text    string
	}{
		"nothing known": {want: kubeconfig.ErrNoServer, text: "no home directory is known"},
		"missing file":  {options: kubeconfig.Options{Path: "/no/where"}, want: fs.ErrNotExist, text: "kubeconfig /no/where does not exist"},
		"a directory":   {options: kubeconfig.Options{Path: "/"}, want: nil, text: "kubeconfig: read /: is a directory"},
		"context":       {options: kubeconfig.Options{Path: first, Overrides: clientcmd.ConfigOverrides{CurrentContext: "x"}}, want: kubeconfig.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kubeconfig.Load(test.options)
			if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("error %v, want %v with %q", err, test.want, test.text)
			}
		})
	}
}

func TestLoadInCluster(t *testing.T) {
	home, first, _ := world(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), "pod's")
	write(t, filepath.Join(dir, "namespace"), "podspace\n")
	pod := kubeconfig.Environment{ServiceHost: "fd00::1", ServicePort: "443", ServiceAccount: dir}
	load := func(o kubeconfig.Options) *kubeconfig.Access {
		t.Helper()
		got, err := kubeconfig.Load(o)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := load(kubeconfig.Options{Environment: pod, InCluster: true})
	if c := got.Config; c.Host != "https://[fd00::1]:443" || c.BearerToken != "pod's" || c.BearerTokenFile != filepath.Join(dir, "token") || c.CAFile != "" {
		t.Errorf("config %v", c)
	}
	if got.Namespace != "podspace" || got.Explicit {
		t.Errorf("namespace %q, %v", got.Namespace, got.Explicit)
	}
	if _, err := kubeconfig.Load(kubeconfig.Options{Environment: pod}); !errors.Is(err, kubeconfig.ErrNoServer) {
		t.Errorf("not asked for: %v", err)
	}
	withHome := pod
	withHome.Home = home
	if got := load(kubeconfig.Options{Environment: withHome, InCluster: true}); got.Config.Host != "https://home:1" || got.Namespace != "podspace" {
		t.Errorf("with a file: %s, %s", got.Config.Host, got.Namespace)
	}
	if got := load(kubeconfig.Options{Path: first, Environment: pod, InCluster: true}); got.Namespace != "web" {
		t.Errorf("with a file that names one: %s", got.Namespace)
	}
	pod.PodNamespace = "told"
	got = load(kubeconfig.Options{Environment: pod, InCluster: true, Overrides: clientcmd.ConfigOverrides{
		AuthInfo: api.AuthInfo{Token: "flag"},
	}})
	if got.Config.BearerToken != "flag" || got.Config.BearerTokenFile != "" || got.Namespace != "told" {
		t.Errorf("overridden: %v, %s", got.Config, got.Namespace)
	}
	write(t, filepath.Join(dir, "ca.crt"), "junk")
	if _, err := kubeconfig.Load(kubeconfig.Options{Environment: pod, InCluster: true}); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "ca.crt")) {
		t.Errorf("a broken CA: %v", err)
	}
}

func TestEnvironmentOf(t *testing.T) {
	got := kubeconfig.EnvironmentOf(func(name string) string { return "$" + name })
	want := kubeconfig.Environment{
		Kubeconfig: "$KUBECONFIG", Home: "$HOME", PodNamespace: "$POD_NAMESPACE", Cache: "$KUBECACHEDIR",
		ServiceHost: "$KUBERNETES_SERVICE_HOST", ServicePort: "$KUBERNETES_SERVICE_PORT",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for want, e := range map[string]kubeconfig.Environment{"": {}, "/home/.kube/cache": {Home: "/home"}, "/cache": {Home: "/home", Cache: "/cache"}} {
		if got := e.CacheDir(); got != want {
			t.Errorf("cache directory %q, want %q", got, want)
		}
	}
}
