package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/kubelet/internal/registrars"
)

// source is a resource of which plugins have devices.
type source struct {
	plugins map[string]*plugin // that are connected, by their sockets
	current *plugin            // the one that is asked; nil after a restart, until it registers
	stopped time.Time          // since when none is connected
	listed  bool               // its devices were known once
	devices map[string]device  // by ID
}

// device is one of a resource's devices.
type device struct {
	healthy bool    // false, too, while its plugin is not there
	said    bool    // healthy, by its plugin's last word
	nodes   []int64 // NUMA nodes
}

func (s *source) healthy() map[string]bool {
	found := map[string]bool{}
	for id, d := range s.devices {
		if d.healthy {
			found[id] = true
		}
	}
	return found
}

// plugin is a connected plugin.
type plugin struct {
	resource, socket string
	file             fs.FileInfo // of the socket
	conn             *grpc.ClientConn
	options          *devices.DevicePluginOptions
}

// stop disconnects the plugin.
func (p *plugin) stop() { _ = p.conn.Close() }

func (p *plugin) client() devices.DevicePluginClient { return devices.NewDevicePluginClient(p.conn) }

// desk is where plugins register.
type desk struct {
	devices.UnimplementedRegistrationServer
	*Plugins
}

// Register connects to a plugin, whose endpoint is a name in the directory of sockets.
func (d *desk) Register(ctx context.Context, r *devices.RegisterRequest) (*devices.Empty, error) {
	err := fmt.Errorf("requested API version %q is not supported by kubelet. Supported version is %q", r.GetVersion(), devices.SupportedVersions)
	if slices.Contains(devices.SupportedVersions[:], r.GetVersion()) {
		if err = checkName(r.GetResourceName()); err == nil {
			err = d.connect(ctx, r.GetResourceName(), filepath.Join(d.sockets(), r.GetEndpoint()))
		}
	}
	if err != nil && ctx.Err() == nil {
		d.log.Warn("a device plugin cannot register", "resource", r.GetResourceName(), "error", err)
	}
	return &devices.Empty{}, err
}

// checkName returns what is wrong with the name of a plugin's resource.
func checkName(name string) error {
	if !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix) ||
		strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) ||
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) > 0 {
		return fmt.Errorf("the ResourceName %q is invalid", name)
	}
	return nil
}

// watcher takes plugins that register by a socket in plugins_registry.
type watcher struct{ *Plugins }

// Enter connects to a plugin.
func (w watcher) Enter(ctx context.Context, info *registration.PluginInfo) error {
	versions := info.GetSupportedVersions()
	if !slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(devices.SupportedVersions[:], v) }) {
		return fmt.Errorf("manager version, %s, is not among plugin supported versions %v", devices.Version, versions)
	}
	if err := checkName(info.GetName()); err != nil {
		return fmt.Errorf("invalid name of device plugin socket: %w", err)
	}
	return w.connect(ctx, info.GetName(), info.GetEndpoint())
}

// Leave disconnects the plugins of a resource that have no socket any more.
func (w watcher) Leave(_ context.Context, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.resources[name]
	if s == nil {
		return
	}
	for _, p := range s.plugins {
		if _, err := os.Stat(p.socket); errors.Is(err, fs.ErrNotExist) {
			p.stop()
		}
	}
}

// connect makes a plugin known, and follows its devices until it disconnects.
func (p *Plugins) connect(ctx context.Context, resource, socket string) error {
	file, err := os.Stat(socket)
	if err != nil {
		return fmt.Errorf("failed to dial device plugin: %w", err)
	}
	conn, err := dial(ctx, socket)
	if err != nil {
		return fmt.Errorf("failed to dial device plugin: %w", err)
	}
	next := &plugin{resource: resource, socket: socket, file: file, conn: conn}
	asked, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	if next.options, err = next.client().GetDevicePluginOptions(asked, &devices.Empty{}); err != nil {
		_ = conn.Close()
		return fmt.Errorf("failed to get device plugin options: %w", err)
	}
	if err := p.enter(next); err != nil {
		_ = conn.Close()
		return err
	}
	p.log.Info("a device plugin is registered", "resource", resource, "socket", socket)
	return nil
}

