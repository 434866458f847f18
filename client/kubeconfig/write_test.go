package kubeconfig_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/keelson-dev/keelson/client/kubeconfig"
)

var entry = kubeconfig.Entry{
	Name: "keelson", User: "keelson-admin", Server: "https://127.0.0.1:6443", CA: []byte("CA"),
	Certificate: []byte("CERTIFICATE"), Key: []byte("KEY"),
}

const entryYAML = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Q0E=
    server: https://127.0.0.1:6443
  name: keelson
contexts:
- context:
    cluster: keelson
    user: keelson-admin
  name: keelson
current-context: keelson
kind: Config
users:
- name: keelson-admin
  user:
    client-certificate-data: Q0VSVElGSUNBVEU=
    client-key-data: S0VZ
`

func TestAddToNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "config")
	if err := kubeconfig.Add(t.Context(), path, entry); err != nil {
		t.Fatal(err)
	}
	holds(t, path, entryYAML)
}

func TestAddKeepsOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	const others = `apiVersion: v1
clusters:
- cluster:
    certificate-authority: ca.pem
    server: https://other
  name: other
- cluster:
    server: https://old
  name: keelson
contexts:
- context:
    cluster: other
    extensions:
    - extension:
        any: thing
      name: tool.example
    namespace: theirs
    user: someone
  name: other
current-context: other
kind: Config
preferences: {}
users:
- name: someone
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      args: null
      command: ./login
      env: null
      interactiveMode: IfAvailable
      provideClusterInfo: false
- name: keelson-admin
  user:
    token: old
`
	if err := os.WriteFile(path, []byte(others), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := kubeconfig.Add(t.Context(), path, entry); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := clientcmd.Load([]byte(others))
	if err != nil {
		t.Fatal(err)
	}
	added, err := entry.Config()
	if err != nil {
		t.Fatal(err)
	}
	want.Clusters["keelson"], want.AuthInfos["keelson-admin"] = added.Clusters["keelson"], added.AuthInfos["keelson-admin"]
	want.Contexts["keelson"], want.CurrentContext = added.Contexts["keelson"], "keelson"
	if diff := cmp.Diff(text(t, want), text(t, got)); diff != "" {
		t.Error(diff)
	}
	private(t, path)
}

func TestAddFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := kubeconfig.Add(t.Context(), link, entry); err != nil {
		t.Fatal(err)
	}
	holds(t, target, entryYAML)
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info.Mode(), err)
	}
}

func TestAddTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	const writers = 8
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() {
			e := entry
			e.Name, e.User = fmt.Sprint("cluster-", i), fmt.Sprint("user-", i)
			if err := kubeconfig.Add(t.Context(), path, e); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if c, u, x := len(config.Clusters), len(config.AuthInfos), len(config.Contexts); c != writers || u != writers || x != writers {
		t.Errorf("%d clusters, %d users, %d contexts; want %d each", c, u, x, writers)
	}
}

func TestAddRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		old   string
		entry kubeconfig.Entry
		want  string
	}{
		"no name":     {entry: kubeconfig.Entry{Server: "https://x"}, want: "Name is empty"},
		"no server":   {entry: kubeconfig.Entry{Name: "x"}, want: `"x": Server is empty`},
		"no key file": {entry: kubeconfig.Entry{Name: "x", Server: "https://x", CertificateFile: "C"}, want: "CertificateFile and KeyFile go together"},
		"both": {
			entry: kubeconfig.Entry{Name: "x", Server: "https://x", Certificate: []byte("C"), Key: []byte("K"), CertificateFile: "C", KeyFile: "K"},
			want:  "exclude each other",
		},
		"no key":        {entry: kubeconfig.Entry{Name: "x", Server: "https://x", Certificate: []byte("C")}, want: "Certificate and Key go together"},
		"a broken file": {old: "clusters: {", entry: entry, want: "repair it or name another file"},
		"aliases":       {old: "a: &a " + strings.Repeat("x", 1<<17) + "\nb: [" + strings.Repeat("*a, ", 1<<15) + "]\n", entry: entry, want: "its aliases expand to more than 3145728 bytes"},
		"another kind":  {old: "apiVersion: v1\nkind: Pod\n", entry: entry, want: `no kind "Pod" is registered`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(path, []byte(test.old), 0o640); err != nil {
				t.Fatal(err)
			}
			err := kubeconfig.Add(t.Context(), path, test.entry)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q in it", err, test.want)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != test.old {
				t.Errorf("the file now: %q, %v", got, err)
			}
			alone(t, path)
		})
	}
	if err := kubeconfig.Add(t.Context(), "", entry); err == nil {
		t.Error("no path: no error")
	}
}

func TestAddLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path+".lock", nil, 0); err != nil {
			t.Fatal(err)
		}
		err := kubeconfig.Add(t.Context(), path, entry)
		if !errors.Is(err, kubeconfig.ErrLocked) || !strings.Contains(err.Error(), path+".lock exists; remove it") {
			t.Errorf("locked: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := kubeconfig.Add(ctx, path, entry); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		if _, err := os.Stat(path + ".lock"); err != nil {
			t.Errorf("another's lock: %v", err)
		}
	})
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	private(t, path)
}

// private checks that only the owner may read the file.
func private(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
}

// alone checks that nothing is left beside the file.
func alone(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory: %v, %v", entries, err)
	}
}

func text(t *testing.T, config *api.Config) string {
	t.Helper()
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
