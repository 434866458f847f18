package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/proxy"
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
	return cluster.Component{
		Name: "kube-proxy", Identity: &authn.Identity{Name: "system:kube-proxy", Groups: []string{authn.GroupAuthenticated}},
		New: func(p *component.Parts) (lifecycle.Runnable, error) {
			table, err := s.proxyTable()
			if err != nil {
				return nil, err
			}
			writer, err := nftables.New(nftables.Options{Table: table, Logger: p.Logger})
			if err != nil {
				return nil, err
			}
			var nodes []string
			for i := range s.nodes {
				nodes = append(nodes, fmt.Sprintf("node-%d", i))
			}
			runs := proxy.New(proxy.Sources{
				Services:       component.Informer[*corev1.Service](p.Informers, corev1.SchemeGroupVersion.WithResource("services")),
				EndpointSlices: component.Informer[*discoveryv1.EndpointSlice](p.Informers, discoveryv1.SchemeGroupVersion.WithResource("endpointslices")),
				Nodes:          component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes")),
			}, writer, proxy.Options{
				Settings: proxy.Settings{
					// Other clusters on this machine have the same addresses for services.
					Pods: []netip.Prefix{s.network}, PodsOnly: true, Services: []netip.Prefix{netip.MustParsePrefix(serviceRange)},
				},
				Nodes: nodes, Logger: p.Logger,
			})
			return lifecycle.Func(func(ctx context.Context) error {
				defer func() { _ = writer.Close() }()
				return runs.Run(ctx)
			}), nil
		},
	}
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
