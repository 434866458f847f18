package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"

	"github.com/keelson-dev/keelson/podspec/origin"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/cgroup"
	"github.com/keelson-dev/keelson/kubelet/checkpoint"
	"github.com/keelson-dev/keelson/kubelet/credentials"
	"github.com/keelson-dev/keelson/kubelet/deviceplugin"
	"github.com/keelson-dev/keelson/kubelet/dra"
	"github.com/keelson-dev/keelson/kubelet/environment"
	"github.com/keelson-dev/keelson/kubelet/logs"
	"github.com/keelson-dev/keelson/kubelet/machine"
	"github.com/keelson-dev/keelson/kubelet/objects"
	"github.com/keelson-dev/keelson/kubelet/pinning"
	"github.com/keelson-dev/keelson/kubelet/prober"
	"github.com/keelson-dev/keelson/kubelet/resolv"
	"github.com/keelson-dev/keelson/kubelet/security"
	"github.com/keelson-dev/keelson/kubelet/server"
	"github.com/keelson-dev/keelson/kubelet/static"
	"github.com/keelson-dev/keelson/kubelet/stats/activity"
	"github.com/keelson-dev/keelson/kubelet/volume"
	"github.com/keelson-dev/keelson/kubelet/volume/claims"
	"github.com/keelson-dev/keelson/kubelet/volume/csi"
	"github.com/keelson-dev/keelson/kubelet/volume/podcertificates"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/node"
	"github.com/keelson-dev/keelson/podspec"
)

// Host is one node of real containers. Make one with New.
type Host struct {
	parts   node.Parts
	runtime kubelet.Runtime
	options Options
	kubelet *kubelet.Kubelet
	upkeep  *upkeep
	pins    *pinning.Allocator
	runs    []lifecycle.Runnable
}

