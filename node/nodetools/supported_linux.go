package nodetools

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Supported returns nil if this process can run real containers on this host, and else an error that is ErrUnsupported
// and lists every obstacle. It takes a few milliseconds, changes nothing and does not look for the tools.
func Supported(ctx context.Context) error {
	var reasons []string
	add := func(reason string) {
		if reason != "" {
			reasons = append(reasons, reason)
		}
	}
	if os.Geteuid() != 0 {
		add(fmt.Sprintf("they need root, and this is user %d", os.Geteuid()))
	} else {
		add(namespaces(ctx))
	}
	add(cgroups())
	add(overlay())
	if len(reasons) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUnsupported, strings.Join(reasons, "; "))
}

// namespaces tries the elements of a sandbox, including a bridge and a veth pair, in a process that ends at once.
func namespaces(ctx context.Context) string {
	args := []string{"-batch", "-"}
	program, err := exec.LookPath("ip")
	if err != nil {
		if program, err = exec.LookPath("true"); err != nil {
			return "" // nothing to try it with
		}
		args = nil
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader("link add name br0 type bridge\nlink add name v0 type veth peer name v1\nlink set v0 master br0\n")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS}
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return ""
	case len(bytes.TrimSpace(out)) > 0:
		return "the kernel makes no bridge or veth: " + string(bytes.TrimSpace(out))
	}
	return "no namespaces can be made: " + err.Error()
}

// cgroups checks for the controllers that limits and metrics of pods need, in either version.
func cgroups() string {
	want := []string{"cpu", "memory", "pids"}
	if err := syscall.Access("/sys/fs/cgroup", 2); err != nil && os.Geteuid() == 0 {
		return "no groups can be made in /sys/fs/cgroup: " + err.Error()
	}
	if b, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return missingOf("cgroup v2 is mounted without the controllers", want, strings.Fields(string(b)))
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "the mounts cannot be read: " + err.Error()
	}
	var have []string
	for line := range strings.Lines(string(b)) {
		_, after, _ := strings.Cut(line, " - ")
		if f := strings.Fields(after); len(f) == 3 && f[0] == "cgroup" {
			have = append(have, strings.Split(f[2], ",")...)
		}
	}
	return missingOf("no cgroup is mounted with the controllers", append(want, "cpuset", "freezer", "devices"), have)
}

func missingOf(what string, want, have []string) string {
	var missing []string
	for _, w := range want {
		found := false
		for _, h := range have {
			found = found || h == w
		}
		if !found {
			missing = append(missing, w)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return what + " " + strings.Join(missing, ", ")
}

// overlay checks whether overlayfs is in the kernel or can be loaded.
func overlay() string {
	b, err := os.ReadFile("/proc/filesystems")
	if err == nil && strings.Contains(string(b), "\toverlay\n") {
		return ""
	}
	if exec.Command("modprobe", "-q", "overlay").Run() == nil {
		return ""
	}
	return "the kernel has no overlayfs"
}
