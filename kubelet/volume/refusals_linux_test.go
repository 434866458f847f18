package volume_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

// failAt makes the first change of that kind below the directory fail.
func failAt(v *volume.Volumes, op, below string) {
	failed := false
	v.SetStep(func(o, path string) error {
		if failed || o != op || !strings.HasPrefix(path, below) {
			return nil
		}
		failed = true
		return errDead
	})
}

// TestMemoryAfterReboot: a volume in memory is made anew, with or without its directory, and what keeps it from that is
// told.
func TestMemoryAfterReboot(t *testing.T) {
	needMounts(t)
	v, dir := node(t, nil, volume.Options{})
	p := pod(emptyDirVolume("m", corev1.StorageMediumMemory))
	prepare(t, v, p)
	at := v.Path(p, "m")
	detach(at)
	failAt(v, "remove", dir)
	if err := v.Prepare(t.Context(), p); !errors.Is(err, errDead) || len(mountsBelow(t, dir)) != 0 {
		t.Errorf("got %v, mounted %v", err, mountsBelow(t, dir))
	}
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	prepare(t, v, p)
	if on := mountsBelow(t, dir); len(on) != 1 || mode(t, at).Perm() != 0o777 {
		t.Errorf("mounted %v", on)
	}
	release(t, v, dir, p.UID)
}

// TestSubPathThatIsInTheWay: what was mounted for an earlier container, and is no longer right, is replaced, or it is an
// error.
func TestSubPathThatIsInTheWay(t *testing.T) {
	needMounts(t)
	for op, below := range map[string]string{"unmount": "volume-subpaths", "remove": "volume-subpaths", "bind": "volume-subpaths"} {
		t.Run(op, func(t *testing.T) {
			v, dir := node(t, nil, volume.Options{Logger: quiet()})
			p := subPathPod(emptyDirVolume("e", ""), "sub")
			prepare(t, v, p)
			mounts(t, v, request(p))
			sub := filepath.Join(v.Path(p, "e"), "sub")
			if err := os.Remove(sub); err != nil {
				t.Fatal(err)
			}
			write(t, "a file now", sub)
			failAt(v, op, filepath.Join(dir, "pods/uid-1", below))
			if _, err := v.Mounts(t.Context(), request(p)); err == nil || err.Error() != `failed to prepare subPath for volumeMount "e" of container "main"` {
				t.Errorf("got %v", err)
			}
			if got := read(t, mounts(t, v, request(p))["/0"].HostPath); got != "a file now" {
				t.Errorf("mounted is %q", got)
			}
			release(t, v, dir, p.UID)
		})
	}
}

// TestLocalThatFails: a volume of the node that cannot be opened, or given to the pod's group, is not mounted.
func TestLocalThatFails(t *testing.T) {
	needMounts(t)
	for name, tt := range map[string]struct {
		spoil func(v *volume.Volumes, source string) error
		want  error
	}{
		"closed": {func(_ *volume.Volumes, source string) error { return os.Chmod(source, 0o300) }, fs.ErrPermission},
		"while it changes": {func(v *volume.Volumes, source string) error {
			v.SetStep(func(op, path string) error {
				if op == "chown" && path == filepath.Join(source, "in") {
					return os.Remove(filepath.Join(source, "removed"))
				}
				return nil
			})
			return nil
		}, fs.ErrNotExist},
		"of others":       {func(v *volume.Volumes, source string) error { failAt(v, "chown", source); return nil }, errDead},
		"not to be bound": {func(v *volume.Volumes, _ string) error { failAt(v, "bind", ""); return nil }, errDead},
	} {
		t.Run(name, func(t *testing.T) {
			source := t.TempDir()
			for _, name := range []string{"in", "removed"} {
				if err := os.Mkdir(filepath.Join(source, name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			s := newServer()
			s.bind(claimed("data", localSource(source)))
			v, dir := node(t, s, volume.Options{})
			p := pod(claimVolume("data", "data"))
			p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64)}
			if err := tt.spoil(v, source); err != nil {
				t.Fatal(err)
			}
			fakeroot.Unprivileged(t, func() {
				if err := v.Prepare(t.Context(), p); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
			if on := mountsBelow(t, dir); len(on) > 0 {
				t.Errorf("mounted: %v", on)
			}
			if err := os.Chmod(source, 0o755); err != nil {
				t.Fatal(err)
			}
			release(t, v, dir, p.UID)
		})
	}
}

// TestLocalDevice: file systems on devices of the node are not mounted.
func TestLocalDevice(t *testing.T) {
	var device string
	list, err := os.ReadDir("/dev")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Type() == fs.ModeDevice {
			device = filepath.Join("/dev", e.Name())
		}
	}
	if device == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("this machine has no block devices")
		}
		t.Skip("this machine has no block devices")
	}
	s := newServer()
	s.bind(claimed("data", localSource(device)))
	v, dir := node(t, s, volume.Options{})
	p := pod(claimVolume("data", "data"))
	want := `MountVolume.MountDevice failed for volume "pv-data" : file systems on local block devices are not supported: mount ` + device + " and make a volume of its directory"
	if err := v.Prepare(t.Context(), p); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	release(t, v, dir, p.UID)
}

