package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/cri"
)

// ErrConfig: a server cannot be made of what it was given.
var ErrConfig = errors.New("kubelet server configuration")

const (
	readHeaderTimeout = 32 * time.Second
	idleTimeout       = 90 * time.Second
	maxHeader         = 1 << 20
)

// Pods are those that a kubelet runs, or has been told to run. What they return is shared and must
// not be changed. Implementations are safe for concurrent use.
type Pods interface {
	// Pods returns all of them.
	Pods() []*corev1.Pod
	// Pod returns one by its name, false if there is none; of a static pod its mirror or itself. Its
	// status is the newest that the kubelet knows, with the ids of current and last containers, even
	// if the API server has not got it yet.
	Pod(namespace, name string) (*corev1.Pod, bool)
}

// Runtime is what a server needs of the container runtime. If it is a cri.Streamer, too, exec, attach
// and port-forward work.
type Runtime interface {
	cri.SandboxReader
	cri.ContainerReader
	cri.Executor
}

// Options of a Server. Without an authenticator and an authorizer all are refused.
type Options struct {
	// NodeName is the node's, in what the authorizer is asked.
	NodeName string
	// Authenticator tells who makes a request.
	Authenticator authn.Authenticator
	// Authorizer decides whether they may.
	Authorizer authz.Authorizer
	// Healthy tells what is wrong with the kubelet, for /healthz; nil is nothing ever.
	Healthy func(ctx context.Context) error
	// Config is shown at /configz as JSON; nil shows nothing.
	Config any
	// LogDir is the directory served at /logs/, usually /var/log; empty serves none. Links that lead out of
	// it, and absolute ones, are not followed.
	LogDir string
	// Summary is for /stats/summary.
	Summary func(ctx context.Context) (statsv1alpha1.Summary, error)
	// Metrics are the handlers of what is measured; those that are nil are not found.
	Metrics Metrics
	// RuntimeTLS is for streams of a runtime that serves them over TLS; nil verifies by the system's
	// authorities.
	RuntimeTLS *tls.Config
	Logger     *slog.Logger
}

// Metrics are handlers of metrics in Prometheus' format.
type Metrics struct {
	// Kubelet is /metrics, Cadvisor /metrics/cadvisor, Resource /metrics/resource, Probes
	// /metrics/probes.
	Kubelet, Cadvisor, Resource, Probes http.Handler
}

// Server is a kubelet's server as an http.Handler.
type Server struct {
	pods    Pods
	runtime Runtime
	options Options
	log     *slog.Logger
	mux     *http.ServeMux
	streams sync.WaitGroup // requests whose connections were taken over
}

// New returns a server of pods that run in the runtime.
func New(pods Pods, runtime Runtime, o Options) *Server {
	s := &Server{pods: pods, runtime: runtime, options: o, log: o.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.mux = s.routes()
	return s
}

// ServeHTTP serves requests that are authenticated and authorized. It does not look after TLS.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, err := s.authenticate(r)
	if err != nil {
		s.log.Info("request not authenticated", "path", r.URL.Path, "error", err)
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	if code, refusal := s.authorize(r, id); code != 0 {
		http.Error(w, refusal, code)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) authenticate(r *http.Request) (*authn.Identity, error) {
	if s.options.Authenticator == nil {
		return nil, authn.ErrNoCredentials
	}
	id, err := s.options.Authenticator.Authenticate(r)
	if err == nil && id == nil {
		err = authn.ErrNoCredentials
	}
	return id, err
}

// Run serves at the listener, which it takes over, until the context ends, and returns when all
// requests have ended; those that last are ended by their context. certificate is asked for the
// server's certificate in each handshake, so that it can be renewed.
func (s *Server) Run(ctx context.Context, l net.Listener, certificate func() (*tls.Certificate, error)) error {
	if certificate == nil {
		return errors.Join(fmt.Errorf("%w: no certificate", ErrConfig), l.Close())
	}
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
	}
	server := &http.Server{
		Handler: s, TLSConfig: config, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(tls.NewListener(l, config)) }()
	var err error
	select {
	case err = <-served:
		err = fmt.Errorf("serve: %w", errors.Join(err, server.Close()))
	case <-ctx.Done():
		end()
		err = server.Shutdown(context.WithoutCancel(ctx))
		if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
			err = errors.Join(err, failed)
		}
	}
	end()
	s.streams.Wait()
	return err
}
