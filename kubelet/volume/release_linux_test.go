package volume_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/volume"
)

// TestReleaseTouchesNothingOfOthers has mounts of all sorts in a pod's directory, none of which may lose data or be
// unmounted elsewhere.
func TestReleaseTouchesNothingOfOthers(t *testing.T) {
	needMounts(t)
	v, dir := node(t, newServer(rootCA()), volume.Options{})
	base := scratch(t)
	host := filepath.Join(base, "host")
	for _, d := range []string{host, filepath.Join(base, "other")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount := func(source, target, kind string, flags uintptr) {
		t.Helper()
		if err := unix.Mount(source, target, kind, flags, ""); err != nil {
			t.Fatalf("mount %s: %v", target, err)
		}
	}
	mount("tmpfs", host, "tmpfs", 0)
	mount("", host, "", unix.MS_SHARED)
	write(t, "data", base, "other/file")
	write(t, "data", host, "sub/file")
	p := pod(emptyDirVolume("e", ""), emptyDirVolume("m", corev1.StorageMediumMemory), apiAccess(), hostPathVolume("h", host))
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "h", MountPath: "/sub", SubPath: "sub"})
	prepare(t, v, p)
	got := mounts(t, v, request(p))
	// The container, whose mounts propagate to the host, mounts in all of them.
	for _, at := range []string{"/e", "/m", "/sub"} {
		in := filepath.Join(got[at].HostPath, "mounted")
		if err := os.Mkdir(in, 0o755); err != nil {
			t.Fatal(err)
		}
		mount(filepath.Join(base, "other"), in, "", unix.MS_BIND)
		mount("tmpfs", in, "tmpfs", 0) // one over the other
		write(t, "gone with the mount", in, "file")
	}
	if read(t, host, "sub/mounted/file") != "gone with the mount" {
		t.Error("the mount in the sub-path did not spread to the host: this test shows nothing")
	}
	// A process on the node has a file open.
	busy, err := os.Create(filepath.Join(got["/m"].HostPath, "open"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if on := mountsBelow(t, dir); len(on) != 9 {
		t.Fatalf("mounted: %v", on)
	}
	release(t, v, dir, p.UID)
	if left := mountsBelow(t, dir); len(left) > 0 {
		t.Errorf("still mounted: %v", left)
	}
	if read(t, base, "other/file") != "data" || read(t, host, "sub/file") != "data" || read(t, host, "sub/mounted/file") != "gone with the mount" {
		t.Error("data of others is gone")
	}
	if on := mountsBelow(t, host); len(on) != 3 || !slices.Contains(on, host+"/sub/mounted") {
		t.Errorf("mounted on the host: %v", on)
	}
	for range 3 {
		for _, m := range mountsBelow(t, base) {
			detach(m)
		}
	}
}

// TestReleaseStopsBeforeMounts: what cannot be unmounted is not deleted.
func TestReleaseStopsBeforeMounts(t *testing.T) {
	needMounts(t)
	v, dir := node(t, nil, volume.Options{})
	host := t.TempDir()
	write(t, "data", host, "file")
	p := pod(emptyDirVolume("e", ""))
	prepare(t, v, p)
	in := filepath.Join(v.Path(p, "e"), "in")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	// Mounted after the others were unmounted.
	v.SetStep(func(op, path string) error {
		if op == "unlink" && path == filepath.Join(dir, "pods/uid-1") {
			return unix.Mount(host, in, "", unix.MS_BIND, "")
		}
		return nil
	})
	if err := v.Release(t.Context(), p.UID); err == nil || !strings.Contains(err.Error(), "something is mounted there") {
		t.Errorf("got %v", err)
	}
	if read(t, host, "file") != "data" || read(t, in, "file") != "data" {
		t.Error("data of the host is gone")
	}
	v.SetStep(nil)
	release(t, v, dir, p.UID)
	if read(t, host, "file") != "data" {
		t.Error("data of the host is gone")
	}
}

func TestFullDisk(t *testing.T) {
	needMounts(t)
	dir := scratch(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m,nr_inodes=200"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { detach(dir) })
	big := config("c", "big", strings.Repeat("x", 1<<20), "small", "y")
	s := newServer(rootCA(), config("c", "small", "x"))
	v := reopen(t, filepath.Join(dir, "kubelet"), s, volume.Options{})
	p := pod(configMapVolume("c"), apiAccess(), emptyDirVolume("e", ""))
	prepare(t, v, p)
	mounts(t, v, request(p))
	r := request(p)
	r.IPs = []string{"10.0.0.6"}
	fill := write(t, strings.Repeat("z", 1600<<10), dir, "fill")
	used := func() int { return len(strings.Split(files(t, v.Path(p, "c")), " ")) + entries(t, v.Path(p, "c")) }
	before := used()
	s.put(big)
	for range 20 {
		err := v.Prepare(t.Context(), p)
		if failed := volume.Failures(err); len(failed) != 1 || failed[0].Volume != "c" || !errors.Is(failed[0], unix.ENOSPC) {
			t.Fatalf("got %v", err)
		}
	}
	if used() != before || files(t, v.Path(p, "c")) != "small=x" {
		t.Errorf("a full disk changed the volume: %s", files(t, v.Path(p, "c")))
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	prepare(t, v, p)
	if len(files(t, v.Path(p, "c"))) < 1<<20 {
		t.Error("the volume is not up to date")
	}
	mounts(t, v, r)
	release(t, v, filepath.Join(dir, "kubelet"), p.UID)
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestTakenAway: volumes that were unmounted or deleted are created again.
func TestTakenAway(t *testing.T) {
	needMounts(t)
	v, dir := node(t, newServer(rootCA(), config("c", "a", "1")), volume.Options{})
	p := pod(configMapVolume("c"), apiAccess(), emptyDirVolume("e", ""), emptyDirVolume("m", corev1.StorageMediumMemory))
	prepare(t, v, p)
	for _, name := range []string{"kube-api-access-x", "m"} {
		detach(v.Path(p, name))
	}
	for _, name := range []string{"c", "e"} {
		if err := os.RemoveAll(v.Path(p, name)); err != nil {
			t.Fatal(err)
		}
	}
	prepare(t, v, p)
	if on := mountsBelow(t, dir); len(on) != 2 {
		t.Errorf("mounted: %v", on)
	}
	if read(t, v.Path(p, "c"), "a") != "1" || read(t, v.Path(p, "kube-api-access-x"), "ca.crt") != "CERTIFICATE" || mode(t, v.Path(p, "e")).Perm() != 0o777 {
		t.Error("a volume is not back")
	}
	release(t, v, dir, p.UID)
}

// TestManyPods goes through the lives of many pods concurrently.
func TestManyPods(t *testing.T) {
	needMounts(t)
	v, dir := node(t, newServer(rootCA(), config("c", "a", "1")), volume.Options{})
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			p := pod(configMapVolume("c"), apiAccess(), emptyDirVolume("e", ""))
			p.UID = types.UID(fmt.Sprint("pod-", i/2)) // two at once for each
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "e", MountPath: "/sub", SubPath: "x"})
			for range 3 {
				if err := v.Prepare(t.Context(), p); err != nil {
					t.Error(err)
				}
				if _, err := v.Mounts(t.Context(), request(p)); err != nil && i%2 == 0 && i/2%2 == 0 {
					t.Error(err)
				}
				if i/2%2 == 1 { // the other may be in the middle
					if err := v.Release(t.Context(), p.UID); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	left, err := v.Orphans(func(types.UID) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range left {
		if err := v.Release(t.Context(), uid); err != nil {
			t.Error(err)
		}
	}
	release(t, v, dir, "pod-0")
}

func TestRemoveAll(t *testing.T) {
	needMounts(t)
	dir, host := scratch(t), t.TempDir()
	write(t, "data", host, "file")
	tree := filepath.Join(dir, "tree")
	in := filepath.Join(tree, "in")
	write(t, "x", tree, "file")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(host, in, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := volume.RemoveAll(tree); err == nil || read(t, host, "file") != "data" {
		t.Errorf("removed what is mounted: %v", err)
	}
	detach(in)
	if err := volume.RemoveAll(tree); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(tree); err == nil {
		t.Error("something is left")
	}
}
