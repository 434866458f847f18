package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

func (s suite) environment(t *testing.T) {
	_, id := s.shell(t, idle, func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		c.Env = []cri.EnvVar{
			{Name: "EMPTY"}, {Name: "SPACES", Value: " two  words "}, {Name: "LINES", Value: "a\nb"}, {Name: "EQUALS", Value: "a=b=c"},
			{Name: "TWICE", Value: "first"}, {Name: "TWICE", Value: "last"}, {Name: "WORDS", Value: "Ωmega $HOME"},
		}
	})
	for name, want := range map[string]string{
		"EMPTY": "", "SPACES": " two  words ", "LINES": "a\nb", "EQUALS": "a=b=c", "TWICE": "last", "WORDS": "Ωmega $HOME",
	} {
		s.says(t, id, `printf %s "[$`+name+`]"`, "["+want+"]")
	}
	if path := s.sh(t, id, "echo $PATH"); path == "" {
		t.Error("the image's environment is lost")
	}
	s.fails(t, id, "env | grep -q ^RUNTIMETEST_UNSET")
}

func (s suite) workingDir(t *testing.T) {
	_, id := s.shell(t, idle, func(_ *cri.SandboxConfig, c *cri.ContainerConfig) { c.WorkingDir = "/etc" })
	s.says(t, id, "readlink /proc/1/cwd", "/etc")
	s.says(t, id, "pwd", "/etc")
	status, lines := s.once(t, "pwd", func(_ *cri.SandboxConfig, c *cri.ContainerConfig) { c.WorkingDir = "/made/for/this" })
	if got := text(lines, "stdout"); got != "/made/for/this\n" || status.ExitCode != 0 {
		t.Errorf("in a directory that the image lacks: %q, exit code %d", got, status.ExitCode)
	}
}

// imageDefaults checks that arguments without a command replace the command of an image without an entry point, such as
// busybox.
func (s suite) imageDefaults(t *testing.T) {
	status, lines := s.once(t, "", func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		c.Command, c.Args = nil, []string{"echo", "of", "args"}
	})
	if got := text(lines, "stdout"); got != "of args\n" || status.ExitCode != 0 {
		t.Errorf("arguments alone: %q, exit code %d", got, status.ExitCode)
	}
	status, lines = s.once(t, "", func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		c.Command, c.Args = []string{"echo"}, []string{"of", "both"}
	})
	if got := text(lines, "stdout"); got != "of both\n" || status.ExitCode != 0 {
		t.Errorf("command and arguments: %q, exit code %d", got, status.ExitCode)
	}
}

func (s suite) exitBySignal(t *testing.T) {
	for script, want := range map[string]int32{
		"exit 255":                          255,
		"sh -c 'kill -ABRT $$'; exit $?":    128 + 6,
		"trap 'exit 9' USR1; kill -USR1 $$": 9,
	} {
		status, _ := s.once(t, script, nil)
		if status.ExitCode != want || status.Reason != "Error" {
			t.Errorf("%s: exit code %d, reason %q, want %d", script, status.ExitCode, status.Reason, want)
		}
	}
}

// startFails checks what is reported for a command that does not exist.
func (s suite) startFails(t *testing.T) {
	p := pod(t, "pod")
	c := config(p, "main", Program{Image: s.Shell, Command: []string{"/no/such/command"}}, s.pull(t, Program{Image: s.Shell}))
	sandbox := s.sandbox(t, p)
	id, err := s.runtime.CreateContainer(s.context(t), sandbox, c, *s.pods[sandbox])
	if err == nil {
		err = s.runtime.StartContainer(s.context(t), id)
	}
	if err == nil || !strings.Contains(err.Error(), "/no/such/command") {
		t.Errorf("a command that is not there: error %v", err)
	}
	if errors.Is(err, cri.ErrInvalid) || errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("a command that is not there is %v", err)
	}
	if id == "" {
		return
	}
	if status := s.state(t, id); status.State == cri.ContainerRunning || status.State == cri.ContainerExited && status.ExitCode == 0 {
		t.Errorf("the container is %s with exit code %d", status.State, status.ExitCode)
	}
}

func (s suite) stopSignal(t *testing.T) {
	const script = "trap 'exit 5' USR1; trap 'exit 6' TERM; touch /ready; sleep 100000 & wait"
	for signal, want := range map[string]int32{"SIGUSR1": 5, "": 6} {
		_, id := s.shell(t, script, func(_ *cri.SandboxConfig, c *cri.ContainerConfig) { c.StopSignal = signal })
		s.eventually(t, "the shell has set its traps", func() bool { return s.try(t, id, "test -e /ready").ExitCode == 0 })
		if status := s.state(t, id); signal != "" && status.StopSignal != "" && status.StopSignal != signal {
			t.Errorf("the status tells signal %s, want %s", status.StopSignal, signal)
		}
		if err := s.runtime.StopContainer(s.context(t), id, s.Patience); err != nil {
			t.Fatalf("StopContainer: %v", err)
		}
		if status := s.state(t, id); status.ExitCode != want {
			t.Errorf("stopped by %q: exit code %d, want %d", signal, status.ExitCode, want)
		}
	}
}

func (s suite) outOfMemory(t *testing.T) {
	status, _ := s.once(t, "exec tail -c 1000000000 /dev/zero", func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		c.Resources = cri.Resources{MemoryLimit: 16 << 20, MemorySwapLimit: 16 << 20}
	})
	if status.ExitCode != 137 || status.Reason != "OOMKilled" {
		t.Errorf("a container that wants more than its limit ended with %d, %q", status.ExitCode, status.Reason)
	}
}

