package main

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"

	"github.com/keelson-dev/keelson/cluster/clusterdns"
	"github.com/keelson-dev/keelson/dns/server"
	"github.com/keelson-dev/keelson/kubelet/resolv"
)

// newNames makes the DNS of a cluster of real containers: each node serves it at the address that its pods reach it by.
// Names outside of the cluster are those that this machine resolves.
func newNames(s *settings) (*clusterdns.DNS, error) {
	upstreams, err := upstreams(resolv.File("/"))
	if err != nil {
		return nil, err
	}
	return clusterdns.New(clusterdns.Options{Upstreams: upstreams, Logger: s.logger()}), nil
}

// upstreams are the resolvers of a resolv.conf.
func upstreams(path string) ([]netip.AddrPort, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return server.ParseUpstreams(file)
}

// serveNames serves the cluster's names on a node until the context ends.
func (m *machines) serveNames(ctx context.Context, node string, address netip.Addr) error {
	sockets, err := m.names.Listen(ctx, address)
	if err != nil {
		return err
	}
	return m.names.Serve(ctx, node, address, sockets)
}
