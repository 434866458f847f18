package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/healthcheck"
	"github.com/keelson-dev/keelson/proxy/nftables"
)

// serviceRange has the addresses of services.
const serviceRange = "10.96.0.0/12"

// proxyTable is the name of the table for the services of the cluster in the data directory.
func (s *settings) proxyTable() (string, error) {
	dir, err := filepath.Abs(s.dataDir)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("keelson-proxy-%x", sha256.Sum256([]byte(dir)))[:len("keelson-proxy-")+8], nil
}

// serviceProxy has services answer on this machine. All nodes are on it and share its network, so one proxy serves them.
func (s *settings) serviceProxy() cluster.Component {
	var nodes []string
	for i := range s.nodes {
		nodes = append(nodes, fmt.Sprintf("node-%d", i))
	}
	return proxyOf(s.proxyTable, nodes, proxy.Settings{
		// Other clusters on this machine have the same addresses for services.
		Pods: []netip.Prefix{s.network}, PodsOnly: true, Services: []netip.Prefix{netip.MustParsePrefix(serviceRange)},
	})
}

// proxyOf is kube-proxy of the host of some nodes, with a table of its own.
func proxyOf(named func() (string, error), nodes []string, settings proxy.Settings) cluster.Component {
	return cluster.Component{
		Name: "kube-proxy", Identity: &authn.Identity{Name: "system:kube-proxy", Groups: []string{authn.GroupAuthenticated}},
		New: func(p *component.Parts) (lifecycle.Runnable, error) {
			table, err := named()
			if err != nil {
				return nil, err
			}
			writer, err := nftables.New(nftables.Options{Table: table, Logger: p.Logger})
			if err != nil {
				return nil, err
			}
			sources := proxy.Sources{
				Services:       component.Informer[*corev1.Service](p.Informers, corev1.SchemeGroupVersion.WithResource("services")),
				EndpointSlices: component.Informer[*discoveryv1.EndpointSlice](p.Informers, discoveryv1.SchemeGroupVersion.WithResource("endpointslices")),
				Nodes:          component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes")),
			}
			health := proxy.NewHealth(0)
			checks := healthcheck.New(health, healthcheck.Options{Node: nodes[0], Recorder: p.Recorder, Logger: p.Logger})
			runs := proxy.New(sources, writer, proxy.Options{
				Settings: settings, Nodes: nodes, Checks: checks, Health: health, Logger: p.Logger,
			})
			healthz := healthcheck.Handler(health, func() bool {
				return slices.ContainsFunc(nodes, func(name string) bool {
					node, _ := sources.Nodes.Get("", name)
					return healthcheck.Eligible(node)
				})
			})
			return lifecycle.Func(func(ctx context.Context) error {
				defer func() { _ = writer.Close() }()
				return lifecycle.Group(runs, checks, serveHealth(healthz, p.Logger)).Run(ctx)
			}), nil
		},
	}
}

// serveHealth tells load balancers whether the proxy works, at the address where they ask. Of several clusters on a machine
// the first has it.
func serveHealth(h http.Handler, log *slog.Logger) lifecycle.Runnable {
	return lifecycle.Func(func(ctx context.Context) error {
		const address = ":10256"
		for said := false; ; said = true {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			if err == nil {
				s := &http.Server{Handler: h, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10}
				stop := context.AfterFunc(ctx, func() { _ = s.Close() })
				defer stop()
				if err = s.Serve(l); ctx.Err() != nil {
					return nil
				}
			}
			if !said {
				log.Warn("the health of the proxy is not served", "address", address, "error", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(5 * time.Second):
			}
		}
	})
}

// removeServices removes what serviceProxy has left on this machine.
func (s *settings) removeServices(ctx context.Context) error {
	table, err := s.proxyTable()
	if err != nil {
		return err
	}
	writer, err := nftables.New(nftables.Options{Table: table})
	if err != nil {
		return err
	}
	defer func() { _ = writer.Close() }()
	return writer.Remove(ctx)
}
