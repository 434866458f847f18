package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/volume/internal/disk"
)

// Release implements kubelet.Volumes.
func (v *Volumes) Release(ctx context.Context, uid types.UID) error {
	if err := checkName(string(uid)); err != nil {
		return err
	}
	p, unlock := v.lock(uid)
	defer unlock()
	clear(p.written)
	clear(p.tokens)
	dir := v.podDir(uid)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := v.unmountBelow(dir); err != nil {
		return fmt.Errorf("unmounting volumes of pod %s: %w", uid, err)
	}
	if err := v.disk.RemoveTree(dir); err != nil {
		return fmt.Errorf("removing volumes of pod %s: %w", uid, err)
	}
	return nil
}

// Orphans lists the pods that something is left of but that live does not report: those that
// ended while no kubelet ran. They can be released. Live is asked about what is there already, so
// that a pod is never listed which it reports before the pod is prepared.
func (v *Volumes) Orphans(live func(types.UID) bool) ([]types.UID, error) {
	entries, err := os.ReadDir(v.podsDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var uids []types.UID
	for _, e := range entries {
		if uid := types.UID(e.Name()); e.IsDir() && !live(uid) {
			uids = append(uids, uid)
		}
	}
	return uids, nil
}

// RemoveAll removes a directory with all that is in it, as os.RemoveAll does, but stops with an
// error where something is mounted, and leaves what is mounted alone.
func RemoveAll(dir string) error { return disk.Disk{}.RemoveTree(dir) }
