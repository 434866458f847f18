package nodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/keelson-dev/keelson/client"
)

// errStale means that the cache of leases is known to be behind the server.
var errStale = errors.New("the cache of leases is behind the server")

// leaseGate prevents nodes from being considered silent because the cache of leases is stale: once the server is seen
// to have a newer lease, no lease in the cache counts until the cache has caught up.
type leaseGate struct {
	mu     sync.Mutex
	newest string // the newest version in the cache
	wanted string // the version that the cache must reach; "" if none
	node   string // the node of that lease
}

func (g *leaseGate) seen(lease *coordinationv1.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if older(g.newest, lease.ResourceVersion) {
		g.newest = lease.ResourceVersion
	}
}

// gone records that a lease was deleted and need not be waited for.
func (g *leaseGate) gone(lease *coordinationv1.Lease) {
	g.seen(lease)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.node == lease.Name {
		g.wanted = ""
	}
}

// open fails with errStale while the cache is behind.
func (g *leaseGate) open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wanted != "" && older(g.newest, g.wanted) {
		return fmt.Errorf("%w: it is at version %s, the lease of %s at %s", errStale, g.newest, g.node, g.wanted)
	}
	return nil
}

func (g *leaseGate) want(node, version string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if older(g.wanted, version) {
		g.node, g.wanted = node, version
	}
}

// older reports whether version a is older than b; "" is the oldest.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return a == "" || err == nil && order < 0
}

// confirm asks the server whether the lease that makes a node silent is still the newest.
func (c *Controller) confirm(ctx context.Context, node string, lease *coordinationv1.Lease) error {
	live, err := c.client.Get(ctx, client.Target{
		Resource:  coordinationv1.SchemeGroupVersion.WithResource("leases"),
		Namespace: corev1.NamespaceNodeLease, Name: node,
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lease of silent node %s: %w", node, err)
	}
	found, ok := live.(*coordinationv1.Lease)
	if !ok {
		return fmt.Errorf("lease of silent node %s: the server answered with a %T", node, live)
	}
	if lease != nil && found.ResourceVersion == lease.ResourceVersion {
		return nil
	}
	c.leases.want(node, found.ResourceVersion)
	return fmt.Errorf("%w: the lease of %s", errStale, node)
}
