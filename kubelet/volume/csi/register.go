package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	scanPeriod      = time.Second
	greetingTimeout = 10 * time.Second
)

// Run registers the drivers whose registrars have sockets in plugins_registry, until the context ends; it then returns
// nil. It fails if the directory cannot be made, or the volumes of earlier processes cannot be listed.
func (d *Drivers) Run(ctx context.Context) error {
	registry := filepath.Join(d.dir, "plugins_registry")
	if err := os.MkdirAll(registry, 0o750); err != nil {
		return err
	}
	if err := d.recall(); err != nil {
		return err
	}
	r := &registrars{d: d, sockets: map[string]*socket{}}
	defer r.running.Wait()
	scan, sync := time.NewTicker(min(scanPeriod, d.options.Period)), time.NewTicker(d.options.Period)
	defer scan.Stop()
	defer sync.Stop()
	ready := false
	for {
		if !ready {
			if err := d.ensureCSINode(ctx); err == nil {
				ready = true
			} else if ctx.Err() == nil {
				d.log.Debug("there is no CSINode yet", "error", err)
			}
		}
		if ready {
			r.scan(ctx, registry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-scan.C:
		case <-sync.C:
			d.tend(ctx)
		}
	}
}

// tend repeats the report of the volumes in use if it got lost, and has pods with volumes synced.
func (d *Drivers) tend(ctx context.Context) {
	all, err := d.published()
	if err != nil || len(all) == 0 {
		return
	}
	if _, err := d.report(ctx); err != nil && ctx.Err() == nil {
		d.log.Warn("reporting the volumes in use failed", "error", err)
	}
	if d.options.Sync == nil {
		return
	}
	seen := map[types.UID]bool{}
	for dir := range all {
		uid := types.UID(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(dir)))))
		if !seen[uid] {
			seen[uid] = true
			d.options.Sync(uid)
		}
	}
}

// registrars are the sockets in the plugin directory.
type registrars struct {
	d       *Drivers
	running sync.WaitGroup

	mu      sync.Mutex
	sockets map[string]*socket
}

// socket is one of them.
type socket struct {
	info   fs.FileInfo
	busy   bool
	done   bool
	driver string // that it has registered
	retry  time.Time
	pause  time.Duration
}

// scan starts to register what is new, and forgets what is gone.
func (r *registrars) scan(ctx context.Context, registry string) {
	found := map[string]fs.FileInfo{}
	err := filepath.WalkDir(registry, func(path string, e fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(e.Name(), ".") && path != registry {
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
	for path, s := range r.sockets {
		info, ok := found[path]
		switch {
		case s.busy:
		case !ok:
			delete(r.sockets, path)
			if s.driver != "" && !r.has(s.driver) {
				r.running.Go(func() { r.d.leave(ctx, s.driver) })
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

// has reports whether a socket has registered a driver.
func (r *registrars) has(driver string) bool {
	for _, s := range r.sockets {
		if s.driver == driver {
			return true
		}
	}
	return false
}

// register lets one socket register; it is tried again if that fails.
func (r *registrars) register(ctx context.Context, path string, s *socket) {
	name, err := r.d.greet(ctx, path)
	r.mu.Lock()
	defer r.mu.Unlock()
	s.busy = false
	if name != "" {
		s.driver = name
	}
	if err == nil {
		s.done = true
		return
	}
	if ctx.Err() == nil {
		r.d.log.Warn("registering a plugin failed", "socket", path, "error", err)
	}
	s.pause = min(max(2*s.pause, 500*time.Millisecond), 2*time.Minute)
	s.retry = time.Now().Add(s.pause)
}

// greet asks a registrar for its driver, registers it, and says how that went. It returns the driver's name if it is registered,
// also if the registrar could not be told. Plugins of other kinds are left to others.
func (d *Drivers) greet(ctx context.Context, path string) (string, error) {
	conn, err := connect(path)
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
	if info.GetType() != registration.CSIPlugin {
		return "", nil
	}
	refused := d.enter(ctx, info)
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

// errVersions means that a driver speaks no version of CSI that is known here.
var errVersions = errors.New("none of the versions is supported")

// enter makes a driver known here and in the API.
func (d *Drivers) enter(ctx context.Context, info *registration.PluginInfo) error {
	name := info.GetName()
	supported := false
	for _, v := range info.GetSupportedVersions() {
		supported = supported || strings.HasPrefix(v, "1.")
	}
	if !supported {
		return fmt.Errorf("validation failed for CSI Driver %s at endpoint %s: %w: %q", name, info.GetEndpoint(), errVersions, info.GetSupportedVersions())
	}
	ctx, cancel := context.WithTimeout(ctx, d.options.Timeout)
	defer cancel()
	driver, err := dial(info.GetEndpoint())
	if err != nil {
		return err
	}
	defer driver.close()
	node, err := driver.NodeGetInfo(ctx, &csispec.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf("error during CSI NodeGetInfo() call: %w", err)
	}
	d.mu.Lock()
	d.registered[name] = info.GetEndpoint()
	d.mu.Unlock()
	if err := d.publishDriver(ctx, name, node); err != nil {
		d.mu.Lock()
		delete(d.registered, name)
		d.mu.Unlock()
		return err
	}
	d.log.Info("a CSI driver is registered", "driver", name)
	return nil
}

// leave forgets a driver.
func (d *Drivers) leave(ctx context.Context, name string) {
	d.mu.Lock()
	delete(d.registered, name)
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, greetingTimeout)
	defer cancel()
	if err := d.withdrawDriver(ctx, name); err != nil {
		d.log.Warn("a CSI driver is gone, but its CSINode could not be updated", "driver", name, "error", err)
	}
}
