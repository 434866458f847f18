package host

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/volume"
)

// Clean removes everything that a node keeps in its directory (Options.Dir), mounts first. No process of its pods and
// no Run of the node may be running. Data mounted there from elsewhere is not touched.
func Clean(ctx context.Context, dir string) error {
	volumes, err := volume.New(dir, volume.Sources{}, volume.Options{})
	if err != nil {
		return err
	}
	left, err := volumes.Orphans(func(types.UID) bool { return false })
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var errs []error
	for _, uid := range left {
		errs = append(errs, volumes.Release(ctx, uid))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("volumes of node's pods: %w", err)
	}
	return volume.RemoveAll(dir)
}
