package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/component/remote"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/overlay"
	"github.com/keelson-dev/keelson/overlay/rtnetlink"
	"github.com/keelson-dev/keelson/proxy"
)

// network has a host's packets go where they should: those to services, and those to the pods of other hosts. Those that network
// policies do not allow go nowhere.
func (c *hostConfig) network(out io.Writer) (lifecycle.Runnable, error) {
	alone := func(name string) func() (string, error) { // no other cluster is on this host
		return func() (string, error) { return name, nil }
	}
	all, err := c.components(c.proxyKubeconfig(),
		proxyOf(alone("keelson-proxy"), []string{c.Name}, proxy.Settings{Pods: []netip.Prefix{c.Pods}, Services: []netip.Prefix{c.Services}}), c.routes())
	if err != nil || !c.Policies {
		return all, err
	}
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	policies, err := c.components(c.policyKubeconfig(), isolationOf(alone("keelson-networkpolicy"), say))
	return lifecycle.Group(all, policies), err
}

// components runs components as the user of a file.
func (c *hostConfig) components(file string, all ...component.Component) (lifecycle.Runnable, error) {
	access, err := kubeconfig.Load(kubeconfig.Options{Path: file})
	if err != nil {
		return nil, err
	}
	return remote.New(access.Config, scheme.Scheme, all, remote.Options{Logger: c.logger()})
}

// routes are those to the pods of other hosts.
func (c *hostConfig) routes() component.Component {
	return component.Component{Name: "overlay", New: func(p *component.Parts) (lifecycle.Runnable, error) {
		nodes := component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes"))
		if err := p.Informers.Err(); err != nil {
			return nil, err
		}
		writer, err := rtnetlink.New(c.Address, rtnetlink.Options{})
		if err != nil {
			return nil, err
		}
		o := overlay.New(nodes, c.Name, writer, overlay.Options{Settings: overlay.Settings{Networks: []netip.Prefix{c.Pods}}, Logger: p.Logger})
		return lifecycle.Func(func(ctx context.Context) error {
			defer func() { _ = writer.Close() }()
			return o.Run(ctx)
		}), nil
	}}
}
