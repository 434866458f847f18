package soak

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage"
)

// server is an API server of ConfigMaps and pods over a store that others may use, too.
type server struct {
	http.RoundTripper
	handler   http.Handler
	transport *apiserver.Transport
	cancel    context.CancelFunc
	done      chan error
}

// start starts a server and returns when it serves.
func start(ctx context.Context, store storage.Store, o registry.Options) (*server, error) {
	var kinds []registry.Kind
	for _, k := range core.Kinds(core.Options{}) {
		if k.Plural == "configmaps" || k.Plural == "pods" {
			kinds = append(kinds, k)
		}
	}
	reg, err := registry.New(store, kinds, o)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &server{cancel: cancel, done: make(chan error, 1)}
	s.handler = apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()})
	s.transport = apiserver.NewTransport(s.handler, nil)
	s.RoundTripper = s.transport
	synced := make(chan error, 1)
	go func() { s.done <- reg.Run(running) }()
	go func() { synced <- reg.WaitSynced(running) }()
	select {
	case err = <-synced:
	case err = <-s.done:
		s.done <- err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		err = errors.Join(err, s.stop())
		<-synced
		return nil, err
	}
	return s, nil
}

// kill stops the server before it has finished what it began.
func (s *server) kill() error {
	s.cancel()
	return s.stop()
}

// stop stops the server and returns its error if it had already failed.
func (s *server) stop() error {
	s.transport.Close()
	s.cancel()
	return <-s.done
}

// door leads to a server that may be replaced.
type door struct {
	mu     sync.Mutex
	server *server
}

var errShut = errors.New("no server is there")

// RoundTrip implements http.RoundTripper.
func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	s := d.server
	d.mu.Unlock()
	if s == nil {
		return nil, errShut
	}
	return s.RoundTrip(r)
}

// lead sets the server and returns the previous one.
func (d *door) lead(to *server) *server {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.server
	d.server = to
	return before
}
