package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/kubelet/internal/turns"
)

// ErrNotRegistered means that a volume's driver is not registered at this node.
var ErrNotRegistered = errors.New("not found in the list of registered CSI drivers")

// Tokens issues service account tokens.
type Tokens interface {
	// Token returns a new token of a service account according to the request.
	Token(ctx context.Context, namespace, account string, request authenticationv1.TokenRequestSpec) (authenticationv1.TokenRequestStatus, error)
}

// Sources are what volumes need of the cluster. All are required.
type Sources struct {
	// Client acts as the node: it reads CSIDrivers, VolumeAttachments and secrets, and writes the node, its CSINode and
	// the status of claims.
	Client client.Client
	// Tokens are for drivers that ask for those of their pods.
	Tokens Tokens
}

// Options of Drivers. The zero value works.
type Options struct {
	// Timeout is how long a call of a driver may take; 0 means upstream's two minutes.
	Timeout time.Duration
	// Sync, if set, has a pod synced, because its volumes may have to be expanded or published again. It is called for
	// the pods with volumes every Period; 0 means 15 s.
	Sync   func(uid types.UID)
	Period time.Duration
	// Recorder takes events of pods and claims; nil discards them.
	Recorder events.Recorder
	Logger   *slog.Logger // nil discards
}

// Drivers are the CSI drivers of a node. Make them with New.
type Drivers struct {
	dir, node string
	in        Sources
	options   Options
	log       *slog.Logger
	turns     turns.Turns[corev1.UniqueVolumeName] // calls about one volume follow each other
	reporting chan struct{}                        // holds a value while the node's report is written

	mu         sync.Mutex
	registered map[string]string // endpoints, by the drivers' names
	mounted    map[string]state  // what this process has published, by directory
	staged     map[corev1.UniqueVolumeName]bool
	inUse      map[corev1.UniqueVolumeName]bool
	followers  map[string]*follower // of the registered drivers
	following  sync.WaitGroup
	// quiet means that the node is reported to use none.
	quiet bool
}

// state is what this process knows of a volume that it has published.
type state struct {
	at        time.Time
	republish bool
}

// New makes the drivers of a node whose kubelet keeps everything below the directory, upstream's /var/lib/kubelet.
func New(dir, node string, in Sources, o Options) (*Drivers, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the directory of CSI volumes must be absolute, not %q", dir)
	}
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	o.Period = cmp.Or(o.Period, 15*time.Second)
	if o.Recorder == nil {
		o.Recorder = events.Discard()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Drivers{
		dir: filepath.Clean(dir), node: node, in: in, options: o, log: o.Logger, reporting: make(chan struct{}, 1),
		registered: map[string]string{}, mounted: map[string]state{}, staged: map[corev1.UniqueVolumeName]bool{},
		inUse: map[corev1.UniqueVolumeName]bool{}, followers: map[string]*follower{},
	}, nil
}

// driver returns a connection to a driver.
func (d *Drivers) driver(name string) (*driver, error) {
	d.mu.Lock()
	endpoint, ok := d.registered[name]
	d.mu.Unlock()
	if !ok {
		return nil, soon(fmt.Errorf("driver name %s %w", name, ErrNotRegistered))
	}
	return dial(endpoint)
}

// soonError is worth another attempt soon: it waits for others, who do not tell.
type soonError struct{ error }

func soon(err error) error { return soonError{err} }

func (e soonError) Unwrap() error { return e.error }

// RetryAfter is the longest pause before the next attempt.
func (soonError) RetryAfter() time.Duration { return 2 * time.Second }
