// Package registrars registers the plugins of a node, such as CSI drivers, whose registrars serve pluginregistration.v1 at
// sockets in the kubelet's plugin directory, as with upstream's kubelet.
//
// A registrar is asked once, and told how it went; one that fails is asked again after a pause. A plugin whose last socket
// is gone is forgotten.
package registrars

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/kubelet/internal/unixsocket"
)

// greetingTimeout is how long a registrar may take to answer.
const greetingTimeout = 10 * time.Second

// Host takes plugins of one type. Its methods are called by several goroutines, for different plugins.
type Host interface {
	// Enter makes a plugin known. The registrar is told of its error.
	Enter(ctx context.Context, plugin *registration.PluginInfo) error
	// Leave forgets a plugin.
	Leave(ctx context.Context, name string)
}

// Registrars are the sockets in the plugin directory. Make them with New; one goroutine at a time uses them.
type Registrars struct {
	dir, kind string
	host      Host
	log       *slog.Logger
	running   sync.WaitGroup

	mu      sync.Mutex
	sockets map[string]*socket
}

// socket is one of them.
type socket struct {
	info   fs.FileInfo
	busy   bool
	done   bool
	plugin string // that it has registered
	retry  time.Time
	pause  time.Duration
}

// New returns the registrars in a directory for plugins of a type, such as registration.CSIPlugin; others are left alone.
func New(dir, kind string, h Host, log *slog.Logger) *Registrars {
	return &Registrars{dir: dir, kind: kind, host: h, log: log, sockets: map[string]*socket{}}
}

// Wait waits until what Scan has started has ended.
func (r *Registrars) Wait() { r.running.Wait() }

// Scan starts to register what is new, and forgets what is gone.
func (r *Registrars) Scan(ctx context.Context) {
	found := map[string]fs.FileInfo{}
	err := filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(e.Name(), ".") && path != r.dir {
			return nil //nolint:nilerr // what is gone meanwhile is not there
		}
		if info, err := e.Info(); err == nil && e.Type()&fs.ModeSocket != 0 {
			found[path] = info
		}
		return nil
	})
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	registering := r.registering()
	for path, s := range r.sockets {
		info, ok := found[path]
		switch {
		case s.busy:
		case !ok && registering: // perhaps its plugin, which then must stay
		case !ok:
			delete(r.sockets, path)
			if s.plugin != "" && !r.has(s.plugin) {
				r.running.Go(func() { r.host.Leave(ctx, s.plugin) })
			}
		case !os.SameFile(info, s.info) || !info.ModTime().Equal(s.info.ModTime()):
			delete(r.sockets, path) // another process has taken the place
		}
	}
	for path, info := range found {
		s := r.sockets[path]
		if s == nil {
			s = &socket{info: info}
			r.sockets[path] = s
		}
		if s.busy || s.done || time.Now().Before(s.retry) {
			continue
		}
		s.busy = true
		r.running.Go(func() { r.register(ctx, path, s) })
	}
}

// registering reports whether a socket is about to register a plugin.
func (r *Registrars) registering() bool {
	for _, s := range r.sockets {
		if s.busy {
			return true
		}
	}
	return false
}

// has reports whether a socket has registered a plugin.
func (r *Registrars) has(plugin string) bool {
	for _, s := range r.sockets {
		if s.plugin == plugin {
			return true
		}
	}
	return false
}

// register lets one socket register; it is tried again if that fails.
func (r *Registrars) register(ctx context.Context, path string, s *socket) {
	name, err := r.greet(ctx, path)
	r.mu.Lock()
	defer r.mu.Unlock()
	s.busy = false
	if name != "" {
		s.plugin = name
	}
	if err == nil {
		s.done = true
		return
	}
	if ctx.Err() == nil {
		r.log.Warn("registering a plugin failed", "socket", path, "error", err)
	}
	s.pause = min(max(2*s.pause, 500*time.Millisecond), 2*time.Minute)
	s.retry = time.Now().Add(s.pause)
}

// greet asks a registrar for its plugin, registers it, and says how that went. It returns the plugin's name if it is
// registered, also if the registrar could not be told.
func (r *Registrars) greet(ctx context.Context, path string) (string, error) {
	conn, err := Connect(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	asked, cancel := context.WithTimeout(ctx, greetingTimeout)
	defer cancel()
	registrar := registration.NewRegistrationClient(conn)
	info, err := registrar.GetInfo(asked, &registration.InfoRequest{})
	if err != nil {
		return "", fmt.Errorf("failed to get plugin info using RPC GetInfo at socket %s: %w", path, err)
	}
	if info.GetType() != r.kind {
		return "", nil
	}
	if info.GetEndpoint() == "" {
		info.Endpoint = path
	}
	refused := r.host.Enter(ctx, info)
	answer := &registration.RegistrationStatus{PluginRegistered: refused == nil}
	if refused != nil {
		answer.Error = "RegisterPlugin error -- plugin registration failed with err: " + refused.Error()
	}
	told, cancel := context.WithTimeout(ctx, greetingTimeout)
	defer cancel()
	if _, err := registrar.NotifyRegistrationStatus(told, answer); err != nil && refused == nil {
		return info.GetName(), fmt.Errorf("telling the registrar: %w", err)
	}
	if refused != nil {
		return "", refused
	}
	return info.GetName(), nil
}

// Connect prepares a connection to a socket; it is made by the first call.
func Connect(endpoint string) (*grpc.ClientConn, error) {
	target, options := "unix:"+endpoint, []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy()}
	if unixsocket.TooLong(endpoint) {
		target, options = "passthrough:///localhost", append(options, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return unixsocket.Dial(ctx, endpoint)
		}))
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", endpoint, err)
	}
	return conn, nil
}
