package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/connect"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/inprocess"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/cri/streams"
	"github.com/keelson-dev/keelson/internal/inmemory"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/machine"
	"github.com/keelson-dev/keelson/kubelet/server"
	"github.com/keelson-dev/keelson/kubelet/stats"
	"github.com/keelson-dev/keelson/kubelet/stats/activity"
)

// Dial returns a function that connects to the API server without a network, as the given identity, for clients that need
// a connection of their own: client-go's for exec, attach and port-forward, whose configurations' Transport they do not use.
// The address is not used. What is sent over the connection is unencrypted HTTP/1.1.
func (c *Cluster) Dial(id *authn.Identity) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := c.front.memory.Dial(ctx, func(ctx context.Context) context.Context { return inprocess.Attach(ctx, id) })
		if err != nil && ctx.Err() == nil {
			return nil, ErrClosed
		}
		return conn, err
	}
}

// connector is how the API server reaches kubelets: as the options say, or in this process if the nodes are simulated.
func (c *Cluster) connector() apiserver.Connector {
	if c.options.Server.Connector != nil || c.options.Nodes.Count == 0 || c.options.Nodes.Run != nil {
		return c.options.Server.Connector
	}
	return connect.New(connect.Options{Ports: c.dialPort, Kubelets: func(name string) connect.Dial {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			n, err := c.Node(name)
			if err != nil {
				return nil, err
			}
			return n.dial(ctx, network, address)
		}
	}})
}

// dialPort connects to a port of a simulated pod.
func (c *Cluster) dialPort(ctx context.Context, network, address string) (net.Conn, error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return nil, err
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil, err
	}
	for _, n := range c.nodes.all {
		if n.cidr.Contains(ip) {
			return n.dialPort(ctx, host, int32(port))
		}
	}
	return nil, fmt.Errorf("dial %s %s: no route to host: no simulated pod has that address", network, address)
}

// dial connects to the node's kubelet.
func (n *Node) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	s := n.server
	n.mu.Unlock()
	if s != nil {
		if conn, err := s.Dial(ctx, nil); err == nil || ctx.Err() != nil {
			return conn, err
		}
	}
	return nil, fmt.Errorf("dial %s %s: connect: connection refused: the simulated node is stopped", network, address)
}

// dialPort connects to a port of the pod that has the address.
func (n *Node) dialPort(ctx context.Context, ip string, port int32) (net.Conn, error) {
	all, err := n.runtime.ListSandboxes(ctx, cri.Filter{})
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		status, err := n.runtime.SandboxStatus(ctx, s.ID)
		if err == nil && len(status.IPs) > 0 && status.IPs[0] == ip {
			return n.runtime.DialPort(ctx, s.ID, port)
		}
	}
	return nil, fmt.Errorf("dial %s: no route to host: no simulated pod has that address", ip)
}

// serve makes the kubelet's server reachable until the function returned is called, which ends its requests. Nothing of the
// server exists before it is asked for.
func (n *Node) serve(k *kubelet.Kubelet, o kubelet.Options) (end func()) {
	started := time.Now()
	handler := sync.OnceValue(func() http.Handler { return n.handler(k, o.Capacity, started) })
	s := inmemory.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler().ServeHTTP(w, r) }))
	n.mu.Lock()
	n.server = s
	n.mu.Unlock()
	return func() {
		n.mu.Lock()
		n.server = nil
		n.mu.Unlock()
		s.Close()
	}
}

// handler makes the kubelet's server. Only the API server reaches it, which has authorized its clients.
func (n *Node) handler(k *kubelet.Kubelet, capacity corev1.ResourceList, started time.Time) http.Handler {
	served := streams.New(n.runtime, streams.Options{})
	so := server.Options{
		NodeName: n.name, Authorizer: alwaysallow.New(), Streams: served, Logger: n.cluster.log,
		Authenticator: authn.Func(func(*http.Request) (*authn.Identity, error) { return &authn.Identity{Name: KubeletClient}, nil }),
	}
	hardware := hardware{n.runtime, capacity}
	collector, err := stats.New(n.name, n.runtime, hardware, stats.Options{
		Images: n.runtime, Pods: k.Pods, NodeDir: "/", Started: started, Disk: hardware.disk, Logger: n.cluster.log,
	})
	if err == nil { // it fails only without a name, a runtime or a machine
		so.Summary = func(ctx context.Context) (v1alpha1.Summary, error) {
			s, err := collector.Summary(ctx)
			if err != nil {
				return v1alpha1.Summary{}, err
			}
			return *s, nil
		}
		so.Metrics = server.Metrics{
			Kubelet: activity.New(n.name, n.counts), Cadvisor: collector.ContainerMetrics(), Resource: collector.ResourceMetrics(),
		}
	}
	return server.New(k, streaming{n.runtime, served}, so)
}

// counts are what runs on the node.
func (n *Node) counts() activity.Counts {
	c := activity.Counts{Containers: map[string]int{}}
	sandboxes, err := n.runtime.ListSandboxes(context.Background(), cri.Filter{})
	if err != nil {
		return c
	}
	for _, s := range sandboxes {
		if s.State == cri.SandboxReady {
			c.Pods++
		}
	}
	containers, err := n.runtime.ListContainers(context.Background(), cri.Filter{})
	if err != nil {
		return c
	}
	for i := range containers {
		c.Containers[containers[i].State.String()]++
	}
	return c
}

// streaming is a runtime with URLs for its streams.
type streaming struct {
	*simulated.Runtime
	cri.Streamer
}

// hardware is the machine that a simulated node pretends to be.
type hardware struct {
	runtime  *simulated.Runtime
	capacity corev1.ResourceList
}

func (h hardware) has(name corev1.ResourceName, usual string) uint64 {
	q, ok := h.capacity[name]
	if !ok {
		q = resource.MustParse(usual)
	}
	return uint64(max(q.Value(), 0))
}

// Usage implements stats.Machine: the node uses what its containers use.
func (h hardware) Usage(now time.Time) machine.Usage {
	use := h.runtime.Usage()
	all := h.has(corev1.ResourceMemory, "32Gi")
	return machine.Usage{
		At: now, CPU: use.CoreNanoSeconds, Processes: use.Processes,
		Memory: cri.MemoryUsage{At: now, WorkingSet: use.Memory, Usage: use.Memory, RSS: use.Memory, Available: all - min(use.Memory, all)},
	}
}

func (h hardware) disk(string) (machine.Filesystem, error) {
	all := h.has(corev1.ResourceEphemeralStorage, "256Gi")
	images, _, err := h.runtime.ImageFilesystem(context.Background())
	if err != nil {
		return machine.Filesystem{}, err
	}
	used := min(images.UsedBytes, all)
	return machine.Filesystem{Capacity: all, Used: used, Available: all - used}, nil
}
