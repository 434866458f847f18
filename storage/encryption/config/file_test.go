package config_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/config"
	"github.com/keelson-dev/keelson/storage/encryption/kms"
	"github.com/keelson-dev/keelson/storage/encryption/kms/kmstest"
	"github.com/keelson-dev/keelson/storage/memory"
)

const at = "/registry/secrets/default/one"

// logged is a log that may be read while it is written.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// form is how a value is stored now.
func form(t testing.TB, f *config.File) string {
	t.Helper()
	sealed, err := f.For(at).Seal(t.Context(), nil, at, []byte("plain"))
	if err != nil {
		t.Fatal(err)
	}
	return string(sealed)
}

func run(t *testing.T, f *config.File) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// TestReload: new content is used, what is wrong is told once and not used, and what is in use stays.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		f, path := open(t, head+rule("secrets", "aesgcm one:1"), config.Options{Reload: true, Logger: log.logger()})
		defer run(t, f)()
		first := form(t, f)
		time.Sleep(time.Hour)
		write(t, path, head+rule("secrets", "aesgcm two:2", "aesgcm one:1"))
		time.Sleep(11 * time.Second)
		if got := form(t, f); !strings.HasPrefix(got, "k8s:enc:aesgcm:v1:two:") {
			t.Errorf("after the change: %.30q", got)
		}
		if value, stale, err := f.For(at).Open(t.Context(), at, []byte(first)); err != nil || !stale || string(value) != "plain" {
			t.Errorf("what was written before: %q, stale %v, %v", value, stale, err)
		}
		for _, wrong := range []string{"", "resources: [", head + rule("secrets", "aesgcm three:3") + rule("secrets, secrets", "identity")} {
			write(t, path, wrong)
			time.Sleep(time.Minute)
			if got := form(t, f); !strings.HasPrefix(got, "k8s:enc:aesgcm:v1:two:") {
				t.Errorf("after a wrong change: %.30q", got)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		form(t, f)
		if n := strings.Count(log.String(), "error processing encryption config file"); n != 4 {
			t.Errorf("%d errors told:\n%s", n, log.String())
		}
		write(t, path, head+rule("secrets", "aesgcm three:3"))
		time.Sleep(11 * time.Second)
		if got := form(t, f); !strings.HasPrefix(got, "k8s:enc:aesgcm:v1:three:") {
			t.Errorf("after a good change: %.30q", got)
		}
		for _, b := range []byte("123") {
			if strings.Contains(log.String(), secret(b)[:16]) {
				t.Errorf("the log tells a key: %s", log.String())
			}
		}
		if strings.Contains(log.String(), "closing connections") {
			t.Errorf("it tells of connections that nobody has:\n%s", log.String())
		}
	})
}

func TestNoReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, path := open(t, head+rule("secrets", "aesgcm one:1"), config.Options{})
		defer run(t, f)()
		write(t, path, head+rule("secrets", "aesgcm two:2"))
		time.Sleep(time.Hour)
		if got := form(t, f); !strings.HasPrefix(got, "k8s:enc:aesgcm:v1:one:") {
			t.Errorf("after a change: %.30q", got)
		}
	})
}

// eventually waits for what other processes bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func kmsRule(resources, name, socket, timeout string) string {
	return fmt.Sprintf("- resources: [%s]\n  providers:\n  - kms: {apiVersion: v2, name: %s, endpoint: 'unix://%s', timeout: %s}\n", resources, name, socket, timeout)
}

