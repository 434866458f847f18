package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/keelson-dev/keelson/node/ociimage"
)

// mirror is a registry that only serves the images of --images.
type mirror struct {
	listener net.Listener
	server   *http.Server
}

// newMirror listens at an address that may not be there yet.
func newMirror(ctx context.Context, address netip.Addr, archives []string) (*mirror, error) {
	registry, err := ociimage.NewRegistry(archives...)
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{Control: freely}).Listen(ctx, "tcp", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		return nil, err
	}
	return &mirror{l, &http.Server{Handler: registry, ReadHeaderTimeout: 10 * time.Second}}, nil
}

func (m *mirror) url() string { return "http://" + m.listener.Addr().String() }

// Run serves until the context ends. Clients retry interrupted pulls.
func (m *mirror) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = m.server.Close() })
	defer stop()
	if err := m.server.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
