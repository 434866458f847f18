package host

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/eviction"
	"github.com/keelson-dev/keelson/kubelet/garbage"
	"github.com/keelson-dev/keelson/kubelet/logs"
	"github.com/keelson-dev/keelson/kubelet/pinning"
	"github.com/keelson-dev/keelson/kubelet/resolv"
	"github.com/keelson-dev/keelson/kubelet/security"
	"github.com/keelson-dev/keelson/kubelet/shutdown"
)

// ErrOptions is wrapped by New's errors about invalid options.
var ErrOptions = errors.New("bad options of a node")

// Options of a node. The zero value is upstream's layout of a machine with one node.
type Options struct {
	// Dir is where volumes and checkpoints are, LogDir where containers' logs are: /var/lib/kubelet
	// and /var/log/pods when empty.
	Dir, LogDir string
	// StaticDir holds manifests of static pods; empty is none.
	StaticDir string
	// CgroupRoot is the cgroup of all pods; /kubepods when empty.
	CgroupRoot string
	// Addresses are the node's.
	Addresses []netip.Addr
	// SandboxSeccomp, if set, is the path of the seccomp profile for sandboxes that would have the runtime's default,
	// whose compilation is slow.
	SandboxSeccomp string
	// Users are the user IDs for pods; the zero value is the machine's full range. Nodes that share a machine must
	// divide it.
	Users  security.Users
	DNS    DNS
	Upkeep Upkeep
	Pinning
	// Shutdown is how pods end before the machine goes down.
	Shutdown Shutdown
	// Server is the node's own server, for logs, exec and so on.
	Server Server
	Registration
	// Adapt, if set, may replace parts of the machine before the kubelet uses them.
	Adapt  func(parts *kubelet.Host)
	Logger *slog.Logger
}

// Upkeep is how a node reacts to a shortage of resources. The zero value is upstream's.
type Upkeep struct {
	// Thresholds are the eviction thresholds; nil means upstream's. eviction.Parse parses others.
	Thresholds []eviction.Threshold
	// Transition is how long a condition of shortage lasts after its thresholds were last met; 5 min by default.
	Transition time.Duration
	// MaxGrace is the maximum grace period of pods, in seconds, when a soft threshold is met.
	MaxGrace int64
	// Images is when unused images are removed; nil means upstream's.
	Images *garbage.ImagePolicy
	// Logs is when logs of containers are rotated; its Logger counts for nothing.
	Logs logs.RotatorOptions
}

// Shutdown is how a node ends its pods before its machine goes down. The zero value is upstream's default: pods are not
// ended.
type Shutdown struct {
	// Inhibitor tells of shutdowns and delays them, for as long as all Groups together.
	Inhibitor shutdown.Inhibitor
	Groups    []shutdown.Group
}

// Pinning is what the node keeps for itself, and what it gives to containers alone. The zero value is upstream's default:
// containers share everything.
type Pinning struct {
	// Policies say what containers get to themselves; their Reserved is what is reserved in all.
	Policies pinning.Settings
	Reserved Reserved
}

// Reserved is what the node keeps for itself besides what eviction keeps free: pods cannot use it.
type Reserved struct {
	// System is for the machine's own processes, Kube for those of Kubernetes.
	System, Kube corev1.ResourceList
}

// lists are those that say something.
func (r Reserved) lists() []corev1.ResourceList { return []corev1.ResourceList{r.System, r.Kube} }

// Registration is what is set on the node when it registers.
type Registration struct {
	Labels map[string]string
	Taints []corev1.Taint
}

// Server is how the node's server is reached. The Authenticator and the Authorizer of the node's parts decide about its
// clients. The zero value is a node without a server.
type Server struct {
	// Listener is where it listens; it is closed when the node's Run ends.
	Listener net.Listener
	// Certificate is called for every handshake.
	Certificate func() (*tls.Certificate, error)
}

// DNS is how pods resolve names.
type DNS struct {
	// Servers are the cluster's DNS servers; without any, pods use the machine's.
	Servers []netip.Addr
	// Domain is the cluster's; cluster.local when empty.
	Domain string
	// ResolvConf is the machine's own file; when empty /etc/resolv.conf, or what is behind it.
	ResolvConf string
}

func (o Options) complete() (Options, error) {
	o.Dir = cmp.Or(o.Dir, "/var/lib/kubelet")
	o.LogDir = cmp.Or(o.LogDir, "/var/log/pods")
	o.CgroupRoot = cmp.Or(o.CgroupRoot, "/kubepods")
	o.DNS.Domain = cmp.Or(o.DNS.Domain, "cluster.local")
	o.DNS.ResolvConf = cmp.Or(o.DNS.ResolvConf, resolv.File("/"))
	for name, path := range map[string]string{"Dir": o.Dir, "LogDir": o.LogDir, "CgroupRoot": o.CgroupRoot} {
		if !filepath.IsAbs(path) || strings.Contains(path, "..") {
			return o, fmt.Errorf("%w: %s is %q: must be an absolute path", ErrOptions, name, path)
		}
	}
	if o.Upkeep.Thresholds == nil {
		var err error
		if o.Upkeep.Thresholds, err = eviction.Parse(eviction.Default()); err != nil {
			return o, err
		}
	}
	o.overrideCPU()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
