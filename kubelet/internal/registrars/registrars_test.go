package registrars_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/kubelet/internal/registrars"
)

// host notes which plugins come and go. Those that enter wait until they are let in.
type host struct {
	enter chan struct{}

	mu   sync.Mutex
	said []string
}

func (h *host) note(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, what)
}

func (h *host) took() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := strings.Join(h.said, ", ")
	h.said = nil
	return out
}

func (h *host) Enter(ctx context.Context, plugin *registration.PluginInfo) error {
	h.note("enter " + plugin.GetName())
	select {
	case <-h.enter:
	case <-ctx.Done():
	}
	return nil
}

func (h *host) Leave(_ context.Context, name string) { h.note("leave " + name) }

// registrar is one of the plugin "disks".
type registrar struct {
	registration.UnimplementedRegistrationServer
	told chan struct{}
}

func (*registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: "disks"}, nil
}

func (r *registrar) NotifyRegistrationStatus(context.Context, *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	close(r.told)
	return &registration.RegistrationStatusResponse{}, nil
}

func serve(t *testing.T, path string) *registrar {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	r := &registrar{told: make(chan struct{})}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, r)
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Stop()
		running.Wait()
	})
	return r
}

// A plugin stays whose second registrar is about to register it while the first one goes.
func TestSecondRegistrar(t *testing.T) {
	dir, err := os.MkdirTemp("", "reg") // the paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h := &host{enter: make(chan struct{})}
	r := registrars.New(dir, registration.CSIPlugin, h, slog.New(slog.DiscardHandler))
	first, second := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	serve(t, first)
	r.Scan(t.Context())
	h.enter <- struct{}{}
	r.Wait()
	said := func(want string) {
		t.Helper()
		if got := h.took(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	said("enter disks")
	serve(t, second)
	r.Scan(t.Context())
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	r.Scan(t.Context()) // while the second one registers
	h.enter <- struct{}{}
	r.Wait()
	said("enter disks")
	r.Scan(t.Context())
	r.Wait()
	said("")
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	r.Scan(t.Context())
	r.Wait()
	said("leave disks")
	r.Scan(t.Context())
	r.Wait()
	said("")
}
