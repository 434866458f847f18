package runtimetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/keelson-dev/keelson/cri"
)

func (s suite) mounts(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "from the host")
	_, id := s.shell(t, idle, func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		c.Mounts = []cri.Mount{
			{ContainerPath: "/rw", HostPath: dir},
			{ContainerPath: "/ro", HostPath: dir, ReadOnly: true},
			{ContainerPath: "/etc/single", HostPath: filepath.Join(dir, "file"), ReadOnly: true},
		}
	})
	s.says(t, id, "cat /rw/file /ro/file /etc/single", "from the hostfrom the hostfrom the host")
	s.sh(t, id, "echo from the container > /rw/new")
	if got := read(t, filepath.Join(dir, "new")); got != "from the container\n" {
		t.Errorf("the host reads %q", got)
	}
	s.fails(t, id, "touch /ro/other")
	s.fails(t, id, "echo x > /etc/single")
	write(t, filepath.Join(dir, "later"), "later")
	s.says(t, id, "cat /ro/later", "later")
	status := s.state(t, id)
	found := false
	for _, m := range status.Mounts {
		found = found || m.ContainerPath == "/ro" && m.HostPath == dir && m.ReadOnly
	}
	if !found {
		t.Errorf("the status does not tell the mounts: %+v", status.Mounts)
	}
}

// propagation tests mounts below a mount of a container, made on the host and in the container.
func (s suite) propagation(t *testing.T) {
	dir := t.TempDir()
	run(t, "mount", "-t", "tmpfs", "runtimetest", dir)
	t.Cleanup(func() { run(t, "umount", "-R", dir) })
	run(t, "mount", "--make-rshared", dir)
	for _, name := range []string{"late", "inner"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[cri.MountPropagation]string{}
	for _, p := range []cri.MountPropagation{cri.PropagationPrivate, cri.PropagationHostToContainer, cri.PropagationBidirectional} {
		_, ids[p] = s.shell(t, idle, func(pod *cri.SandboxConfig, c *cri.ContainerConfig) {
			c.Mounts = []cri.Mount{{ContainerPath: "/mnt", HostPath: dir, Propagation: p}}
			pod.Security.Privileged, c.Security.Privileged = true, true
		})
	}
	run(t, "mount", "-t", "tmpfs", "runtimetest", filepath.Join(dir, "late"))
	write(t, filepath.Join(dir, "late", "file"), "seen")
	s.fails(t, ids[cri.PropagationPrivate], "cat /mnt/late/file")
	s.says(t, ids[cri.PropagationHostToContainer], "cat /mnt/late/file", "seen")
	s.says(t, ids[cri.PropagationBidirectional], "cat /mnt/late/file", "seen")
	for p, seen := range map[cri.MountPropagation]bool{cri.PropagationHostToContainer: false, cri.PropagationBidirectional: true} {
		s.sh(t, ids[p], "mount -t tmpfs none /mnt/inner && touch /mnt/inner/file")
		_, err := os.Stat(filepath.Join(dir, "inner", "file"))
		if got := err == nil; got != seen {
			t.Errorf("propagation %d: the host sees the container's mount: %t", p, got)
		}
		s.sh(t, ids[p], "umount /mnt/inner")
	}
}

// able reports whether the default handler supports a feature.
func (s suite) able(t *testing.T, what func(cri.RuntimeHandler) bool) bool {
	t.Helper()
	status, err := s.runtime.Status(s.context(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range status.Handlers {
		if h.Name == "" && what(h) {
			return true
		}
	}
	return false
}

// recursiveReadOnly needs a runtime that supports it.
func (s suite) recursiveReadOnly(t *testing.T) {
	if !s.able(t, func(h cri.RuntimeHandler) bool { return h.RecursiveReadOnlyMounts }) {
		t.Log("this runtime makes no mounts read-only recursively")
		return
	}
	dir := t.TempDir()
	run(t, "mount", "-t", "tmpfs", "runtimetest", dir)
	t.Cleanup(func() { run(t, "umount", "-R", dir) })
	if err := os.Mkdir(filepath.Join(dir, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", "-t", "tmpfs", "runtimetest", filepath.Join(dir, "below"))
	_, id := s.shell(t, idle, func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		c.Mounts = []cri.Mount{
			{ContainerPath: "/shallow", HostPath: dir, ReadOnly: true},
			{ContainerPath: "/deep", HostPath: dir, ReadOnly: true, RecursiveReadOnly: true},
		}
	})
	s.fails(t, id, "touch /shallow/file")
	s.sh(t, id, "touch /shallow/below/file")
	s.fails(t, id, "touch /deep/file")
	s.fails(t, id, "touch /deep/below/other")
}

func (s suite) imageMount(t *testing.T) {
	ref := s.pull(t, Program{Image: s.Shell})
	_, id := s.shell(t, idle, func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		c.Mounts = []cri.Mount{
			{ContainerPath: "/image", ReadOnly: true, Image: &cri.ImageSpec{Image: ref, UserSpecified: s.Shell}},
			{ContainerPath: "/part", ReadOnly: true, Image: &cri.ImageSpec{Image: ref, UserSpecified: s.Shell}, ImageSubPath: "etc"},
		}
	})
	s.says(t, id, "cmp /image/etc/passwd /etc/passwd && cmp /part/passwd /etc/passwd && echo same", "same")
	s.fails(t, id, "touch /image/file")
}

func (s suite) devices(t *testing.T) {
	_, id := s.shell(t, idle, func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		c.Devices = []cri.Device{
			{HostPath: "/dev/null", ContainerPath: "/dev/given", Permissions: "rwm"},
			{HostPath: "/dev/zero", ContainerPath: "/dev/zeroes", Permissions: "r"},
		}
	})
	s.sh(t, id, "test -c /dev/given && echo x > /dev/given")
	s.says(t, id, "head -c 2 /dev/zeroes | od -An -tx1 | tr -d ' '", "0000")
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}
