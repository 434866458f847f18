package deviceplugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/internal/registrars"
	"github.com/keelson-dev/keelson/kubelet/internal/turns"
	"github.com/keelson-dev/keelson/kubelet/internal/unixsocket"
)

const (
	scanPeriod  = time.Second
	dialTimeout = 10 * time.Second
)

// Options of Plugins. The zero value works.
type Options struct {
	// Timeout is how long a call of a plugin may take; 0 means 30 seconds.
	Timeout time.Duration
	// Absence is for how long a plugin may be gone before its resource is 0; 0 means upstream's 5 minutes.
	Absence time.Duration
	// Changed, if set, is called when Resources has changed, at most once in a second. Sync is called for pods whose devices'
	// health has changed.
	Changed func()
	Sync    func(uid types.UID)
	Logger  *slog.Logger // nil discards
}

// Plugins are the device plugins of a node. Make them with New.
type Plugins struct {
	dir     string // of the kubelet
	options Options
	log     *slog.Logger
	reset   bool
	turns   turns.Turns[types.UID] // allocations for one pod follow each other
	writing sync.Mutex
	running sync.WaitGroup

	mu        sync.Mutex
	spawn     func(func(context.Context)) // starts what Run waits for; nil while it does not run
	resources map[string]*source          // by name
	gone      map[string]bool             // resources of which there are no devices any more
	pods      map[types.UID]*holding
	changed   bool
	written   string // the checkpoint
}

// New makes the plugins of a node whose kubelet keeps everything below the directory, upstream's /var/lib/kubelet. It reads
// which devices the pods of an earlier process have; like upstream, it continues without if that cannot be read.
func New(dir string, o Options) (*Plugins, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("bad socketPath, must be an absolute path: %s", dir)
	}
	o.Timeout = cmp.Or(o.Timeout, devices.KubeletPreStartContainerRPCTimeoutInSecs*time.Second)
	o.Absence = cmp.Or(o.Absence, 5*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Sync == nil {
		o.Sync = func(types.UID) {}
	}
	p := &Plugins{
		dir: filepath.Clean(dir), options: o, log: o.Logger,
		resources: map[string]*source{}, gone: map[string]bool{}, pods: map[types.UID]*holding{},
	}
	switch err := p.load(); {
	case errors.Is(err, fs.ErrNotExist):
		p.reset = true
	case err != nil:
		p.log.Warn("Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date", "error", err)
	}
	return p, nil
}

// sockets is the directory of the plugins' sockets.
func (p *Plugins) sockets() string { return filepath.Join(p.dir, "device-plugins") }

// Run lets plugins register until the context ends; it then returns nil. It removes the sockets that it finds, which tells
// plugins to register again. It fails if it cannot listen.
func (p *Plugins) Run(ctx context.Context) error {
	registry := filepath.Join(p.dir, "plugins_registry")
	for _, dir := range []string{p.sockets(), registry} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
	}
	if err := p.clean(); err != nil {
		return err
	}
	listener, err := unixsocket.Listen(filepath.Join(p.sockets(), "kubelet.sock"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer p.running.Wait()
	defer cancel()
	p.spawnBy(func(f func(context.Context)) { p.running.Go(func() { f(ctx) }) })
	defer p.spawnBy(nil)
	server := grpc.NewServer()
	devices.RegisterRegistrationServer(server, &desk{Plugins: p})
	served := make(chan error, 1)
	p.running.Go(func() { served <- server.Serve(listener) })
	defer server.Stop()
	watched := registrars.New(registry, registration.DevicePlugin, watcher{p}, p.log)
	defer watched.Wait()
	scan := time.NewTicker(scanPeriod)
	defer scan.Stop()
	for {
		watched.Scan(ctx)
		if p.takeChanged() {
			p.options.Changed()
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return fmt.Errorf("device plugin registration gRPC server failed and no device plugins can register: %w", err)
		case <-scan.C:
		}
	}
}

func (p *Plugins) spawnBy(spawn func(func(context.Context))) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spawn = spawn
}

// clean removes the sockets of an earlier process's plugins.
func (p *Plugins) clean() error {
	entries, err := os.ReadDir(p.sockets())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSocket != 0 {
			err = errors.Join(err, os.Remove(filepath.Join(p.sockets(), e.Name())))
		}
	}
	return errors.Join(err, os.WriteFile(filepath.Join(p.sockets(), "DEPRECATION"), nil, 0o600))
}

func (p *Plugins) takeChanged() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.changed
	p.changed = false
	return was
}

// Resources returns the numbers of devices. What is gone for too long is 0.
func (p *Plugins) Resources() kubelet.DeviceResources {
	p.mu.Lock()
	found := kubelet.DeviceResources{Capacity: corev1.ResourceList{}, Allocatable: corev1.ResourceList{}, Reset: p.reset}
	forgotten := false
	for name, s := range p.resources {
		if !s.listed {
			continue
		}
		if since := s.stopped; !since.IsZero() && time.Since(since) > p.options.Absence {
			delete(p.resources, name)
			p.gone[name], forgotten = true, true
			continue
		}
		found.Capacity[corev1.ResourceName(name)] = *resource.NewQuantity(int64(len(s.devices)), resource.DecimalSI)
		found.Allocatable[corev1.ResourceName(name)] = *resource.NewQuantity(int64(len(s.healthy())), resource.DecimalSI)
	}
	for name := range p.gone {
		found.Capacity[corev1.ResourceName(name)] = *resource.NewQuantity(0, resource.DecimalSI)
		found.Allocatable[corev1.ResourceName(name)] = *resource.NewQuantity(0, resource.DecimalSI)
	}
	p.mu.Unlock()
	if forgotten {
		p.keep("forgetting resources")
	}
	return found
}

// Orphans returns the pods that have devices and of which live knows nothing.
func (p *Plugins) Orphans(live func(types.UID) bool) ([]types.UID, error) {
	p.mu.Lock()
	all := slices.Sorted(maps.Keys(p.pods))
	p.mu.Unlock()
	return slices.DeleteFunc(all, live), nil
}

// Release takes the devices back from a pod.
func (p *Plugins) Release(ctx context.Context, uid types.UID) error {
	unlock, err := p.turns.Lock(ctx, uid)
	if err != nil {
		return err
	}
	defer unlock()
	p.mu.Lock()
	delete(p.pods, uid)
	p.mu.Unlock()
	return p.save()
}