// New assembles a node whose containers are run by runtime, including its optional parts. It reads the machine's state
// but changes nothing. It fails with node.ErrParts and ErrOptions for invalid arguments, and if the machine cannot be
// read or has no cgroups.
func New(p node.Parts, runtime kubelet.Runtime, o Options) (*Host, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if runtime == nil {
		return nil, fmt.Errorf("%w: a node needs a runtime", ErrOptions)
	}
	if o.Server.Listener != nil && (p.Authenticator == nil || p.Authorizer == nil) {
		return nil, fmt.Errorf("%w: the parts have no Authenticator and Authorizer for the node's server", ErrOptions)
	}
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	h := &Host{parts: p, runtime: runtime, options: o}
	found, err := machine.Reader{}.Read()
	if err != nil {
		return nil, err
	}
	registration := h.registration(found)
	tree, err := cgroup.New(path.Clean(o.CgroupRoot), cgroup.Options{
		Offered: h.offered(registration.Capacity, found), Exclusive: h.exclusive, MemoryCapacity: registration.Capacity.Memory().Value(), Logger: o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("cgroups of node %s: %w", p.Name, err)
	}
	u := &upkeep{}
	u.activity = activity.New(p.Name, u.counts)
	if h.pins, err = h.pinning(registration); err != nil {
		return nil, err
	}
	host, err := h.host(registration, tree, u)
	if err != nil {
		return nil, err
	}
	if o.Adapt != nil {
		o.Adapt(&host)
	}
	sources := kubelet.Sources{Pods: p.Pods, Nodes: p.Node}
	if sources.Static, err = h.static(); err != nil {
		return nil, err
	}
	h.kubelet, err = kubelet.New(sources, p.Client, timedRuntime(runtime, u.activity.RuntimeOperation), p.Recorder, kubelet.Options{
		NodeName: p.Name, Registration: registration, Host: host, Observer: u, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	h.runs = append(h.runs, h.pins, h.kubelet)
	if err := h.startUpkeep(u, tree, found); err != nil {
		return nil, err
	}
	h.upkeep = u
	h.serve()
	return h, nil
}

// serve adds the node's server.
func (h *Host) serve() {
	s := h.options.Server
	if s.Listener == nil {
		return
	}
	api := server.New(h.kubelet, h.runtime, server.Options{
		NodeName: h.parts.Name, Authenticator: h.parts.Authenticator, Authorizer: h.parts.Authorizer, Logger: h.options.Logger,
		Summary: h.upkeep.summary,
		Metrics: server.Metrics{Kubelet: h.upkeep.activity, Cadvisor: h.upkeep.stats.ContainerMetrics(), Resource: h.upkeep.stats.ResourceMetrics()},
	})
	h.runs = append(h.runs, lifecycle.Func(func(ctx context.Context) error {
		return api.Run(ctx, s.Listener, s.Certificate)
	}))
}

// static are the pods of Options.StaticDir, with their mirrors.
func (h *Host) static() (*informer.Informer[*corev1.Pod], error) {
	if h.options.StaticDir == "" {
		return nil, nil
	}
	dir, err := static.New(h.options.StaticDir, h.parts.Name, static.Options{Prepare: prepareStatic, Logger: h.options.Logger})
	if err != nil {
		return nil, err
	}
	pods := informer.New(dir, informer.Options{Logger: h.options.Logger})
	mirrors, err := static.NewMirrors(static.Sources{Static: pods, Pods: h.parts.Pods, Nodes: h.parts.Node}, h.parts.Client, h.parts.Name,
		static.MirrorOptions{Busy: h.busy, Logger: h.options.Logger})
	if err != nil {
		return nil, err
	}
	h.runs = append(h.runs, pods, mirrors)
	return pods, nil
}

// busy reports whether containers of a static pod still run.
func (h *Host) busy(namespace, name string) bool {
	pod, known := h.kubelet.Pod(namespace, name)
	return known && origin.Static(pod) && !h.kubelet.Ended(pod.UID)
}

// prepareStatic does for static pods what the API server does for others.
func prepareStatic(pod *corev1.Pod) error {
	podspec.DefaultPod(pod)
	return podspec.ValidateCreate(pod).ToAggregate()
}

// Resources returns the present use of CPU and memory by the node and its pods.
func (h *Host) Resources(ctx context.Context) (*statsv1alpha1.Summary, error) {
	return h.upkeep.stats.Resources(ctx)
}

// Run runs the node until the context ends, and then returns nil. Its containers keep running.
func (h *Host) Run(ctx context.Context) error {
	return lifecycle.Group(h.runs...).Run(ctx)
}

// registration is the node's initial status.
func (h *Host) registration(found machine.Machine) kubelet.Registration {
	var storage uint64
	if disk, err := machine.Disk(nearest(h.options.Dir)); err == nil {
		storage = disk.Capacity
	}
	capacity := found.Capacity(maxPods, storage)
	for name, quantity := range h.parts.Capacity {
		capacity[name] = quantity
	}
	r := kubelet.Registration{
		Labels: h.options.Labels, Taints: h.options.Taints, Capacity: capacity, Allocatable: machine.Allocatable(capacity, h.reserved(capacity)...),
		Info: found.Info, Addresses: addresses(h.parts.Name, h.options.Addresses),
	}
	if l := h.options.Server.Listener; l != nil {
		if at, ok := l.Addr().(*net.TCPAddr); ok {
			r.ServerPort = int32(at.Port) //nolint:gosec // a port
		}
	}
	for _, cidr := range h.parts.PodCIDRs {
		r.PodCIDRs = append(r.PodCIDRs, cidr.String())
	}
	return r
}

// maxPods is the default pod capacity of a node, as in upstream.
const maxPods = 110

// host returns the kubelet's interface to the machine.
func (h *Host) host(r kubelet.Registration, tree *cgroup.Tree, u *upkeep) (kubelet.Host, error) {
	log := h.options.Logger
	memory, store, err := h.memory()
	if err != nil {
		return kubelet.Host{}, err
	}
	cache := objects.New(h.parts.Client, h.parts.Watches, objects.Options{Changed: h.changed, Logger: log})
	h.runs = append(h.runs, cache)
	tokens := volume.TokensOf(h.parts.Client)
	drivers, devices, err := h.drivers(tokens)
	if err != nil {
		return kubelet.Host{}, err
	}
	files, err := volume.New(h.options.Dir, volume.Sources{
		Objects: cache, Tokens: tokens, Trust: volume.TrustBundlesOf(h.parts.Client),
		Claims: claims.ReaderOf(h.parts.Client), CSI: drivers,
		Certificates: podcertificates.New(h.parts.Client, h.node, podcertificates.Options{Recorder: h.parts.Recorder, Logger: log}),
	}, volume.Options{
		Allocatable: func() corev1.ResourceList { return r.Allocatable }, Logger: log,
		RecursiveReadOnly: (&handlers{runtime: h.runtime}).recursiveReadOnly, NodeLabels: h.labels,
	})
	if err != nil {
		return kubelet.Host{}, err
	}
	policy, users, err := h.security(store)
	if err != nil {
		return kubelet.Host{}, err
	}
	keyring, err := credentials.New(cache, credentials.Options{
		ConfigFile: filepath.Join(h.options.Dir, "config.json"), Recorder: h.parts.Recorder, Logger: log,
	})
	if err != nil {
		return kubelet.Host{}, err
	}
	h.rotateLogs()
	probes := prober.New(prober.Options{HostIP: h.hostIP(), Recorder: h.parts.Recorder})
	return kubelet.Host{
		Volumes: referring{files, cache, users},
		Devices: devices,
		Environment: environment.New(environment.Sources{Objects: cache, Services: h.parts.Services, Files: files},
			environment.Options{Logger: log}),
		Cgroups:     pinned{tree, h.pins},
		Credentials: keyring,
		Resolver: resolv.New(resolv.Options{
			Servers: h.options.DNS.Servers, Domain: h.options.DNS.Domain, File: h.options.DNS.ResolvConf, NodeIPs: h.options.Addresses,
		}),
		Security:  cheaper{policy, h.options.SandboxSeccomp},
		Admitters: []kubelet.Admitter{u, admitter{policy}, allocator{h.pins}},
		Pressure:  u,
		Problem:   u.problem,
		Memory:    memory,
		Prober:    probes,
		Hooks: kubelet.ProbeFunc(func(ctx context.Context, target kubelet.ProbeTarget) error {
			return probes.Hook(ctx, target, target.Probe.HTTPGet)
		}),
		Messages: messages{},
		Logs:     kubelet.Logs{Dir: h.options.LogDir, Remover: messages{}},
	}, nil
}

// rotateLogs keeps the containers' logs small, if the runtime can open them again.
func (h *Host) rotateLogs() {
	o := h.options.Upkeep.Logs
	o.Logger = h.options.Logger
	if runtime, ok := h.runtime.(logs.Runtime); ok {
		h.runs = append(h.runs, logs.NewRotator(runtime, o))
	}
}

// drivers are the node's drivers of volumes and of devices.
func (h *Host) drivers(tokens volume.Tokens) (*csi.Drivers, kubelet.Devices, error) {
	drivers, err := csi.New(h.options.Dir, h.parts.Name, csi.Sources{Client: h.parts.Client, Tokens: tokens}, csi.Options{
		Sync: func(uid types.UID) { h.kubelet.Sync(uid) }, Recorder: h.parts.Recorder, Logger: h.options.Logger,
	})
	if err != nil {
		return nil, kubelet.Devices{}, err
	}
	claimed, err := dra.New(h.options.Dir, h.parts.Name, h.parts.Client, dra.Options{Logger: h.options.Logger})
	if err != nil {
		return nil, kubelet.Devices{}, err
	}
	plugins, err := h.plugins()
	if err != nil {
		return nil, kubelet.Devices{}, err
	}
	h.runs = append(h.runs, drivers, claimed, plugins)
	return drivers, kubelet.Devices{Claims: claimed, Plugins: plugins}, nil
}

// plugins are the node's device plugins.
func (h *Host) plugins() (*deviceplugin.Plugins, error) {
	return deviceplugin.New(h.options.Dir, deviceplugin.Options{
		Changed: func() { h.kubelet.Report() }, Sync: func(uid types.UID) { h.kubelet.Sync(uid) }, Logger: h.options.Logger,
	})
}

// security returns the pods' security policy on this machine, and the user ranges for pods.
func (h *Host) security(store *checkpoint.Store) (*security.Policy, *security.Allocator, error) {
	const name = "users"
	taken := map[types.UID]uint32{}
	if err := store.Load(name, &taken); err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		h.options.Logger.Warn("starting without the checkpoint of pods' users", "error", err)
	}
	settings := h.options.Users
	settings.Taken, settings.Save = taken, func(now map[types.UID]uint32) error { return store.Save(name, now) }
	users, err := security.NewAllocator(settings)
	if err != nil && len(taken) > 0 {
		h.options.Logger.Warn("starting without the checkpoint of pods' users", "error", err)
		settings.Taken = nil
		users, err = security.NewAllocator(settings)
	}
	if err != nil {
		return nil, nil, err
	}
	policy, err := security.New(security.Options{
		SeccompRoot: filepath.Join(h.options.Dir, "seccomp"), Host: security.Inspect(os.DirFS("/")), Users: users,
	})
	return policy, users, err
}

// node returns the node's name and its UID, which is empty until the node is registered.
func (h *Host) node() (name string, uid types.UID) {
	if node, ok := h.parts.Node.Get("", h.parts.Name); ok {
		uid = node.UID
	}
	return h.parts.Name, uid
}

// labels are those of the node.
func (h *Host) labels() map[string]string {
	node, ok := h.parts.Node.Get("", h.parts.Name)
	if !ok {
		return h.options.Labels
	}
	return node.Labels
}

// changed is called for pods whose configmaps or secrets have changed.
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

// addresses are the node's addresses, with its name.
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

// nearest is the path, or its nearest existing parent.
func nearest(dir string) string {
	for dir != filepath.Dir(dir) {
		if _, err := machine.Disk(dir); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return dir
}