// TestPlugins: a file that asks for plugins is used when they are well, and a plugin that it no longer asks for is left alone.
func TestPlugins(t *testing.T) {
	dir := t.TempDir()
	plugins := map[string]*kmstest.Plugin{}
	for _, name := range []string{"one", "two"} {
		plugins[name] = kmstest.New("key of " + name)
		t.Cleanup(func() {
			if err := plugins[name].Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	sockets := map[string]string{"one": filepath.Join(dir, "one"), "two": filepath.Join(dir, "two")}
	if err := plugins["one"].Start(sockets["one"]); err != nil {
		t.Fatal(err)
	}
	var log logged
	f, path := open(t, head+kmsRule("secrets", "one", sockets["one"], "100ms"), config.Options{
		Reload: true, Interval: 10 * time.Millisecond, Logger: log.logger(),
	})
	defer run(t, f)()
	if err := f.Await(t.Context()); err != nil {
		t.Errorf("Await: %v", err)
	}
	inner := memory.New(memory.Options{})
	defer inner.Close()
	s := encryption.New(inner, f)
	if _, err := s.Create(t.Context(), at, []byte("plain")); err != nil {
		t.Fatal(err)
	}
	stored := func() string {
		r, err := inner.Get(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		return string(r.Value)
	}
	if !strings.HasPrefix(stored(), "k8s:enc:kms:v2:one:") || strings.Contains(stored(), "plain") {
		t.Errorf("stored %q", stored())
	}
	both := head + kmsRule("secrets", "two", sockets["two"], "100ms") + strings.TrimPrefix(kmsRule("", "one", sockets["one"], "100ms"), "- resources: []\n  providers:\n")
	write(t, path, both)
	eventually(t, "the log tells of the missing plugin", func() bool {
		return strings.Contains(log.String(), "health check for new transformers failed")
	})
	if !strings.HasPrefix(form(t, f), "k8s:enc:kms:v2:one:") {
		t.Error("the plugin that is not there is in use")
	}
	if err := plugins["two"].Start(sockets["two"]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "plugin two is in use", func() bool { return strings.HasPrefix(form(t, f), "k8s:enc:kms:v2:two:") })
	done, err := encryption.Rewrite(t.Context(), s, "/registry/", encryption.RewriteOptions{})
	if err != nil || done.Written != 1 || !strings.HasPrefix(stored(), "k8s:enc:kms:v2:two:") {
		t.Errorf("%+v, %v, stored %.30q", done, err, stored())
	}
	write(t, path, head+kmsRule("secrets", "two", sockets["two"], "100ms"))
	eventually(t, "plugin one is out of use", func() bool { return strings.Count(log.String(), "has new content") == 2 })
	if err := plugins["one"].Stop(); err != nil {
		t.Error(err)
	}
	if r, err := s.Get(t.Context(), at); err != nil || string(r.Value) != "plain" {
		t.Errorf("Get = %q, %v", r.Value, err)
	}
	if stale, err := s.(storage.Refresher).Stale(t.Context(), at); err != nil || stale {
		t.Errorf("Stale = %v, %v", stale, err)
	}
}

// TestAwait: who waits for a plugin that does not come is told what is wrong with it.
func TestAwait(t *testing.T) {
	f, _ := open(t, head+kmsRule("secrets", "one", filepath.Join(t.TempDir(), "none"), "50ms"), config.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := f.Await(ctx); !errors.Is(err, kms.ErrUnavailable) {
		t.Errorf("Await: %v", err)
	}
	without, _ := open(t, head+rule("secrets", "identity"), config.Options{})
	if err := without.Await(ctx); err != nil {
		t.Errorf("Await without plugins: %v", err)
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "encryption")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "encryption.yaml")
	// head -c 32 /dev/urandom | base64
	err = os.WriteFile(path, []byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - secretbox:
      keys:
      - name: "2026-11"
        secret: YSBrZXkgdGhhdCBpcyBrbm93biB0byBldmVyeWJvZHk=
  - identity: {} # reads what was written before
`), 0o600)
	if err != nil {
		fmt.Println(err)
		return
	}
	file, err := config.Open(path, config.Prefixes("/registry/", []config.Resource{
		{Name: "secrets", Prefix: "/registry/secrets/"},
	}), config.Options{Reload: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close() // and file.Run beside the server

	inner := memory.New(memory.Options{})
	defer inner.Close()
	store := encryption.New(inner, file)
	ctx := context.Background()
	if _, err := store.Create(ctx, "/registry/secrets/default/one", []byte("value")); err != nil {
		fmt.Println(err)
		return
	}
	record, err := store.Get(ctx, "/registry/secrets/default/one")
	fmt.Println(string(record.Value), err)
	raw, err := inner.Get(ctx, "/registry/secrets/default/one")
	fmt.Println(string(raw.Value[:len("k8s:enc:secretbox:v1:2026-11:")]), err)
	// Output:
	// value <nil>
	// k8s:enc:secretbox:v1:2026-11: <nil>
}