// enter has a plugin take the place of others of its resource.
func (p *Plugins) enter(next *plugin) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spawn == nil {
		return errors.New("the kubelet is stopping")
	}
	s := p.resources[next.resource]
	if s == nil {
		s = &source{devices: map[string]device{}}
		p.resources[next.resource] = s
	}
	if s.plugins == nil {
		s.plugins = map[string]*plugin{}
	}
	if before := s.plugins[next.socket]; before != nil {
		if os.SameFile(before.file, next.file) && before.file.ModTime().Equal(next.file.ModTime()) {
			return fmt.Errorf("device plugin already connected: %s", next.socket)
		}
		before.stop() // another process has taken the place
	}
	s.plugins[next.socket], s.current, s.stopped = next, next, time.Time{}
	delete(p.gone, next.resource)
	p.spawn(func(ctx context.Context) { p.follow(ctx, next) })
	return nil
}

// dial connects to a socket.
func dial(ctx context.Context, socket string) (*grpc.ClientConn, error) {
	conn, err := registrars.Connect(socket)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for conn.Connect(); ; {
		state := conn.GetState()
		if state == connectivity.Ready {
			return conn, nil
		}
		if !conn.WaitForStateChange(ctx, state) {
			_ = conn.Close()
			return nil, ctx.Err()
		}
		if state == connectivity.TransientFailure {
			conn.Connect()
		}
	}
}

// follow keeps the devices of a plugin up to date until it disconnects.
func (p *Plugins) follow(ctx context.Context, of *plugin) {
	defer of.stop()
	stream, err := of.client().ListAndWatch(ctx, &devices.Empty{})
	for err == nil {
		var list *devices.ListAndWatchResponse
		if list, err = stream.Recv(); err == nil {
			p.update(of, list.GetDevices())
		}
	}
	if p.leave(of) && ctx.Err() == nil {
		p.log.Warn("ListAndWatch ended unexpectedly for device plugin", "resource", of.resource, "error", err)
	}
}

// update takes the devices of a plugin, of which there are no others.
func (p *Plugins) update(of *plugin, list []*devices.Device) {
	now := map[string]device{}
	for _, d := range list {
		healthy := d.GetHealth() == devices.Healthy
		one := device{healthy: healthy, said: healthy}
		for _, n := range d.GetTopology().GetNodes() {
			one.nodes = append(one.nodes, n.GetID())
		}
		now[d.GetID()] = one
	}
	p.mu.Lock()
	s := p.resources[of.resource]
	if s == nil || s.plugins[of.socket] != of {
		p.mu.Unlock()
		return
	}
	touched := p.affected(of.resource, s.devices, now)
	s.devices, s.listed, p.changed = now, true, true
	p.mu.Unlock()
	for _, uid := range touched {
		p.options.Sync(uid)
	}
	p.keep("listing devices")
}

// affected returns the pods with devices that have another health now, or are back.
func (p *Plugins) affected(resource string, before, now map[string]device) []types.UID {
	var pods []types.UID
	for uid, h := range p.pods {
		for id := range h.devices(resource) {
			is, there := now[id]
			if was, known := before[id]; there && (!known || was.said != is.said) {
				pods = append(pods, uid)
				break
			}
		}
	}
	return pods
}

// leave forgets a plugin. Without any, the devices of its resource are unhealthy. It reports whether the plugin was known.
func (p *Plugins) leave(of *plugin) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.resources[of.resource]
	if s == nil || s.plugins[of.socket] != of {
		return false
	}
	delete(s.plugins, of.socket)
	p.changed = true
	if len(s.plugins) > 0 {
		s.current = s.plugins[slices.Min(slices.Collect(maps.Keys(s.plugins)))]
		return true
	}
	s.stopped = time.Now()
	if !s.listed {
		delete(p.resources, of.resource)
	}
	for id, d := range s.devices {
		d.healthy = false
		s.devices[id] = d
	}
	return true
}
