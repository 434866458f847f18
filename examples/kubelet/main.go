// Kubelet makes this machine a node of any Kubernetes cluster: it is only a kubelet, given a kubeconfig for the API
// server and the socket of a container runtime. Copy it and change what you like.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/cri/remote"
	"github.com/keelson-dev/keelson/kubelet/eviction"
	"github.com/keelson-dev/keelson/node/host"
	"github.com/keelson-dev/keelson/node/kubeletconfig"
)

const usage = `kubelet makes this machine a node of a Kubernetes cluster and runs the pods that are bound to it.

  kubelet --kubeconfig FILE [flags]

It needs root, a container runtime that serves CRI (containerd, CRI-O), a CNI configuration of that runtime, and a
kubeconfig by which the API server knows it as system:node:NAME in the group system:nodes:

  openssl req -new -newkey rsa:2048 -noenc -keyout n1.key -subj /O=system:nodes/CN=system:node:n1 |
    openssl x509 -req -CA ca.crt -CAkey ca.key -days 365 -out n1.crt
  kubectl config --kubeconfig n1.conf set-cluster c --server https://SERVER:6443 --certificate-authority ca.crt
  kubectl config --kubeconfig n1.conf set-credentials n1 --client-certificate n1.crt --client-key n1.key
  kubectl config --kubeconfig n1.conf set-context c --cluster c --user n1
  kubectl config --kubeconfig n1.conf use-context c
  kubelet --kubeconfig n1.conf --node-name n1 --client-ca ca.crt

Or, with a bootstrap token in boot.conf, it requests its certificate, writes n1.conf and keeps the certificate valid:

  kubelet --bootstrap-kubeconfig boot.conf --kubeconfig n1.conf --rotate-certificates

Its own server (logs, exec, metrics) lets in whom the API server knows by token, and with --client-ca who has a
certificate of that authority, and asks the API server what they may do. Nobody else is let in. The API server's own
client certificate is usually one of the cluster's authority: without --client-ca, kubectl logs does not work.

Ctrl-C and kill end the kubelet and leave the containers running; one that is started later on the same --root-dir
picks them up.

Flags:
`

// settings are the values of the flags.
type settings struct {
	kubeconfig, name, endpoint string
	root, logs, cgroups        string
	static                     string
	address                    net.IP
	cidrs                      []string
	dns                        []net.IP
	domain                     string
	evict                      map[string]string

	file             string
	listen, clientCA string
	debug            bool

	certificates
	config kubeletconfig.Config // what --config says
}

// certificates are the values of the flags about the node's own: where they are, or how the cluster issues them.
type certificates struct {
	certificate, key            string
	bootstrap                   string
	rotateClient, rotateServing bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args, out)
	if err != nil {
		return err
	}
	n, err := newNode(ctx, s, out)
	if err != nil {
		return err
	}
	return n.run(ctx)
}

