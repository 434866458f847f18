package connect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/keelson-dev/keelson/cri"
)

// host is a container runtime whose containers are directories of this host: commands run in them
// as they are. It streams as containerd does, by the same library.
type host struct {
	streams streaming.Server
	web     *httptest.Server
	dir     string

	mu         sync.Mutex
	sandboxes  []cri.Sandbox
	containers map[string]*cri.ContainerStatus
}

func newHost(t testing.TB) *host {
	t.Helper()
	h := &host{dir: t.TempDir(), containers: map[string]*cri.ContainerStatus{}}
	h.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.streams.ServeHTTP(w, r) }))
	t.Cleanup(h.web.Close)
	base, err := url.Parse(h.web.URL)
	if err != nil {
		t.Fatal(err)
	}
	config := streaming.DefaultConfig
	config.BaseURL = base
	if h.streams, err = streaming.NewServer(config, runtimeOf{h}); err != nil {
		t.Fatal(err)
	}
	return h
}

func labels(pod *corev1.Pod, container string) map[string]string {
	return map[string]string{
		cri.LabelPodName: pod.Name, cri.LabelPodNamespace: pod.Namespace, cri.LabelPodUID: string(pod.UID), cri.LabelContainerName: container,
	}
}

// add makes a container, and its pod's sandbox.
func (h *host) add(pod *corev1.Pod, container string, state cri.ContainerState) *cri.ContainerStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &cri.ContainerStatus{}
	c.ID = fmt.Sprintf("%s-%s-%d", pod.Name, container, len(h.containers))
	c.State, c.Labels = state, labels(pod, container)
	c.LogPath = filepath.Join(h.dir, c.ID+".log")
	h.containers[c.ID] = c
	h.sandboxes = append(h.sandboxes, cri.Sandbox{ID: pod.Name, State: cri.SandboxReady, Labels: labels(pod, "")})
	return c
}

func (h *host) setState(id string, s cri.ContainerState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.containers[id].State = s
}

func (h *host) SandboxStatus(context.Context, string) (cri.SandboxStatus, error) {
	return cri.SandboxStatus{}, cri.ErrNotFound
}

func matches(all, some map[string]string) bool {
	for k, v := range some {
		if all[k] != v {
			return false
		}
	}
	return true
}

func (h *host) ListSandboxes(_ context.Context, f cri.Filter) ([]cri.Sandbox, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []cri.Sandbox
	for _, s := range h.sandboxes {
		if matches(s.Labels, f.Labels) {
			all = append(all, s)
		}
	}
	return all, nil
}

func (h *host) ContainerStatus(_ context.Context, id string) (cri.ContainerStatus, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c, ok := h.containers[id]; ok {
		return *c, nil
	}
	return cri.ContainerStatus{}, cri.ErrNotFound
}

func (h *host) ListContainers(_ context.Context, f cri.Filter) ([]cri.Container, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []cri.Container
	for _, c := range h.containers {
		if matches(c.Labels, f.Labels) {
			all = append(all, c.Container)
		}
	}
	return all, nil
}

func (h *host) ExecSync(ctx context.Context, _ string, command []string, _ time.Duration) (cri.ExecResult, error) {
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return cri.ExecResult{Stdout: out, Stderr: exit.Stderr, ExitCode: int32(exit.ExitCode())}, nil
	}
	return cri.ExecResult{Stdout: out}, err
}

func (h *host) Exec(_ context.Context, r cri.ExecRequest) (string, error) {
	answer, err := h.streams.GetExec(&runtimeapi.ExecRequest{
		ContainerId: r.ContainerID, Cmd: r.Command, Tty: r.TTY, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr,
	})
	return answer.GetUrl(), err
}

func (h *host) Attach(_ context.Context, r cri.AttachRequest) (string, error) {
	answer, err := h.streams.GetAttach(&runtimeapi.AttachRequest{
		ContainerId: r.ContainerID, Tty: r.TTY, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr,
	})
	return answer.GetUrl(), err
}

func (h *host) PortForward(_ context.Context, id string, ports []int32) (string, error) {
	answer, err := h.streams.GetPortForward(&runtimeapi.PortForwardRequest{PodSandboxId: id, Port: ports})
	return answer.GetUrl(), err
}

// runtimeOf is what the streaming library calls.
type runtimeOf struct{ *host }

func (r runtimeOf) Exec(ctx context.Context, _ string, command []string, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir = r.dir
	if tty {
		return runWithTTY(c, in, out, resize)
	}
	c.Stdin, c.WaitDelay = nil, 5*time.Second
	if out != nil {
		c.Stdout = out
	}
	if errs != nil {
		c.Stderr = errs
	}
	if in != nil {
		// Not c.Stdin: that would wait for the client to end its input.
		pipe, err := c.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(pipe, in)
			_ = pipe.Close()
		}()
	}
	return exitOf(c.Run())
}

func runWithTTY(c *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	terminal, err := pty.Start(c)
	if err != nil {
		return err
	}
	defer func() { _ = terminal.Close() }()
	go func() {
		for size := range resize {
			setSize(terminal, size)
		}
	}()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }()
	}
	_, _ = io.Copy(out, terminal)
	return exitOf(c.Wait())
}

// setSize is pty.Setsize for a file that may be closed at the same time.
func setSize(terminal *os.File, size remotecommand.TerminalSize) {
	conn, err := terminal.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Height, Col: size.Width})
	})
}

func exitOf(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}

// Attach is a process that says what it reads.
func (r runtimeOf) Attach(_ context.Context, id string, in io.Reader, out, _ io.WriteCloser, tty bool, _ <-chan remotecommand.TerminalSize) error {
	if _, err := fmt.Fprintf(out, "attached to %s, tty %v\n", id, tty); err != nil || in == nil {
		return err
	}
	_, err := io.Copy(out, in)
	return err
}

func (r runtimeOf) PortForward(_ context.Context, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(int(port)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	return err
}

// write appends lines to a container's log: "stdout F hello".
func (h *host) write(t testing.TB, c *cri.ContainerStatus, lines ...string) {
	t.Helper()
	f, err := os.OpenFile(c.LogPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	_, err = f.WriteString(b.String())
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
