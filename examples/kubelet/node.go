package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/cri/remote"
	"github.com/keelson-dev/keelson/lifecycle"
	keelsonnode "github.com/keelson-dev/keelson/node"
	"github.com/keelson-dev/keelson/node/host"
	noderemote "github.com/keelson-dev/keelson/node/remote"
	"github.com/keelson-dev/keelson/pki"
)

// node is everything that runs.
type node struct {
	settings settings
	config   *rest.Config
	runtime  *remote.Runtime
	log      *slog.Logger
	runs     []lifecycle.Runnable
}

// newNode assembles the node in the order of dependencies: the connection to the API server, the objects read from it,
// the machine.
func newNode(ctx context.Context, s settings, out io.Writer) (*node, error) {
	n := &node{settings: s, log: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level(s.debug)}))}
	if err := join(ctx, s, out); err != nil {
		return nil, err
	}
	access, err := kubeconfig.Load(kubeconfig.Options{Path: s.kubeconfig})
	if err != nil {
		return nil, err
	}
	n.config = access.Config
	n.config.QPS, n.config.Burst, n.config.UserAgent = 50, 100, "keelson-kubelet" // upstream's limits
	if err := n.rotate(); err != nil {
		return nil, err
	}
	if n.runtime, err = remote.New(s.endpoint, remote.Options{}); err != nil {
		return nil, err
	}
	parts, run, err := noderemote.New(n.config, scheme.Scheme, s.name, noderemote.Options{Logger: n.log})
	if err != nil {
		return nil, err
	}
	n.runs = append(n.runs, run)
	parts.Capacity = s.config.Capacity
	if parts.PodCIDRs, err = s.podCIDRs(); err != nil {
		return nil, err
	}
	address, err := n.address(ctx)
	if err != nil {
		return nil, err
	}
	options, err := s.options(address, n.log)
	if err != nil {
		return nil, err
	}
	if options.Server, err = n.server(ctx, address, &parts); err != nil {
		return nil, err
	}
	h, err := host.New(parts, n.runtime, options)
	if err != nil {
		return nil, errors.Join(err, closed(options.Server.Listener))
	}
	n.runs = append(n.runs, h)
	fmt.Fprintf(out, "node %s at %s", s.name, address)
	if l := options.Server.Listener; l != nil {
		fmt.Fprintf(out, ", server at https://%s", l.Addr())
	}
	fmt.Fprintf(out, ", runtime at %s, API server at %s\n", n.runtime.Endpoint(), n.config.Host)
	return n, nil
}

// run runs everything until the context ends.
func (n *node) run(ctx context.Context) error {
	return errors.Join(lifecycle.Group(n.runs...).Run(ctx), n.runtime.Close())
}

func closed(l net.Listener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

func level(debug bool) slog.Level {
	if debug {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// address returns that of the node.
func (n *node) address(ctx context.Context) (netip.Addr, error) {
	if ip, ok := netip.AddrFromSlice(n.settings.address); ok {
		return ip.Unmap(), nil
	}
	server, err := url.Parse(n.config.Host)
	if err != nil {
		return netip.Addr{}, err
	}
	return addressTo(ctx, net.JoinHostPort(server.Hostname(), cmp.Or(server.Port(), "443")))
}

// server returns the node's server; the API server authenticates and authorizes its clients.
func (n *node) server(ctx context.Context, address netip.Addr, parts *keelsonnode.Parts) (s host.Server, err error) {
	at := n.settings.listen
	if at == "none" {
		return s, nil
	}
	authenticators := []authn.Authenticator{parts.Authenticator}
	if n.settings.clientCA != "" {
		authority, err := x509.Open(n.settings.clientCA, x509.Options{Log: n.log})
		if err != nil {
			return s, fmt.Errorf("--client-ca: %w", err)
		}
		n.runs = append(n.runs, authority)
		authenticators = append(authenticators, x509.New(authority))
	}
	parts.Authenticator = authn.WithGroup(authn.Union(authenticators...), authn.GroupAuthenticated)
	if s.Certificate, err = n.certificate(address); err != nil {
		return s, fmt.Errorf("the server's certificate: %w", err)
	}
	s.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(at, net.JoinHostPort(address.String(), "10250")))
	return s, err
}

// certificate returns a function that finds the server's certificate at each handshake, which also finds renewed ones:
// it is read from a file, requested from the cluster, or made here.
func (n *node) certificate(address netip.Addr) (find func() (*tls.Certificate, error), err error) {
	s := n.settings
	if s.rotateServing {
		return n.serving(address)
	}
	find = func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(s.certificate, s.key)
		return &c, err
	}
	if s.certificate == "" {
		if err := os.MkdirAll(s.root, 0o750); err != nil {
			return nil, err
		}
		own, err := pki.Open(filepath.Join(s.root, "pki"), s.name+"-ca")
		if err != nil {
			return nil, err
		}
		find = func() (*tls.Certificate, error) {
			pair, err := own.Keep("kubelet", pki.Subject{Name: s.name, Hosts: []string{s.name, address.String()}}, 365*24*time.Hour)
			if err != nil {
				return nil, err
			}
			c, err := pair.TLS()
			return &c, err
		}
	}
	_, err = find()
	return find, err
}
