package eviction

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/machine"
)

// FindLayout returns a function for Options.Layout. It compares where the runtime keeps images and writable layers with
// a directory on the node's main filesystem. Disk identifies filesystems, like machine.Disk.
func FindLayout(images cri.FilesystemReader, nodeDir string, disk func(path string) (machine.Filesystem, error)) func(context.Context) (Layout, error) {
	return func(ctx context.Context) (Layout, error) {
		image, layers, err := images.ImageFilesystem(ctx)
		if err != nil {
			return Layout{}, err
		}
		if layers.Mountpoint == "" {
			layers.Mountpoint = image.Mountpoint
		}
		var ids [3]uint64
		for i, path := range []string{nodeDir, image.Mountpoint, layers.Mountpoint} {
			fs, err := disk(path)
			if err != nil {
				return Layout{}, fmt.Errorf("%s: %w", path, err)
			}
			ids[i] = fs.ID
		}
		return Layout{DedicatedImages: ids[0] != ids[1], SplitContainers: ids[1] != ids[2]}, nil
	}
}
