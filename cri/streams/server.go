package streams

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/keelson-dev/keelson/cri"
)

const (
	// validity is how long a URL waits for its connection, and maxWaiting how many may wait.
	validity   = time.Minute
	maxWaiting = 1000
	// idleTimeout ends connections on which nothing is sent; creationTimeout is how long a client may take to make its streams.
	idleTimeout     = 4 * time.Hour
	creationTimeout = 30 * time.Second
)

// Runtime is the runtime whose streams are served.
type Runtime interface {
	cri.SandboxReader
	cri.ContainerReader
	cri.StreamHandler
}

// Options of a Server. All fields are optional.
type Options struct {
	// URL is where the server is reached: http or https with a host; empty is http://localhost.
	URL string
}

// Server serves streams. Make one with New.
type Server struct {
	runtime Runtime
	at      string

	mu      sync.Mutex
	waiting map[string]waiting // by token
}

var (
	_ cri.Streamer = (*Server)(nil)
	_ http.Handler = (*Server)(nil)
)

// waiting is a stream that was prepared.
type waiting struct {
	until time.Time
	serve func(w http.ResponseWriter, r *http.Request, c *connection)
}

// New returns a server of the runtime's streams.
func New(runtime Runtime, o Options) *Server {
	return &Server{runtime: runtime, at: cmp.Or(o.URL, "http://localhost"), waiting: map[string]waiting{}}
}

// prepare returns a URL for a stream.
func (s *Server) prepare(serve func(http.ResponseWriter, *http.Request, *connection)) (string, error) {
	token, now := rand.Text(), time.Now()
	at, err := url.JoinPath(s.at, token)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, w := range s.waiting {
		if now.After(w.until) {
			delete(s.waiting, t)
		}
	}
	if len(s.waiting) >= maxWaiting {
		return "", fmt.Errorf("%d streams wait for their clients: %w", maxWaiting, cri.ErrUnavailable)
	}
	s.waiting[token] = waiting{now.Add(validity), serve}
	return at, nil
}

// take returns what a URL stands for, once.
func (s *Server) take(token string) (waiting, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiting[token] // one that is not there was valid until long ago
	delete(s.waiting, token)
	return w, !time.Now().After(w.until)
}

// ServeHTTP serves the stream of a URL to its first client. It returns when the stream has ended.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, token := splitLast(r.URL.Path)
	stream, ok := s.take(token)
	if !ok {
		http.NotFound(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	c := &connection{ResponseWriter: w, cancel: cancel}
	defer c.end()
	context.AfterFunc(ctx, c.close)
	stream.serve(c, r.WithContext(ctx), c)
}

// running fails unless a container runs.
func (s *Server) running(ctx context.Context, id string) error {
	status, err := s.runtime.ContainerStatus(ctx, id)
	if err == nil && status.State != cri.ContainerRunning {
		err = fmt.Errorf("container %q is %s: %w", id, status.State, cri.ErrInvalid)
	}
	return err
}

// Exec implements cri.Streamer.
func (s *Server) Exec(ctx context.Context, request cri.ExecRequest) (string, error) {
	if err := s.running(ctx, request.ContainerID); err != nil {
		return "", err
	}
	return s.prepare(func(w http.ResponseWriter, r *http.Request, c *connection) {
		remotecommand.ServeExec(w, r, command{s.runtime, c, request.Streams}, "", "", request.ContainerID, request.Command, options(request.Streams),
			idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
	})
}

// Attach implements cri.Streamer.
func (s *Server) Attach(ctx context.Context, request cri.AttachRequest) (string, error) {
	if err := s.running(ctx, request.ContainerID); err != nil {
		return "", err
	}
	return s.prepare(func(w http.ResponseWriter, r *http.Request, c *connection) {
		remotecommand.ServeAttach(w, r, command{s.runtime, c, request.Streams}, "", "", request.ContainerID, options(request.Streams),
			idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
	})
}

func options(s cri.Streams) *remotecommand.Options {
	return &remotecommand.Options{Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, TTY: s.TTY}
}

// PortForward implements cri.Streamer.
func (s *Server) PortForward(ctx context.Context, sandboxID string, ports []int32) (string, error) {
	status, err := s.runtime.SandboxStatus(ctx, sandboxID)
	if err != nil {
		return "", err
	}
	if status.State != cri.SandboxReady {
		return "", fmt.Errorf("sandbox %q is not ready: %w", sandboxID, cri.ErrInvalid)
	}
	return s.prepare(func(w http.ResponseWriter, r *http.Request, c *connection) {
		portforward.ServePortForward(w, r, forwarder{s.runtime, c, r.Context()}, sandboxID, "", &portforward.V4Options{Ports: ports},
			idleTimeout, creationTimeout, portforward.SupportedProtocols)
	})
}