func (s suite) execOutput(t *testing.T) {
	_, id := s.shell(t, idle, nil)
	for _, c := range []struct {
		script string
		want   cri.ExecResult
	}{
		{"echo out; echo err >&2; exit 7", cri.ExecResult{Stdout: []byte("out\n"), Stderr: []byte("err\n"), ExitCode: 7}},
		{"true", cri.ExecResult{}},
		{`printf '\0\377'`, cri.ExecResult{Stdout: []byte{0, 0xff}}},
		{"kill -9 $$", cri.ExecResult{ExitCode: 137}},
		{"cat", cri.ExecResult{}}, // there is no input
		{"head -c 3000000 /dev/zero", cri.ExecResult{Stdout: make([]byte, 3_000_000)}},
	} {
		got := s.try(t, id, c.script)
		if string(got.Stdout) != string(c.want.Stdout) || string(got.Stderr) != string(c.want.Stderr) || got.ExitCode != c.want.ExitCode {
			t.Errorf("%s: %d bytes %.20q, %q, %d", c.script, len(got.Stdout), got.Stdout, got.Stderr, got.ExitCode)
		}
	}
	if _, err := s.runtime.ExecSync(s.context(t), id, []string{"/no/such/command"}, s.Patience); err == nil || !strings.Contains(err.Error(), "/no/such/command") {
		t.Errorf("a command that is not there: %v", err)
	}
}

func (s suite) execTimeout(t *testing.T) {
	_, id := s.shell(t, idle, nil)
	began := time.Now()
	_, err := s.runtime.ExecSync(s.context(t), id, []string{"sleep", "31415"}, time.Second)
	is(t, "ExecSync that takes too long", err, context.DeadlineExceeded)
	if took := time.Since(began); took < time.Second || took > time.Second+s.Patience {
		t.Errorf("a timeout of a second took %v", took)
	}
	s.eventually(t, "the command is killed", func() bool {
		return s.try(t, id, "grep -q 3141[5] /proc/[0-9]*/cmdline").ExitCode != 0
	})
	if status := s.state(t, id); status.State != cri.ContainerRunning {
		t.Errorf("the container is %s", status.State)
	}
}

// terminal checks a container with a terminal: its output is one stream, and its lines end as a terminal's.
func (s suite) terminal(t *testing.T) {
	_, lines := s.once(t, "test -t 0 && test -t 1 && echo terminal; echo err >&2", func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		c.TTY, c.Stdin = true, true
	})
	if got := strings.ReplaceAll(text(lines, "stdout"), "\r", ""); got != "terminal\nerr\n" {
		t.Errorf("a container with a terminal says %q", got)
	}
	_, lines = s.once(t, "test -t 1 || echo none; cat; echo end", nil)
	if got := text(lines, "stdout"); got != "none\nend\n" {
		t.Errorf("a container without a terminal and input says %q", got)
	}
}

func (s suite) users(t *testing.T) {
	for name, c := range map[string]struct {
		user, group *int64
		groups      []int64
		want        string
	}{
		"a user alone": {n(1234), nil, nil, "1234 0"},
		"all":          {n(1234), n(2345), []int64{3456, 4567}, "1234 2345"},
		"root":         {n(0), n(0), nil, "0 0"},
	} {
		_, id := s.shell(t, idle, func(p *cri.SandboxConfig, config *cri.ContainerConfig) {
			config.Security.RunAsUser, config.Security.RunAsGroup, config.Security.SupplementalGroups = c.user, c.group, c.groups
			p.Security.RunAsUser, p.Security.RunAsGroup, p.Security.SupplementalGroups = c.user, c.group, c.groups
		})
		s.says(t, id, "echo $(id -u) $(id -g)", c.want)
		have := " " + s.sh(t, id, "grep ^Groups: /proc/1/status | tr '\t' ' '") + " "
		for _, group := range c.groups {
			if !strings.Contains(have, fmt.Sprintf(" %d ", group)) {
				t.Errorf("%s: the first process is in groups %q, not in %d", name, have, group)
			}
		}
		if user := s.state(t, id).User; user != nil && fmt.Sprint(user.UID, " ", user.GID) != c.want {
			t.Errorf("%s: the status tells %+v, want %s", name, user, c.want)
		}
	}
}

func (s suite) username(t *testing.T) {
	_, id := s.shell(t, idle, nil)
	name, uid, found := strings.Cut(s.sh(t, id, "grep -v ^root: /etc/passwd | head -n 1 | cut -d: -f1,3"), ":")
	if !found {
		t.Log("the image has no user but root")
		return
	}
	_, id = s.shell(t, idle, func(_ *cri.SandboxConfig, c *cri.ContainerConfig) { c.Security.RunAsUsername = name })
	s.says(t, id, "id -u", uid)
}

// strictGroups needs a runtime that supports it: groups of the image are not added.
func (s suite) strictGroups(t *testing.T) {
	status, err := s.runtime.Status(s.context(t))
	if err != nil {
		t.Fatal(err)
	}
	if !status.Features.SupplementalGroupsPolicy {
		t.Log("this runtime always merges groups")
		return
	}
	_, id := s.shell(t, idle, func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		c.Security.RunAsUser, c.Security.RunAsGroup = n(0), n(2345)
		c.Security.SupplementalGroups = []int64{3456}
		c.Security.SupplementalGroupsPolicy = cri.SupplementalGroupsStrict
	})
	s.says(t, id, "grep ^Groups: /proc/1/status | tr -s '\t ' '  ' | sed 's/ $//'", "Groups: 2345 3456")
}

func n(v int64) *int64 { return &v }
