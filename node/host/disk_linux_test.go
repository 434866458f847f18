package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/node/internal/nodetest"
)

// smallDisk is a directory on a file system of its own with room for a node and little else.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=400m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err, holders(dir), syscall.Unmount(dir, syscall.MNT_DETACH))
		}
	})
	return dir
}

// holders tells which processes have something open below a directory, and what is mounted there.
func holders(dir string) (all []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the patterns are good
	for _, pattern := range []string{"/proc/[0-9]*/cwd", "/proc/[0-9]*/root", "/proc/[0-9]*/exe"} {
		more, _ := filepath.Glob(pattern)
		links = append(links, more...)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir) {
			all = append(all, link+" is "+to)
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // without it there is less to tell
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, " "+dir) {
			all = append(all, "mounted: "+strings.TrimSpace(line))
		}
	}
	return all
}

// fill takes all the room there is on a disk.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for size := len(block); size > 0; {
		n, err := file.Write(block[:size])
		if errors.Is(err, syscall.ENOSPC) && n == 0 {
			size /= 2
		} else if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDiskFull: with a full disk pods that run go on, pods that start say what is missing, and when there is
// room again they start, and those go that were deleted meanwhile.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	w := nodetest.Start(t, nodetest.Options{Dir: filepath.Join(disk, "node")})
	config(w, t)
	w.Create(nodetest.Pod("runs", nodetest.Sleeper("c")))
	w.Create(nodetest.Pod("doomed", nodetest.Sleeper("c")))
	pid := w.PID(w.Ready("runs"), "c")
	w.Ready("doomed")

	free := fill(t, disk)
	w.Create(everything(w, t, "volumes"))
	w.Create(nodetest.Pod("plain", nodetest.Sleeper("c")))
	w.Event("volumes", "FailedMount", "no space left on device")
	w.Event("plain", "FailedCreatePodSandBox", "no space left on device")
	for _, name := range []string{"volumes", "plain"} {
		pod := w.Until(name, "waiting", func(p *corev1.Pod) bool { return len(p.Status.ContainerStatuses) > 0 })
		if pod.Status.Phase != corev1.PodPending {
			t.Errorf("pod %s is %s", name, pod.Status.Phase)
		}
	}
	w.Delete("doomed")
	w.Event("doomed", "Killing", "Stopping container c")
	free()
	w.Gone("doomed") // containerd cannot note the end of a container before
	for _, name := range []string{"volumes", "plain"} {
		w.Ready(name)
	}
	if now := w.PID(w.Ready("runs"), "c"); now != pid {
		t.Errorf("process %d has become %d", pid, now)
	}
	w.DeleteAll("runs", "volumes", "plain")
}
