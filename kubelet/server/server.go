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

// ErrConfig means that the configuration is invalid.
var ErrConfig = errors.New("kubelet server configuration")

const (
	readHeaderTimeout = 32 * time.Second
	idleTimeout       = 90 * time.Second
	maxHeader         = 1 << 20
)

// Pods provides the pods that a kubelet runs or is to run. Returned pods are shared and must not be modified.
// Implementations are safe for concurrent use.
type Pods interface {
	// Pods returns all pods.
	Pods() []*corev1.Pod
	// Pod returns a pod by name, false if there is none; for a static pod either its mirror or itself. Its status is
	// the newest that the kubelet knows, with the IDs of current and last containers, even if it has not reached the
	// API server yet.
	Pod(namespace, name string) (*corev1.Pod, bool)
}

// Runtime is what a server needs from the container runtime. Exec, attach and port-forward work only if it is also a
// cri.Streamer. Logs are read from files unless it is a cri.LogOpener.
type Runtime interface {
	cri.SandboxReader
	cri.ContainerReader
	cri.Executor
}

// Options configures a Server. Without an authenticator and an authorizer, every request is refused.
type Options struct {
	// NodeName is the node's name in requests to the authorizer.
	NodeName string
	// Authenticator identifies who makes a request.
	Authenticator authn.Authenticator
	// Authorizer decides whether they may.
	Authorizer authz.Authorizer
	// Healthy returns an error if the kubelet is unhealthy, for /healthz; nil means always healthy.
	Healthy func(ctx context.Context) error
	// Config is served at /configz as JSON; nil serves nothing.
	Config any
	// LogDir is the directory served at /logs/, usually /var/log; empty serves none. Absolute links and links that lead
	// out of it are not followed.
	LogDir string
	// Summary returns the content of /stats/summary.
	Summary func(ctx context.Context) (statsv1alpha1.Summary, error)
	// Metrics are the handlers of metrics; paths whose handler is nil are not found.
	Metrics Metrics
	// RuntimeTLS is for runtimes that stream over TLS; nil verifies with the system's authorities.
	RuntimeTLS *tls.Config
	// Streams, if set, serves the URLs that the runtime names, which are then not connected to: cri/streams.
	Streams http.Handler
	Logger  *slog.Logger
}

// Metrics are handlers of metrics in Prometheus' format.
type Metrics struct {
	// Kubelet serves /metrics, Cadvisor /metrics/cadvisor, Resource /metrics/resource and Probes /metrics/probes.
	Kubelet, Cadvisor, Resource, Probes http.Handler
}

// Server is a kubelet's server as an http.Handler.
type Server struct {
	pods    Pods
	runtime Runtime
	options Options
	log     *slog.Logger
	mux     *http.ServeMux
	streams sync.WaitGroup // requests with hijacked connections
}

// New returns a server for pods that run in the runtime.
func New(pods Pods, runtime Runtime, o Options) *Server {
	s := &Server{pods: pods, runtime: runtime, options: o, log: o.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.mux = s.routes()
	return s
}

// ServeHTTP authenticates, authorizes and serves a request. TLS is up to the caller.
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

// Run serves on the listener, which it takes over, until the context ends, and returns when all requests have ended;
// long requests are canceled through their contexts. The function certificate is called in each handshake, so that the
// certificate can be renewed.
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
