package runtimetest

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// idle is a script that runs until it is asked to stop.
const idle = "trap 'exit 0' TERM; sleep 100000 & wait"

// change adapts the configurations of a pod and its container; containers get the namespaces of their pod unless they
// have others.
type change func(*cri.SandboxConfig, *cri.ContainerConfig)

// program is a shell that runs a script.
func (s suite) program(script string) Program {
	return Program{Image: s.Shell, Command: []string{"sh", "-c", script}}
}

// shell runs a pod with one container whose shell runs a script.
func (s suite) shell(t *testing.T, script string, adapt change) (sandbox, container string) {
	t.Helper()
	p := pod(t, "pod")
	p.Namespaces.PID = cri.NamespaceContainer // as Kubernetes has it
	c := config(p, "main", s.program(script), s.pull(t, Program{Image: s.Shell}))
	if adapt != nil {
		adapt(&p, &c)
	}
	if c.Namespaces == (cri.Namespaces{}) {
		c.Namespaces = p.Namespaces
	}
	sandbox = s.sandbox(t, p)
	return sandbox, s.container(t, sandbox, c, true)
}

// sh runs a script in a container and returns its output without the last newline. It must succeed.
func (s suite) sh(t *testing.T, id, script string) string {
	t.Helper()
	result := s.try(t, id, script)
	if result.ExitCode != 0 {
		t.Fatalf("%s: exit code %d: %s%s", script, result.ExitCode, result.Stdout, result.Stderr)
	}
	return strings.TrimSuffix(string(result.Stdout), "\n")
}

// try runs a script that may fail.
func (s suite) try(t *testing.T, id, script string) cri.ExecResult {
	t.Helper()
	result, err := s.runtime.ExecSync(s.context(t), id, []string{"sh", "-c", script}, s.Patience)
	if err != nil {
		t.Fatalf("ExecSync %s: %v", script, err)
	}
	return result
}

// says fails the test unless a script prints the wanted text.
func (s suite) says(t *testing.T, id, script, want string) {
	t.Helper()
	if got := s.sh(t, id, script); got != want {
		t.Errorf("%s: %q, want %q", script, got, want)
	}
}

// fails fails the test unless a script does.
func (s suite) fails(t *testing.T, id, script string) {
	t.Helper()
	if result := s.try(t, id, script); result.ExitCode == 0 {
		t.Errorf("%s succeeds: %s", script, result.Stdout)
	}
}

// eventually waits until a condition holds.
func (s suite) eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(s.Patience); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came true: %s", what)
		}
	}
}

// line is one line of a container's log.
type line struct {
	at     time.Time
	stream string // "stdout" or "stderr"
	tag    string // "F", or "P" for a part of a line
	text   string
}

// logOf reads a container's log, whose lines must all have the format of CRI.
func logOf(t *testing.T, path string) []line {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var lines []line
	for r := bufio.NewReader(file); ; {
		raw, err := r.ReadString('\n')
		if err != nil {
			if raw != "" {
				t.Errorf("the log ends within a line: %q", raw)
			}
			return lines
		}
		parts := strings.SplitN(strings.TrimSuffix(raw, "\n"), " ", 4)
		if len(parts) != 4 {
			t.Fatalf("a log line without four parts: %q", raw)
		}
		at, err := time.Parse(time.RFC3339Nano, parts[0])
		if err != nil || parts[1] != "stdout" && parts[1] != "stderr" || parts[2] != "F" && parts[2] != "P" {
			t.Fatalf("a log line that is not CRI's: %q (%v)", raw, err)
		}
		lines = append(lines, line{at, parts[1], parts[2], parts[3]})
	}
}

// text returns the text of one stream of the log.
func text(lines []line, stream string) string {
	var b strings.Builder
	for _, l := range lines {
		if l.stream == stream {
			b.WriteString(l.text)
			if l.tag == "F" {
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

// logPath is the required path of a container's log.
func (s suite) logPath(sandbox, name string) string {
	return filepath.Join(s.pods[sandbox].LogDirectory, name, "0.log")
}

// once runs a script to its end and returns its status and log.
func (s suite) once(t *testing.T, script string, adapt change) (cri.ContainerStatus, []line) {
	t.Helper()
	sandbox, id := s.shell(t, script, adapt)
	status := s.exited(t, id)
	return status, logOf(t, s.logPath(sandbox, "main"))
}

// short is a context for a call that must not take long.
func (s suite) short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
	t.Cleanup(cancel)
	return ctx
}
