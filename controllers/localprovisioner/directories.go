package localprovisioner

import (
	"context"
	"path"
	"sync"
)

// Directories are where volumes are kept on nodes. Implementations are safe for concurrent use.
type Directories interface {
	// Serves reports whether these are the directories of a node. Volumes of other nodes are somebody else's.
	Serves(node string) bool
	// Make makes the directory of a volume on the node, unless it exists, and returns its absolute path.
	Make(ctx context.Context, node, volume string) (string, error)
	// Remove removes the directory of a volume with everything in it. It succeeds when there is none.
	Remove(ctx context.Context, node, volume string) error
}

// Names are directories of all nodes that exist in name only. The zero value has none.
type Names struct {
	mu  sync.Mutex
	all map[[2]string]bool
}

var _ Directories = (*Names)(nil)

// Serves is always true.
func (*Names) Serves(string) bool { return true }

// Make implements Directories; the path is below /var/lib/keelson/volumes.
func (n *Names) Make(_ context.Context, node, volume string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all == nil {
		n.all = map[[2]string]bool{}
	}
	n.all[[2]string{node, volume}] = true
	return path.Join("/var/lib/keelson/volumes", volume), nil
}

// Remove implements Directories.
func (n *Names) Remove(_ context.Context, node, volume string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.all, [2]string{node, volume})
	return nil
}

// Has reports whether a directory exists.
func (n *Names) Has(node, volume string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[[2]string{node, volume}]
}
