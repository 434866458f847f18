package kms_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"

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

// deadlines is a plugin that tells how long its callers wait.
type deadlines struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	left chan time.Duration
}

func (d *deadlines) tell(ctx context.Context) {
	end, _ := ctx.Deadline()
	d.left <- time.Until(end)
}

func (d *deadlines) Status(ctx context.Context, _ *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	d.tell(ctx)
	return &kmsapi.StatusResponse{}, nil
}

func (d *deadlines) Encrypt(ctx context.Context, _ *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	d.tell(ctx)
	return &kmsapi.EncryptResponse{}, nil
}

func (d *deadlines) Decrypt(ctx context.Context, _ *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	d.tell(ctx)
	return &kmsapi.DecryptResponse{}, nil
}

// TestTimeouts: a call takes three seconds at most, or as long as was said. The plugin is told.
func TestTimeouts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kms.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server, plugin, served := grpc.NewServer(), &deadlines{left: make(chan time.Duration, 1)}, make(chan error)
	kmsapi.RegisterKeyManagementServiceServer(server, plugin)
	go func() { served <- server.Serve(listener) }()
	defer func() { server.Stop(); <-served }()
	for timeout, most := range map[time.Duration]time.Duration{0: 3 * time.Second, -1: 3 * time.Second, time.Hour: time.Hour} {
		client := dial(t, path, timeout)
		for name, call := range map[string]func() error{
			"Status":  func() error { _, err := client.Status(t.Context()); return err },
			"Encrypt": func() error { _, err := client.Encrypt(t.Context(), "uid", nil); return err },
			"Decrypt": func() error { _, err := client.Decrypt(t.Context(), "uid", kms.Sealed{}); return err },
		} {
			var left time.Duration
			for left == 0 { // a machine that is too busy for three seconds gets another try
				if err := call(); err == nil {
					left = <-plugin.left
				} else if !errors.Is(err, kms.ErrUnavailable) {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if left > most || left < -time.Hour {
				t.Errorf("%s with a timeout of %v: %v are left, want %v at most", name, timeout, left, most)
			}
		}
	}
}

// TestCloseEnds: after Close there is no client any more, and it is said who closes twice.
func TestCloseEnds(t *testing.T) {
	client, err := kms.Dial("unix:///run/none.sock", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := client.Close(); err == nil {
		t.Error("closed twice")
	}
	if status, err := client.Status(t.Context()); err == nil {
		t.Errorf("Status after Close: %+v", status)
	}
}

// TestWaitsForThePlugin: a call waits for a plugin that was not there when the call before looked.
func TestWaitsForThePlugin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kms.sock")
	client := dial(t, path, time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := client.Status(ctx); err == nil {
		t.Fatal("nobody is there, but answers")
	}
	answered := make(chan error)
	go func() {
		_, err := client.Status(t.Context())
		answered <- err
	}()
	start(t, kmstest.New("key-1"), path)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// TestAbstractSocket: Linux has sockets without a file, whose name begins with @.
func TestAbstractSocket(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has them")
	}
	name := fmt.Sprintf("@keelson-kms-test-%d", os.Getpid())
	start(t, kmstest.New("key-1"), name)
	client := dial(t, "/"+name, time.Minute)
	if status, err := client.Status(t.Context()); err != nil || status.KeyID != "key-1" {
		t.Errorf("Status: %+v, %v", status, err)
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