func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	hostname, _ := os.Hostname() // without a host name, the name has to be given
	f := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&s.file, "config", "", "a KubeletConfiguration, as for upstream's kubelet; flags that are given count more")
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "file that leads to the API server as system:node:NAME (required)")
	f.StringVar(&s.name, "node-name", hostname, "name of the node")
	f.StringVar(&s.endpoint, "runtime-endpoint", remote.DefaultEndpoint, "socket of the container runtime")
	f.StringVar(&s.root, "root-dir", "/var/lib/kubelet", "directory of volumes, checkpoints and the certificate made here")
	f.StringVar(&s.logs, "pod-logs-dir", "/var/log/pods", "directory of the containers' logs")
	f.StringVar(&s.cgroups, "cgroup-root", "/kubepods", "cgroup of all pods")
	f.StringVar(&s.static, "static-pods", "", "directory with manifests of pods to run whatever the API server says")
	f.IPVar(&s.address, "address", nil, "address of the node (default: the one from which the API server is reached)")
	f.StringSliceVar(&s.cidrs, "pod-cidr", nil, "network of the node's pods, told to the API server; the runtime's CNI configuration decides")
	f.IPSliceVar(&s.dns, "cluster-dns", nil, "name servers of the cluster (default: pods resolve as this machine does)")
	f.StringVar(&s.domain, "cluster-domain", "cluster.local", "domain of the cluster")
	f.StringToStringVar(&s.evict, "eviction-hard", eviction.Default().Hard, "amounts below which pods are evicted; empty for never")
	f.StringVar(&s.listen, "listen", "", `address and port of the node's own server, "none" for no server (default: the node's address, port 10250)`)
	f.StringVar(&s.clientCA, "client-ca", "", "authority whose client certificates the server accepts (default: tokens only)")
	f.StringVar(&s.certificate, "tls-cert", "", "certificate of the server (default: one made in --root-dir)")
	f.StringVar(&s.key, "tls-key", "", "key of the server's certificate")
	f.StringVar(&s.bootstrap, "bootstrap-kubeconfig", "", "if the file of --kubeconfig is missing, request a certificate as whom this file says, and write it")
	f.BoolVar(&s.rotateClient, "rotate-certificates", false, "replace the certificate that --bootstrap-kubeconfig has obtained before it ends")
	f.BoolVar(&s.rotateServing, "rotate-server-certificates", false, "request the server's certificate from the cluster, where somebody has to approve it")
	f.BoolVarP(&s.debug, "verbose", "v", false, "tell more")
	f.Usage = func() { fmt.Fprint(out, usage, f.FlagUsages()) }
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if err := s.configure(f.Changed); err != nil {
		return s, fmt.Errorf("--config: %w", err)
	}
	switch {
	case f.NArg() > 0:
		return s, fmt.Errorf("%q is not a flag; see --help", f.Arg(0))
	case s.kubeconfig == "":
		return s, errors.New("--kubeconfig is required; see --help")
	case s.name == "":
		return s, errors.New("--node-name is required where the machine has no name; see --help")
	case (s.certificate == "") != (s.key == ""):
		return s, errors.New("--tls-cert and --tls-key go together; see --help")
	case s.certificate != "" && s.rotateServing:
		return s, errors.New("--tls-cert and --rotate-server-certificates exclude each other; see --help")
	}
	return s, nil
}

// options returns those of the node without its server.
func (s settings) options(address netip.Addr, log *slog.Logger) (host.Options, error) {
	o := s.config.Host
	if o.Upkeep.Thresholds == nil || s.evict != nil {
		var err error
		if o.Upkeep.Thresholds, err = eviction.Parse(eviction.Config{Hard: s.evict}); err != nil {
			return host.Options{}, fmt.Errorf("--eviction-hard: %w", err)
		}
	}
	o.Dir, o.LogDir, o.CgroupRoot, o.StaticDir, o.Addresses, o.Logger = s.root, s.logs, s.cgroups, s.static, []netip.Addr{address}, log
	o.DNS.Domain, o.DNS.Servers = s.domain, nil
	for _, ip := range s.dns {
		server, _ := netip.AddrFromSlice(ip) // pflag has checked it
		o.DNS.Servers = append(o.DNS.Servers, server.Unmap())
	}
	return o, nil
}

// podCIDRs are the networks of the node's pods.
func (s settings) podCIDRs() (all []netip.Prefix, err error) {
	for _, text := range s.cidrs {
		cidr, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--pod-cidr: %w", err)
		}
		all = append(all, cidr)
	}
	return all, nil
}

// addressTo returns the machine's address for connections to a host. Nothing is sent.
func addressTo(ctx context.Context, server string) (netip.Addr, error) {
	c, err := new(net.Dialer).DialContext(ctx, "udp", server)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("no address of this machine leads to the API server (--address names one): %w", err)
	}
	defer func() { _ = c.Close() }()
	at, err := netip.ParseAddrPort(c.LocalAddr().String())
	return at.Addr().Unmap().WithZone(""), err
}
