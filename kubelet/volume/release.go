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
	clear(p.certificates)
	if v.in.Certificates != nil {
		v.in.Certificates.Forget(uid)
	}
	v.displace(p)
	dir := v.podDir(uid)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := v.unplug(ctx, uid); err != nil {
		return fmt.Errorf("unmounting volumes of pod %s: %w", uid, err)
	}
	if err := v.unmountBelow(dir); err != nil {
		return fmt.Errorf("unmounting volumes of pod %s: %w", uid, err)
	}
	if err := v.disk.RemoveTree(dir); err != nil {
		return fmt.Errorf("removing volumes of pod %s: %w", uid, err)
	}
	return nil
}

// Orphans lists the pods that have left something behind and for which live returns false: they ended while no kubelet
// was running, and can be released. Live is called after the directory is read, so a pod that it reports before
// preparing it is never listed.
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

// RemoveAll removes a directory with everything in it, like os.RemoveAll, but stops with an error at a mount point, and
// does not touch the mounted file system.
func RemoveAll(dir string) error { return disk.Disk{}.RemoveTree(dir) }
