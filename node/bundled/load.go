package bundled

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/keelson-dev/keelson/node/ociimage"
)

// load loads missing images. An archive that has changed is loaded again.
func (n *Node) load(ctx context.Context) error {
	present, err := n.daemon.Images(ctx)
	if err != nil {
		return err
	}
	marks := filepath.Join(n.dir, "loaded")
	if err := os.MkdirAll(marks, 0o700); err != nil {
		return err
	}
	for _, archive := range n.options.Archives {
		info, err := os.Stat(archive)
		if err != nil {
			return fmt.Errorf("load images: %w", err)
		}
		names, err := ociimage.Digests(archive)
		if err != nil {
			return fmt.Errorf("load images: %s: %w", archive, err)
		}
		version := fmt.Sprintf("%s %d %d", archive, info.Size(), info.ModTime().UnixNano())
		mark := filepath.Join(marks, fmt.Sprintf("%x", sha256.Sum256([]byte(version)))[:16])
		_, unmarked := os.Stat(mark)
		missing := slices.ContainsFunc(slices.Collect(maps.Keys(names)), func(name string) bool { return !slices.Contains(present, name) })
		if unmarked == nil && !missing {
			continue
		}
		n.options.Progress("loading %s", filepath.Base(archive))
		if _, err := n.daemon.Import(ctx, archive, nil); err != nil {
			return fmt.Errorf("load %s: %w", archive, err)
		}
		if err := os.WriteFile(mark, []byte(version), 0o600); err != nil {
			return err
		}
	}
	return nil
}
