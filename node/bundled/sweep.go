package bundled

import (
	"context"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/remote"
	"github.com/keelson-dev/keelson/internal/pause"
)

// sweepPeriod is how often to look for strays. A stray found twice is removed: an abandoned call may take a while to
// end.
const sweepPeriod = 5 * time.Second

// Runtime is a client of a node's runtime.
type Runtime struct {
	*remote.Runtime
	making *sync.RWMutex
}

// Runtime returns a client of the node's runtime, which the caller closes. Sandboxes of the node must be created only
// with such clients.
func (n *Node) Runtime() (*Runtime, error) {
	client, err := remote.New("unix://"+n.daemon.Socket(), remote.Options{})
	if err != nil {
		return nil, err
	}
	return &Runtime{client, &n.making}, nil
}

// RunPodSandbox marks the creation of a sandbox: the runtime does not list it before it is complete.
func (r *Runtime) RunPodSandbox(ctx context.Context, config cri.SandboxConfig) (string, error) {
	r.making.RLock()
	defer r.making.RUnlock()
	return r.Runtime.RunPodSandbox(ctx, config)
}

// sweep removes, until the context ends, leftovers of sandboxes that the runtime has lost: because it was killed, or a
// call was abandoned, at the wrong moment.
func (n *Node) sweep(ctx context.Context) error {
	runtime, err := n.Runtime()
	if err != nil {
		return err
	}
	defer func() { _ = runtime.Close() }()
	suspects := map[string]bool{}
	for ctx.Err() == nil {
		if n.making.TryLock() { // otherwise something is being created that the runtime does not list yet
			suspects = n.sweepOnce(ctx, runtime, suspects)
			n.making.Unlock()
		}
		_ = pause.For(ctx, sweepPeriod) // the loop checks the context
	}
	return nil
}

// sweepOnce removes the suspects that still exist and returns new ones.
func (n *Node) sweepOnce(ctx context.Context, runtime *Runtime, suspects map[string]bool) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	known, err := n.inventory(ctx, runtime)
	if err != nil {
		return suspects // the runtime is unavailable
	}
	log := n.options.Logger
	found, err := n.strays(known.ids)
	if err != nil {
		log.Warn("finding what sandboxes left behind failed", "error", err)
	}
	next := map[string]bool{}
	for _, stray := range found {
		next[stray] = true
		if !suspects[stray] {
			continue
		}
		log.Info("removing what a sandbox unknown to the runtime left behind", "stray", stray)
		if err := n.daemon.Clear(ctx, stray); err != nil && ctx.Err() == nil {
			log.Warn("removing what a sandbox left behind failed", "stray", stray, "error", err)
		}
	}
	for _, sandbox := range known.stuck {
		next[sandbox] = true
		if !suspects[sandbox] {
			continue
		}
		log.Info("ending tasks of a stopped sandbox that the runtime no longer knows", "sandbox", sandbox)
		if err := n.daemon.EndTasks(ctx, sandbox); err != nil && ctx.Err() == nil {
			log.Warn("ending tasks of a stopped sandbox failed", "sandbox", sandbox, "error", err)
		}
	}
	lost := func(id string) bool { return !known.ids[id] && suspects[id] }
	if _, err := n.bridge.Release(ctx, func(id string) bool { return !lost(id) }); err != nil && ctx.Err() == nil {
		log.Warn("freeing addresses of sandboxes that are gone failed", "error", err)
	}
	return next
}

// strays are the daemon's strays, and sandboxes that have only an address.
func (n *Node) strays(known map[string]bool) ([]string, error) {
	found, err := n.daemon.Strays(func(id string) bool { return known[id] })
	if err != nil {
		return nil, err
	}
	leases, err := n.bridge.Leases()
	for _, l := range leases {
		if !known[l.ContainerID] {
			found = append(found, l.ContainerID)
		}
	}
	return found, err
}

// inventory is what the runtime knows of.
type inventory struct {
	ids map[string]bool // of sandboxes and containers
	// stuck are stopped sandboxes with a container that has exited but still has a task, which keeps the runtime from
	// removing them.
	stuck []string
}

func (n *Node) inventory(ctx context.Context, runtime *Runtime) (inventory, error) {
	i := inventory{ids: map[string]bool{}}
	sandboxes, err := runtime.ListSandboxes(ctx, cri.Filter{})
	if err != nil {
		return i, err
	}
	stopped := map[string]bool{}
	for _, s := range sandboxes {
		i.ids[s.ID] = true
		stopped[s.ID] = s.State == cri.SandboxNotReady
	}
	containers, err := runtime.ListContainers(ctx, cri.Filter{})
	if err != nil {
		return i, err
	}
	tasks, err := n.daemon.Tasks()
	for _, c := range containers {
		i.ids[c.ID] = true
		if stopped[c.SandboxID] && c.State == cri.ContainerExited && tasks[c.ID] {
			i.stuck = append(i.stuck, c.SandboxID)
		}
	}
	return i, err
}
