package csi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-dev/keelson/kubelet/volume/claims"
	"github.com/keelson-dev/keelson/kubelet/volume/csi"
)

// someGroup is a group that files can be given to: only root may give them to any.
func someGroup() int64 {
	if os.Getuid() != 0 {
		return int64(os.Getgid())
	}
	return 4321
}

// TestGroup: volumes are given to the pod's group, by the kubelet or by the driver.
func TestGroup(t *testing.T) {
	gid := someGroup()
	file := storagev1.FileFSGroupPolicy
	none := storagev1.NoneFSGroupPolicy
	for name, test := range map[string]struct {
		policy *storagev1.FSGroupPolicy
		change func(*script, *claims.Mount)
		want   bool
	}{
		"one node, file system": {nil, nil, true},
		"unknown file system":   {nil, func(_ *script, m *claims.Mount) { m.Persistent.Spec.CSI.FSType = "" }, false},
		"many nodes": {nil, func(_ *script, m *claims.Mount) {
			m.Persistent.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}, false},
		"always":                   {&file, func(_ *script, m *claims.Mount) { m.Persistent.Spec.CSI.FSType = "" }, true},
		"always, but only to read": {&file, func(_ *script, m *claims.Mount) { m.ReadOnly = true }, false},
		"never":                    {&none, nil, false},
		"many nodes, one pod": {nil, func(_ *script, m *claims.Mount) {
			m.Persistent.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany, corev1.ReadWriteOncePod}
		}, true},
		"in the pod":                      {nil, func(_ *script, m *claims.Mount) { *m = inlineOf("p"); m.Volume.CSI.FSType = new("ext4") }, true},
		"in the pod, unknown file system": {nil, func(_ *script, m *claims.Mount) { *m = inlineOf("p") }, false},
		"by the driver": {&file, func(s *script, _ *claims.Mount) {
			s.can = append(s.can, csispec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, csi.Options{}, object(func(s *storagev1.CSIDriverSpec) {
				s.FSGroupPolicy = test.policy
				s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}
			}))
			m := mountOf("p")
			if test.change != nil {
				test.change(b.script, &m)
			}
			m.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &gid}
			b.must(b.setUp(m))
			info, err := os.Stat(filepath.Join(b.at(m), "mount"))
			if b.must(err); (info.Mode()&os.ModeSetgid != 0) != test.want {
				t.Errorf("mode %v", info.Mode())
			}
			if got := b.script.publish.GetVolumeCapability().GetMount().GetVolumeMountGroup() == fmt.Sprint(gid); got != (name == "by the driver") {
				t.Errorf("the driver is told of the group: %v", got)
			}
		})
	}
}

// TestOwnFiles: what is in a volume is the group's, too, unless the volume is and that is enough.
func TestOwnFiles(t *testing.T) {
	gid := someGroup()
	for name, tt := range map[string]struct {
		policy *corev1.PodFSGroupChangePolicy
		mode   os.FileMode // of the directory
		kept   bool        // the file's mode
	}{
		"always":           {nil, os.ModeSetgid | 0o770, false},
		"on a mismatch":    {new(corev1.FSGroupChangeOnRootMismatch), os.ModeSetgid | 0o770, true},
		"no set group":     {new(corev1.FSGroupChangeOnRootMismatch), 0o770, false},
		"no group's write": {new(corev1.FSGroupChangeOnRootMismatch), os.ModeSetgid | 0o750, false},
		"always, said":     {new(corev1.FSGroupChangeAlways), os.ModeSetgid | 0o770, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, csi.Options{}, object(nil))
			b.script.mount = func(target string) error {
				for _, err := range []error{
					os.MkdirAll(filepath.Join(target, "dir"), 0o700), os.WriteFile(filepath.Join(target, "file"), nil, 0o600),
					os.Symlink("nowhere", filepath.Join(target, "link")), os.Chown(target, -1, int(gid)), os.Chmod(target, tt.mode),
				} {
					if err != nil {
						return err
					}
				}
				return nil
			}
			m := mountOf("p")
			m.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &gid, FSGroupChangePolicy: tt.policy}
			b.must(b.setUp(m))
			want := map[string]os.FileMode{"": os.ModeDir | os.ModeSetgid | 0o770, "dir": os.ModeDir | os.ModeSetgid | 0o770, "file": 0o660, "link": os.ModeSymlink | 0o777}
			if tt.kept {
				want = map[string]os.FileMode{"": os.ModeDir | os.ModeSetgid | 0o770, "dir": os.ModeDir | 0o700, "file": 0o600, "link": os.ModeSymlink | 0o777}
			}
			for file, mode := range want {
				info, err := os.Lstat(filepath.Join(b.at(m), "mount", file))
				if b.must(err); info.Mode() != mode {
					t.Errorf("%q has mode %v, want %v", file, info.Mode(), mode)
				}
				if got := info.Sys().(*syscall.Stat_t).Gid; !tt.kept && int64(got) != gid {
					t.Errorf("%q is of group %d", file, got)
				}
			}
		})
	}
}

// TestOwnNothing: a volume that a driver does not mount cannot be given to a group.
func TestOwnNothing(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	b.script.mount = func(string) error { return nil }
	m := mountOf("p")
	for _, policy := range []corev1.PodFSGroupChangePolicy{corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch} {
		m.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(someGroup()), FSGroupChangePolicy: &policy}
		if err := b.setUp(m); err == nil || !strings.HasPrefix(err.Error(), "applyFSGroup failed for vol h: ") {
			t.Errorf("%s: %v", policy, err)
		}
	}
}
