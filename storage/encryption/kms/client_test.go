package kms_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keelson-dev/keelson/storage/encryption/kms"
	"github.com/keelson-dev/keelson/storage/encryption/kms/kmstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t testing.TB, path string, timeout time.Duration) *kms.Client {
	t.Helper()
	client, err := kms.Dial("unix://"+path, timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

func start(t testing.TB, p *kmstest.Plugin, path string) {
	t.Helper()
	if err := p.Start(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestPlugin: a plugin behind a socket stops, comes back, changes its key and loses one.
func TestPlugin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kms.sock")
	plugin := kmstest.New("key-1")
	start(t, plugin, path)
	client := dial(t, path, time.Minute)
	p := kms.New("vault", client, kms.Options{})
	first := seal(t, p, "first")
	wantOpen(t, p, first, "first", false)

	if err := plugin.Stop(); err != nil {
		t.Fatal(err)
	}
	wantOpen(t, p, first, "first", false) // the seed is known
	start(t, plugin, path)
	restarted := kms.New("vault", client, kms.Options{}) // it is not
	wantOpen(t, restarted, first, "first", false)

	plugin.Rotate("key-2")
	other := kms.New("vault", client, kms.Options{})
	second := seal(t, other, "second")
	wantOpen(t, other, first, "first", true)
	wantOpen(t, other, second, "second", false)
	plugin.Forget("key-1")
	wantOpen(t, other, first, "first", true)
	forgotten := kms.New("vault", client, kms.Options{})
	if _, _, err := forgotten.Open(t.Context(), at, first); err == nil || errors.Is(err, kms.ErrUnavailable) || !strings.Contains(err.Error(), "no such key") {
		t.Errorf("Open without the key: %v", err)
	}
	wantOpen(t, forgotten, second, "second", false)
	if calls := plugin.Calls(); calls.Decrypt != 4 || calls.Encrypt != 2 {
		t.Errorf("calls %+v", calls)
	}
}

// TestPluginAway: calls to a plugin that hangs or is not there end, and say so.
func TestPluginAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kms.sock")
	plugin := kmstest.New("key-1")
	client := dial(t, path, 50*time.Millisecond)
	check := func(when string) {
		t.Helper()
		if _, err := client.Status(t.Context()); !errors.Is(err, kms.ErrUnavailable) {
			t.Errorf("%s: Status: %v", when, err)
		}
		if _, err := client.Encrypt(t.Context(), "uid", nil); !errors.Is(err, kms.ErrUnavailable) {
			t.Errorf("%s: Encrypt: %v", when, err)
		}
		if _, err := client.Decrypt(t.Context(), "uid", kms.Sealed{}); !errors.Is(err, kms.ErrUnavailable) {
			t.Errorf("%s: Decrypt: %v", when, err)
		}
	}
	check("not there")
	start(t, plugin, path)
	plugin.Hang(true)
	check("hanging")
	plugin.Hang(false)
	patient := dial(t, path, time.Minute)
	if status, err := patient.Status(t.Context()); err != nil || status != (kms.Status{Version: "v2", Health: "ok", KeyID: "key-1"}) {
		t.Errorf("Status = %+v, %v", status, err)
	}
	plugin.Health("no disk")
	if status, err := patient.Status(t.Context()); err != nil || status.Health != "no disk" {
		t.Errorf("Status = %+v, %v", status, err)
	}
}

func TestEndpoints(t *testing.T) {
	for endpoint, want := range map[string]string{
		"":                  "remote KMS provider can't use empty string as endpoint",
		"tcp://127.0.0.1:1": `unsupported scheme "tcp" for remote KMS provider`,
		"unix://%zz":        "invalid endpoint",
	} {
		if client, err := kms.Dial(endpoint, 0); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, %v", endpoint, client, err)
		}
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "kms")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "kms.sock")
	plugin := kmstest.New("2026-11") // in a test; else one of your provider's
	if err := plugin.Start(socket); err != nil {
		fmt.Println(err)
		return
	}
	defer plugin.Stop()

	client, err := kms.Dial("unix://"+socket, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	provider := kms.New("vault", client, kms.Options{})
	ctx := context.Background()
	sealed, err := provider.Seal(ctx, nil, "/registry/secrets/default/one", []byte("value"))
	if err != nil {
		fmt.Println(err)
		return
	}
	value, stale, err := provider.Open(ctx, "/registry/secrets/default/one", sealed)
	fmt.Println(string(value), stale, err)
	// Output: value false <nil>
}
