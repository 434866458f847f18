package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"

	"github.com/keelson-dev/keelson/apiserver/serving"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/lifecycle"
)

// inside is where pods reach an API server that only this machine is to reach: the first node's address in the network of
// pods, or this machine's on the wire to the hosts, with the server's port. It is not valid if the server listens on an address that pods reach anyway.
func (m *machines) inside(address net.Addr) netip.AddrPort {
	tcp, ok := address.(*net.TCPAddr)
	if m == nil || !ok || !tcp.IP.IsLoopback() {
		return netip.AddrPort{}
	}
	if m.wire != nil {
		return netip.AddrPortFrom(m.wire.gateway(), tcp.AddrPort().Port())
	}
	return netip.AddrPortFrom(m.settings.network.Addr().Next(), tcp.AddrPort().Port())
}

// servers serve the cluster on the listener and inside, if that is valid. The address there need not exist yet: it comes
// with the node.
func (s *settings) servers(ctx context.Context, c *cluster.Cluster, shown tls.Certificate, listener net.Listener, inside netip.AddrPort) ([]lifecycle.Runnable, error) {
	o := serving.Options{Drain: c.Drain, Logger: s.logger()}
	handler, err := s.foreign.origins.allow(c.Handler())
	if err != nil {
		return nil, err
	}
	all := []lifecycle.Runnable{serving.New(listener, shown, handler, o)}
	if !inside.IsValid() {
		return all, nil
	}
	l, err := (&net.ListenConfig{Control: freely}).Listen(ctx, "tcp", inside.String())
	if err != nil {
		return nil, err
	}
	return append(all, serving.New(l, shown, handler, o)), nil
}
