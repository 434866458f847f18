package host

import (
	"context"
)

// Clean removes what a node keeps in its directory, mounts first. Nothing of its pods runs any
// more.
func Clean(ctx context.Context, dir string) error {
	return nil
}