// TestNFSThatFails: an export is not mounted where the directory for it cannot be made.
func TestNFSThatFails(t *testing.T) {
	needMounts(t)
	m := &mounter{}
	v, dir := node(t, nil, volume.Options{Mounter: m})
	p := pod(vol("own", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nas", Path: "/"}}))
	failAt(v, "mkdir", dir)
	if err := v.Prepare(t.Context(), p); !errors.Is(err, errDead) || len(m.calls) > 0 {
		t.Errorf("without a directory: %v, mounted %v", err, m.calls)
	}
	at := filepath.Join(dir, "pods/uid-1/volumes/kubernetes.io~nfs")
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	write(t, "a file", at)
	if err := v.Prepare(t.Context(), p); !errors.Is(err, unix.ENOTDIR) || len(m.calls) > 0 {
		t.Errorf("below a file: %v, mounted %v", err, m.calls)
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	m.err, m.gone = errors.New("connection timed out"), true
	if err := v.Prepare(t.Context(), p); err == nil || err.Error() != `MountVolume.SetUp failed for volume "own" : connection timed out` {
		t.Errorf("with the directory: %v", err)
	}
	release(t, v, dir, p.UID)
}

// TestMemoryOnce: a volume in memory that was mounted before its kubelet died is not mounted again over what it has.
func TestMemoryOnce(t *testing.T) {
	needMounts(t)
	v, dir := node(t, nil, volume.Options{})
	p := pod(emptyDirVolume("m", corev1.StorageMediumMemory))
	failAt(v, "mkdir", filepath.Join(dir, "pods/uid-1/plugins"))
	if err := v.Prepare(t.Context(), p); !errors.Is(err, errDead) {
		t.Fatalf("got %v", err)
	}
	file := write(t, "kept", v.Path(p, "m"), "file")
	prepare(t, v, p)
	if on := mountsBelow(t, dir); len(on) != 1 || read(t, file) != "kept" {
		t.Errorf("mounted: %v", on)
	}
	release(t, v, dir, p.UID)
}

// TestPodThatIsAMount: what somebody mounted over all of a pod's directory is not removed.
func TestPodThatIsAMount(t *testing.T) {
	needMounts(t)
	v, dir := node(t, nil, volume.Options{})
	at := filepath.Join(dir, "pods/uid-1")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	kept := write(t, "kept", at, "file")
	want := "unmounting volumes of pod uid-1: " + at + " itself is a mount"
	if err := v.Release(t.Context(), "uid-1"); err == nil || err.Error() != want || read(t, kept) != "kept" {
		t.Errorf("got %v, want %s", err, want)
	}
	detach(at)
	release(t, v, dir, "uid-1")
}

// TestUnreadable: what is there, but cannot be read or made, is no missing message or sub-path.
func TestUnreadable(t *testing.T) {
	needMounts(t)
	host := t.TempDir()
	message := write(t, "bye", host, "message")
	if err := errors.Join(os.Chmod(message, 0), os.Chmod(host, 0o555)); err != nil {
		t.Fatal(err)
	}
	v, dir := node(t, nil, volume.Options{Logger: quiet()})
	p := subPathPod(hostPathVolume("h", host), "new")
	fakeroot.Unprivileged(t, func() {
		got := volume.TerminationMessage(ended(cri.Mount{ContainerPath: "/m", HostPath: message}), nil)
		if want := "Error on reading termination log " + message + ": open " + message + ": permission denied"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		prepare(t, v, p)
		if _, err := v.Mounts(t.Context(), request(p)); err == nil || err.Error() != `failed to create subPath directory for volumeMount "h" of container "main"` {
			t.Errorf("got %v", err)
		}
	})
	release(t, v, dir, p.UID)
}
