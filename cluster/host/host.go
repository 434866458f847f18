package host

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/cgroup"
	"github.com/keelson-dev/keelson/kubelet/credentials"
	"github.com/keelson-dev/keelson/kubelet/environment"
	"github.com/keelson-dev/keelson/kubelet/logs"
	"github.com/keelson-dev/keelson/kubelet/machine"
	"github.com/keelson-dev/keelson/kubelet/objects"
	"github.com/keelson-dev/keelson/kubelet/prober"
	"github.com/keelson-dev/keelson/kubelet/resolv"
	"github.com/keelson-dev/keelson/kubelet/security"
	"github.com/keelson-dev/keelson/kubelet/server"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

// Host is one node of real containers. Make one with New.
type Host struct {
	parts   Parts
	options Options
	kubelet *kubelet.Kubelet
	runs    []controllers.Runnable
}

// New assembles a node. It looks at the machine but changes nothing. It fails with ErrOptions for
// parts and options that cannot work, and where the machine cannot be read or has no cgroups.
func New(p Parts, o Options) (*Host, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	h := &Host{parts: p, options: o}
	registration, err := h.registration()
	if err != nil {
		return nil, err
	}
	host, err := h.host(registration)
	if err != nil {
		return nil, err
	}
	if o.Adapt != nil {
		o.Adapt(&host)
	}
	h.kubelet, err = kubelet.New(kubelet.Sources{Pods: p.Pods, Nodes: p.Node}, p.Client, p.Runtime, p.Recorder, kubelet.Options{
		NodeName: p.Name, Registration: registration, Host: host, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	h.runs = append(h.runs, h.kubelet)
	if s := o.Server; s.Listener != nil {
		api := server.New(h.kubelet, p.Runtime, server.Options{
			NodeName: p.Name, Authenticator: s.Authenticator, Authorizer: s.Authorizer, Logger: o.Logger,
		})
		h.runs = append(h.runs, controllers.RunnableFunc(func(ctx context.Context) error {
			return api.Run(ctx, s.Listener, s.Certificate)
		}))
	}
	return h, nil
}

// Run runs the node until the context ends, and returns nil then. Its containers go on.
func (h *Host) Run(ctx context.Context) error {
	return controllers.Group(h.runs...).Run(ctx)
}

// registration is what the node says of itself.
func (h *Host) registration() (kubelet.Registration, error) {
	found, err := machine.Reader{}.Read()
	if err != nil {
		return kubelet.Registration{}, err
	}
	var storage uint64
	if disk, err := machine.Disk(nearest(h.options.Dir)); err == nil {
		storage = disk.Capacity
	}
	capacity := found.Capacity(maxPods, storage)
	for name, quantity := range h.options.Capacity {
		capacity[name] = quantity
	}
	r := kubelet.Registration{
		Labels: h.options.Labels, Capacity: capacity, Allocatable: machine.Allocatable(capacity),
		Info: found.Info, Addresses: addresses(h.parts.Name, h.options.Addresses),
	}
	if l := h.options.Server.Listener; l != nil {
		if at, ok := l.Addr().(*net.TCPAddr); ok {
			r.ServerPort = int32(at.Port) //nolint:gosec // a port
		}
	}
	for _, cidr := range h.options.PodCIDRs {
		r.PodCIDRs = append(r.PodCIDRs, cidr.String())
	}
	return r, nil
}

// maxPods is how many pods a node takes unless its capacity says otherwise, as upstream.
const maxPods = 110

// host is what the kubelet has of the machine.
func (h *Host) host(r kubelet.Registration) (kubelet.Host, error) {
	log := h.options.Logger
	tree, err := cgroup.New(path.Clean(h.options.CgroupRoot), cgroup.Options{
		Offered: r.Allocatable, MemoryCapacity: r.Capacity.Memory().Value(), Logger: log,
	})
	if err != nil {
		return kubelet.Host{}, fmt.Errorf("cgroups of node %s: %w", h.parts.Name, err)
	}
	cache := objects.New(h.parts.Client, h.parts.Watches, objects.Options{Changed: h.changed, Logger: log})
	h.runs = append(h.runs, cache)
	files, err := volume.New(h.options.Dir, volume.Sources{Objects: cache, Tokens: volume.TokensOf(h.parts.Client)}, volume.Options{
		Allocatable: func() corev1.ResourceList { return r.Allocatable }, Logger: log,
	})
	if err != nil {
		return kubelet.Host{}, err
	}
	policy, users, err := h.security()
	if err != nil {
		return kubelet.Host{}, err
	}
	keyring, err := credentials.New(cache, credentials.Options{
		ConfigFile: filepath.Join(h.options.Dir, "config.json"), Recorder: h.parts.Recorder, Logger: log,
	})
	if err != nil {
		return kubelet.Host{}, err
	}
	if runtime, ok := h.parts.Runtime.(logs.Runtime); ok {
		h.runs = append(h.runs, logs.NewRotator(runtime, logs.RotatorOptions{Logger: log}))
	}
	probes := prober.New(prober.Options{HostIP: h.hostIP(), Recorder: h.parts.Recorder})
	return kubelet.Host{
		Volumes: referring{files, cache, users},
		Environment: environment.New(environment.Sources{Objects: cache, Services: h.parts.Services, Files: files},
			environment.Options{Logger: log}),
		Cgroups:     tree,
		Credentials: keyring,
		Resolver: resolv.New(resolv.Options{
			Servers: h.options.DNS.Servers, Domain: h.options.DNS.Domain, File: h.options.DNS.ResolvConf, NodeIPs: h.options.Addresses,
		}),
		Security:  policy,
		Admitters: []kubelet.Admitter{admitter{policy}},
		Prober:    probes,
		Hooks: kubelet.ProbeFunc(func(ctx context.Context, target kubelet.ProbeTarget) error {
			return probes.Hook(ctx, target, target.Probe.HTTPGet)
		}),
		Messages: messages{},
		LogDir:   h.options.LogDir,
	}, nil
}

// security is what pods may do on this machine, and the users that it can give to pods.
func (h *Host) security() (*security.Policy, *security.Allocator, error) {
	users, err := security.NewAllocator(security.Users{})
	if err != nil {
		return nil, nil, err
	}
	policy, err := security.New(security.Options{
		SeccompRoot: filepath.Join(h.options.Dir, "seccomp"), Host: security.Inspect(os.DirFS("/")), Users: users,
	})
	return policy, users, err
}

// changed is told of pods whose configmaps or secrets have changed.
func (h *Host) changed(pods []types.UID) {
	for _, uid := range pods {
		h.kubelet.Sync(uid)
	}
}

func (h *Host) hostIP() string {
	if len(h.options.Addresses) == 0 {
		return ""
	}
	return h.options.Addresses[0].String()
}

// addresses are a node's, with its name.
func addresses(name string, list []netip.Addr) []corev1.NodeAddress {
	var out []corev1.NodeAddress
	for _, a := range list {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
	}
	if len(out) == 0 {
		return nil
	}
	return append(out, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
}

// nearest is the path, or the nearest above it that exists.
func nearest(dir string) string {
	for dir != filepath.Dir(dir) {
		if _, err := machine.Disk(dir); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return dir
}
