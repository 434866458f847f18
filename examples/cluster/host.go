package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/node"
	"github.com/keelson-dev/keelson/node/bundled"
	"github.com/keelson-dev/keelson/node/filelock"
	"github.com/keelson-dev/keelson/node/host"
	"github.com/keelson-dev/keelson/node/nodetools"
	noderemote "github.com/keelson-dev/keelson/node/remote"
	"github.com/keelson-dev/keelson/overlay"
	"github.com/keelson-dev/keelson/overlay/rtnetlink"
)

// hostCommand is the argument that makes this program a host of --hosts netns.
const hostCommand = "host-of-cluster"

// hostConfig is what a host is told on its standard input, which then stays open as long as it is to run.
type hostConfig struct {
	Name, Dir      string
	Lock           string // a file that is held while this host runs
	Address        netip.Addr
	Pods, Services netip.Prefix
	Archives       []string
	Mirrors        []string
	DNS            netip.Addr
	Domain         string
	Policies       bool // whether network policies hold
	Verbose        bool
}

func (c *hostConfig) kubeconfig() string      { return filepath.Join(c.Dir, "keys", "kubelet.conf") }
func (c *hostConfig) proxyKubeconfig() string { return filepath.Join(c.Dir, "keys", "proxy.conf") }
func (c *hostConfig) policyKubeconfig() string {
	return filepath.Join(c.Dir, "keys", "network-policies.conf")
}
func (c *hostConfig) certificate() string { return filepath.Join(c.Dir, "keys", "kubelet.crt") }
func (c *hostConfig) key() string         { return filepath.Join(c.Dir, "keys", "kubelet.key") }
func (c *hostConfig) clientCA() string    { return filepath.Join(c.Dir, "keys", "ca.crt") }

// runHost runs a host until its input ends. It knows the cluster only by the address of the API server.
func runHost(ctx context.Context, input io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReader(input)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("what to run: %w", err)
	}
	var c hostConfig
	if err := json.Unmarshal(line, &c); err != nil {
		return fmt.Errorf("what to run: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines) // until whoever started this has ended
		cancel()
	}()
	release, err := filelock.Take(ctx, c.Lock, nil) // of a process whose starter was killed, and that is about to end
	if err == nil {
		defer release()
		err = c.run(ctx, out)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (c *hostConfig) logger() *slog.Logger {
	return (&settings{verbose: c.Verbose}).logger().With("host", c.Name)
}

func (c *hostConfig) run(ctx context.Context, out io.Writer) error {
	access, err := kubeconfig.Load(kubeconfig.Options{Path: c.kubeconfig()})
	if err != nil {
		return err
	}
	config := access.Config
	config.QPS, config.Burst, config.UserAgent = 50, 100, "keelson-kubelet" // upstream's limits
	parts, cache, err := noderemote.New(config, scheme.Scheme, c.Name, noderemote.Options{Logger: c.logger()})
	if err != nil {
		return err
	}
	services, err := c.network(out)
	if err != nil {
		return err
	}
	return lifecycle.Group(cache, services, lifecycle.Func(func(ctx context.Context) error { return c.node(ctx, parts, out) })).Run(ctx)
}

// node runs containerd and the kubelet, once the node has a network for its pods.
func (c *hostConfig) node(ctx context.Context, parts node.Parts, out io.Writer) error {
	cidr, err := c.register(ctx, parts.Client)
	if err != nil {
		return err
	}
	tools, err := nodetools.Find(nodetools.Options{})
	if err != nil {
		return err
	}
	mtu, err := c.mtu(ctx)
	if err != nil {
		return err
	}
	n, err := bundled.New(c.Dir, cidr, tools, bundled.Options{
		Network: c.Pods, Addresses: []netip.Addr{c.Address}, MTU: mtu, Archives: c.Archives, Mirrors: c.Mirrors, Logger: c.logger(),
		Progress: func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) },
	})
	if err != nil {
		return err
	}
	if err := starting(ctx, n.Start, func(err error) { fmt.Fprintf(out, "starting failed, trying again: %v\n", err) }); err != nil {
		return err
	}
	authorities, err := x509.Open(c.clientCA(), x509.Options{Log: c.logger()})
	if err != nil {
		return err
	}
	parts.Authenticator = authn.WithGroup(authn.Union(parts.Authenticator, x509.New(authorities)), authn.GroupAuthenticated)
	o := host.Options{Server: host.Server{Certificate: func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.certificate(), c.key())
		return &pair, err
	}}}
	o.Server.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(c.Address.String(), kubeletPort))
	if err != nil {
		return err
	}
	defer func() { _ = o.Server.Listener.Close() }() // if serving did not
	if c.DNS.IsValid() {
		o.DNS = host.DNS{Servers: []netip.Addr{c.DNS}, Domain: c.Domain}
	}
	return lifecycle.Group(authorities, lifecycle.Func(func(ctx context.Context) error { return n.Run(ctx, parts, nil, o) })).Run(ctx)
}

// mtu is the largest packet of pods, of which something is left for VXLAN.
func (c *hostConfig) mtu(ctx context.Context) (int, error) {
	w, err := rtnetlink.New(c.Address, rtnetlink.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = w.Close() }()
	u, err := w.Underlay(ctx)
	return overlay.MTU(u), err
}

// register makes the node's object, if there is none, and returns the network that a controller gives it. The kubelet, which
// completes the object, cannot run before.
func (c *hostConfig) register(ctx context.Context, api client.Client) (netip.Prefix, error) {
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: c.Name}
	for {
		node, err := client.As[*corev1.Node](api.Get(ctx, at))
		if apierrors.IsNotFound(err) {
			blank := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}
			node, err = client.As[*corev1.Node](api.Create(ctx, at, blank, metav1.CreateOptions{}))
		}
		if err == nil && node.Spec.PodCIDR != "" {
			return netip.ParsePrefix(node.Spec.PodCIDR)
		}
		if err != nil && ctx.Err() == nil {
			c.logger().Warn("the node cannot be registered yet", "error", err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return netip.Prefix{}, ctx.Err()
		}
	}
}

// starting starts a node, more than once if need be: what it needs may fail while it starts.
func starting(ctx context.Context, start func(context.Context) error, failed func(error)) error {
	for attempts := 3; ; attempts-- {
		err := start(ctx)
		switch {
		case errors.Is(err, bundled.ErrNetworkInUse):
			return fmt.Errorf("%w: --cluster-cidr chooses another", err)
		case err == nil, ctx.Err() != nil, attempts == 1:
			return err
		}
		failed(err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hostMain is main for a host.
func hostMain(ctx context.Context) int {
	if err := runHost(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}
