package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/volume/claims"
)

// Mounter mounts file systems that the kernel cannot mount without help.
type Mounter interface {
	// Mount mounts source, in the notation of its file system, at an existing directory.
	Mount(ctx context.Context, kind, source, dir string, options []string) error
}

// nfsPlugin mounts exports of NFS servers.
type nfsPlugin struct{ *Volumes }

// SetUp implements Plugin.
func (n nfsPlugin) SetUp(ctx context.Context, m claims.Mount, dir string) (string, error) {
	if n.options.Rootless {
		return "", fmt.Errorf("mounting NFS without root is %w", ErrUnsupported)
	}
	mounted, err := isMountPoint(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if mounted {
		return dir, nil
	}
	source, readOnly := m.Volume.NFS, m.ReadOnly
	if m.Persistent != nil {
		source = m.Persistent.Spec.NFS
	} else {
		readOnly = source.ReadOnly
	}
	server := source.Server
	if addr, _ := netip.ParseAddr(server); addr.Is6() { // not a name
		server = "[" + server + "]"
	}
	options := m.Options()
	if readOnly {
		options = append([]string{"ro"}, options...)
	}
	if err := n.disk.MkdirAll(dir, dirMode); err != nil {
		return "", err
	}
	if err := n.options.Mounter.Mount(ctx, "nfs", server+":"+source.Path, dir, options); err != nil {
		return "", errors.Join(err, n.takeDown(dir))
	}
	return dir, nil
}

// TearDown implements Plugin.
func (n nfsPlugin) TearDown(_ context.Context, _ types.UID, dir string) error { return n.takeDown(dir) }

// takeDown unmounts a directory and removes it, which is empty then.
func (v *Volumes) takeDown(dir string) error {
	mounted, err := isMountPoint(dir)
	if mounted {
		err = v.unmount(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return v.disk.Remove(dir)
}

// mountProgram mounts with the node's own program.
type mountProgram struct{}

// Mount implements Mounter.
func (mountProgram) Mount(ctx context.Context, kind, source, dir string, options []string) error {
	if !hasHelper(kind) {
		return fmt.Errorf("the node lacks mount.%s, which mounts %s volumes", kind, kind)
	}
	args := []string{"-t", kind}
	if len(options) > 0 {
		args = append(args, "-o", strings.Join(options, ","))
	}
	args = append(args, source, dir)
	out, err := exec.CommandContext(ctx, "mount", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mount failed: %w\nMounting command: mount\nMounting arguments: %s\nOutput: %s", err, strings.Join(args, " "), out)
	}
	return nil
}

// hasHelper reports whether the program exists that mounts the kind of file system.
func hasHelper(kind string) bool {
	for _, dir := range []string{"/sbin/", "/usr/sbin/"} {
		if _, err := os.Stat(dir + "mount." + kind); err == nil {
			return true
		}
	}
	_, err := exec.LookPath("mount." + kind)
	return err == nil
}
