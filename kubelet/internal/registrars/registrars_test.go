package registrars_test

import (
	"cmp"
	"context"
	"errors"
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
	enter chan struct{} // nil lets all in at once
	err   error         // of those that enter

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
	if h.enter != nil {
		select {
		case <-h.enter:
		case <-ctx.Done():
		}
	}
	return h.err
}

func (h *host) Leave(_ context.Context, name string) { h.note("leave " + name) }

// registrar is one of the plugin "disks".
type registrar struct {
	registration.UnimplementedRegistrationServer
	kind   string // of the plugin; empty is a CSI driver
	silent error  // that it answers with
	deaf   error  // likewise, to how its registration went

	mu    sync.Mutex
	asked int
	told  []*registration.RegistrationStatus
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return &registration.PluginInfo{Type: cmp.Or(r.kind, registration.CSIPlugin), Name: "disks"}, r.silent
}

func (r *registrar) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, status)
	return &registration.RegistrationStatusResponse{}, r.deaf
}

func serve(t *testing.T, path string, r *registrar) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, r)
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Stop()
		running.Wait()
	})
}

// directory makes one for sockets, whose paths are short.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "reg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (h *host) expect(t *testing.T, want string) {
	t.Helper()
	if got := h.took(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func scan(t *testing.T, r *registrars.Registrars) {
	t.Helper()
	r.Scan(t.Context())
	r.Wait()
}

// A plugin stays whose second registrar is about to register it while the first one goes.
func TestSecondRegistrar(t *testing.T) {
	dir := directory(t)
	h := &host{enter: make(chan struct{})}
	r := registrars.New(dir, registration.CSIPlugin, h, slog.New(slog.DiscardHandler))
	first, second := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	serve(t, first, &registrar{})
	r.Scan(t.Context())
	h.enter <- struct{}{}
	r.Wait()
	h.expect(t, "enter disks")
	serve(t, second, &registrar{})
	r.Scan(t.Context())
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	r.Scan(t.Context()) // while the second one registers
	h.enter <- struct{}{}
	r.Wait()
	h.expect(t, "enter disks")
	scan(t, r)
	h.expect(t, "")
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	scan(t, r)
	h.expect(t, "leave disks")
	scan(t, r)
	h.expect(t, "")
}

// TestRegistrars: what becomes of a plugin, and what its registrar is told, depends on both. A plugin that is known leaves with
// its socket.
func TestRegistrars(t *testing.T) {
	errBusy := errors.New("busy")
	for name, tt := range map[string]struct {
		registrar  *registrar // nil is one without faults
		err        error      // of the host
		in, out    string
		registered bool
		told       string // of an error
	}{
		"accepted":              {in: "enter disks", out: "leave disks", registered: true},
		"accepted, not told":    {registrar: &registrar{deaf: errBusy}, in: "enter disks", out: "leave disks", registered: true},
		"refused":               {err: errBusy, in: "enter disks", told: "RegisterPlugin error -- plugin registration failed with err: busy"},
		"refused, not told":     {registrar: &registrar{deaf: errBusy}, err: errBusy, in: "enter disks", told: "RegisterPlugin error -- plugin registration failed with err: busy"},
		"silent":                {registrar: &registrar{silent: errBusy}},
		"of another kind of it": {registrar: &registrar{kind: registration.DevicePlugin}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, h := directory(t), &host{err: tt.err}
			r := registrars.New(dir, registration.CSIPlugin, h, slog.New(slog.DiscardHandler))
			socket := filepath.Join(dir, "a")
			it := cmp.Or(tt.registrar, &registrar{})
			serve(t, socket, it)
			scan(t, r)
			h.expect(t, tt.in)
			told := it.told
			if asked := tt.in != ""; len(told) > 0 != asked || asked && (told[0].GetPluginRegistered() != tt.registered || told[0].GetError() != tt.told) {
				t.Errorf("told %v", told)
			}
			if err := os.Remove(socket); err != nil {
				t.Fatal(err)
			}
			scan(t, r)
			h.expect(t, tt.out)
		})
	}
}

// TestPause: a registrar that fails is not asked again at once.
func TestPause(t *testing.T) {
	dir, it := directory(t), &registrar{silent: errors.New("busy")}
	r := registrars.New(dir, registration.CSIPlugin, &host{}, slog.New(slog.DiscardHandler))
	serve(t, filepath.Join(dir, "a"), it)
	for i := range 10 { // the pause doubles each time, so that even a slow machine comes back within one
		if scan(t, r); it.asked == i {
			return
		}
	}
	t.Errorf("asked %d times", it.asked)
}

// TestHidden: sockets whose names begin with a dot are nobody's, wherever their directory is.
func TestHidden(t *testing.T) {
	dir, h := filepath.Join(directory(t), ".r"), &host{}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r := registrars.New(dir, registration.CSIPlugin, h, slog.New(slog.DiscardHandler))
	serve(t, filepath.Join(dir, ".a"), &registrar{})
	scan(t, r)
	h.expect(t, "")
	serve(t, filepath.Join(dir, "a"), &registrar{})
	scan(t, r)
	h.expect(t, "enter disks")
}
