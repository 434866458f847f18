package remote

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
)

// DefaultEndpoint is containerd's.
const DefaultEndpoint = "unix:///run/containerd/containerd.sock"

// maxMessage is how large a message CRI allows, in bytes.
const maxMessage = 16 << 20

// connectTimeout bounds how long a runtime that accepted a connection may be silent.
const connectTimeout = 3 * time.Second

var (
	_ cri.RuntimeService   = (*Runtime)(nil)
	_ cri.ImageService     = (*Runtime)(nil)
	_ cri.EventSource      = (*Runtime)(nil)
	_ cri.StatsReader      = (*Runtime)(nil)
	_ cri.FilesystemReader = (*Runtime)(nil)
	_ cri.Streamer         = (*Runtime)(nil)
	_ cri.LogReopener      = (*Runtime)(nil)
	_ cri.Resizer          = (*Runtime)(nil)
	_ cri.Configured       = (*Runtime)(nil)
)

// Options of a Runtime. The zero value is ready to use.
type Options struct {
	// EventBuffer is how many events a reader may lag behind; 0 is 4,096.
	EventBuffer int
	// MaxBackoff is the longest time between two automatic attempts to reconnect; 0 is 1 s. A call that finds the
	// runtime absent reconnects at once.
	MaxBackoff time.Duration
}

// Runtime is a container runtime behind a socket. Make one with New.
type Runtime struct {
	endpoint string
	buffer   int
	conn     *grpc.ClientConn
	runtime  v1.RuntimeServiceClient
	images   v1.ImageServiceClient
	owners   owners
}

// New makes a client of the runtime at an endpoint: an absolute path, with or without "unix://"; "" is DefaultEndpoint.
// It connects at the first call. Any other endpoint fails with cri.ErrInvalid.
func New(endpoint string, o Options) (*Runtime, error) {
	endpoint = cmp.Or(endpoint, DefaultEndpoint)
	path := strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix:"), "//")
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("container runtime endpoint %q is not unix:// and an absolute path, such as %s: %w", endpoint, DefaultEndpoint, cri.ErrInvalid)
	}
	conn, err := grpc.NewClient("unix:"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: cmp.Or(o.MaxBackoff, time.Second),
			},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithIdleTimeout(0),
	)
	if err != nil {
		return nil, fmt.Errorf("container runtime endpoint %q: %w: %w", endpoint, cri.ErrInvalid, err)
	}
	return &Runtime{
		endpoint: "unix://" + path, buffer: cmp.Or(o.EventBuffer, 4096), conn: conn,
		runtime: v1.NewRuntimeServiceClient(conn), images: v1.NewImageServiceClient(conn),
	}, nil
}

// Close ends the connection and with it every call and stream; later ones fail with cri.ErrUnavailable. The runtime and
// its containers keep running.
func (r *Runtime) Close() error {
	if err := r.conn.Close(); err != nil && !strings.Contains(err.Error(), "closing") {
		return fmt.Errorf("closing the connection to %s: %w", r.endpoint, err)
	}
	return nil
}

// Endpoint returns the runtime's address, "unix://" with a path.
func (r *Runtime) Endpoint() string { return r.endpoint }
