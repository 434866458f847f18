package runtimetest

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/keelson-dev/keelson/cri"
)

// The numbers of a few capabilities.
const (
	capChown          = 0
	capNetBindService = 10
	capNetAdmin       = 12
	capSysTime        = 25
)

// has reports whether the first process of a container has an effective capability.
func (s suite) has(t *testing.T, id string, capability uint) bool {
	t.Helper()
	mask, err := strconv.ParseUint(s.sh(t, id, "grep ^CapEff: /proc/1/status | cut -f2"), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask&(1<<capability) != 0
}

func (s suite) capabilities(t *testing.T) {
	for name, c := range map[string]struct {
		change cri.Capabilities
		want   map[uint]bool
	}{
		"as usual":    {cri.Capabilities{}, map[uint]bool{capChown: true, capNetAdmin: false, capSysTime: false}},
		"one more":    {cri.Capabilities{Add: []string{"NET_ADMIN"}}, map[uint]bool{capChown: true, capNetAdmin: true, capSysTime: false}},
		"one less":    {cri.Capabilities{Drop: []string{"CHOWN"}}, map[uint]bool{capChown: false, capNetBindService: true}},
		"none":        {cri.Capabilities{Drop: []string{"ALL"}}, map[uint]bool{capChown: false, capNetBindService: false}},
		"one of none": {cri.Capabilities{Add: []string{"NET_BIND_SERVICE"}, Drop: []string{"ALL"}}, map[uint]bool{capChown: false, capNetBindService: true}},
	} {
		_, id := s.shell(t, idle, func(_ *cri.SandboxConfig, config *cri.ContainerConfig) { config.Security.Capabilities = c.change })
		for capability, want := range c.want {
			if got := s.has(t, id, capability); got != want {
				t.Errorf("%s: capability %d is %t", name, capability, got)
			}
		}
	}
}

func (s suite) privileged(t *testing.T) {
	_, id := s.shell(t, idle, func(p *cri.SandboxConfig, c *cri.ContainerConfig) {
		p.Security.Privileged, c.Security.Privileged = true, true
	})
	if !s.has(t, id, capNetAdmin) {
		t.Error("a privileged container lacks a capability")
	}
	s.sh(t, id, "mount -t tmpfs none /tmp && test -w /proc/sys/kernel/hostname && test ! -w /nowhere")
	_, id = s.shell(t, idle, nil)
	s.fails(t, id, "mount -t tmpfs none /tmp")
}

func (s suite) readOnlyRootfs(t *testing.T) {
	_, id := s.shell(t, idle, func(_ *cri.SandboxConfig, c *cri.ContainerConfig) { c.Security.ReadOnlyRootfs = true })
	s.fails(t, id, "touch /file")
	_, id = s.shell(t, idle, nil)
	s.sh(t, id, "touch /file")
}

func (s suite) noNewPrivileges(t *testing.T) {
	for _, on := range []bool{true, false} {
		_, id := s.shell(t, idle, func(_ *cri.SandboxConfig, c *cri.ContainerConfig) { c.Security.NoNewPrivs = on })
		s.says(t, id, "grep ^NoNewPrivs: /proc/1/status | cut -f2", map[bool]string{true: "1", false: "0"}[on])
	}
}

func (s suite) hiddenPaths(t *testing.T) {
	_, id := s.shell(t, idle, func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		c.Security.MaskedPaths = []string{"/proc/timer_list", "/etc/passwd", "/etc/never-there"}
		c.Security.ReadonlyPaths = []string{"/proc/sys", "/etc"}
	})
	s.says(t, id, "cat /etc/passwd", "")
	s.fails(t, id, "touch /etc/file")
	s.fails(t, id, "echo x > /proc/sys/kernel/hostname")
	s.sh(t, id, "touch /file")
}

func (s suite) seccomp(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "profile.json")
	const deny = `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}`
	if err := os.WriteFile(profile, []byte(deny), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		profile *cri.Profile
		mode    string
		mkdir   bool
	}{
		"unconfined": {&cri.Profile{Type: cri.ProfileUnconfined}, "0", true},
		"default":    {&cri.Profile{Type: cri.ProfileRuntimeDefault}, "2", true},
		"own":        {&cri.Profile{Type: cri.ProfileLocalhost, Localhost: profile}, "2", false},
	} {
		_, id := s.shell(t, idle, func(_ *cri.SandboxConfig, config *cri.ContainerConfig) { config.Security.Seccomp = c.profile })
		s.says(t, id, "grep ^Seccomp: /proc/1/status | cut -f2", c.mode)
		if got := s.try(t, id, "mkdir /directory").ExitCode == 0; got != c.mkdir {
			t.Errorf("%s: mkdir works: %t", name, got)
		}
	}
}
