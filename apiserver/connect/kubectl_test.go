package connect_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/kubectl"
	"github.com/keelson-dev/keelson/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.VerifyTestMain(m) }

func codecs() runtime.NegotiatedSerializer {
	return serializer.WithoutConversionCodecFactory{CodecFactory: clientscheme.Codecs}
}

// call is one run of kubectl and what it must answer.
type call struct {
	args   string // split at spaces; a part may be quoted by '
	stdin  string
	stdout string
	stderr string // is contained
	code   int
	any    bool   // the lines may come in any order
	remark string // lines of standard error with this text come and go: kubectl's own, a matter of its timing
}

func split(s string) []string {
	var all []string
	for i, part := range strings.Split(s, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

func check(t *testing.T, k kubectl.Kubectl, calls []call) {
	t.Helper()
	for _, c := range calls {
		got, err := k.Run(t.Context(), c.stdin, split(c.args)...)
		if err != nil {
			t.Fatal(err)
		}
		if c.any {
			got.Stdout = sorted(got.Stdout)
		}
		if c.remark != "" {
			got.Stderr = without(got.Stderr, c.remark)
		}
		if got.Code != c.code || got.Stdout != c.stdout || !strings.Contains(got.Stderr, c.stderr) || c.stderr == "" && got.Stderr != "" {
			t.Errorf("kubectl %s\n got code %d\n%.500q\n%q\nwant code %d\n%.500q\n%q", c.args, got.Code, got.Stdout, got.Stderr, c.code, c.stdout, c.stderr)
		}
	}
}

func without(text, remark string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, remark) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func sorted(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

const day = "2026-01-02T"

func TestLogs(t *testing.T) {
	t.Parallel()
	w := start(t)
	pod, cs := w.pod(t, "p", "main", "side")
	w.write(t, cs[0], day+"03:04:05.1Z stdout F one", day+"03:04:06Z stderr F two", day+"03:04:07Z stdout P thr", day+"03:04:08Z stdout F ee")
	w.write(t, cs[1], day+"03:04:05Z stdout F beside")
	previous := w.add(pod, "main", cri.ContainerExited)
	w.write(t, previous, day+"02:00:00Z stdout F before")
	k := w.kubectl(t, "admin", authn.GroupMasters)
	check(t, k, []call{
		{args: "logs p -c main", stdout: "one\ntwo\nthree\n"},
		{args: "logs p", stdout: "one\ntwo\nthree\n", stderr: "Defaulted container \"main\" out of: main, side"},
		{args: "logs p -c side", stdout: "beside\n"},
		{args: "logs p --all-containers --prefix", stdout: "[pod/p/main] one\n[pod/p/main] three\n[pod/p/main] two\n[pod/p/side] beside\n", any: true},
		{args: "logs p -c main --tail=2", stdout: "two\nthree\n"},
		{args: "logs p -c main --tail=0"},
		{args: "logs p -c main --timestamps --tail=1", stdout: day + "03:04:07.000000000Z three\n"},
		{args: "logs p -c main --since-time=" + day + "03:04:06Z", stdout: "two\nthree\n"},
		{args: "logs p -c main --since=1s"},
		{args: "logs p -c main --limit-bytes=6", stdout: "one\ntw"},
		{args: "logs p -c main --insecure-skip-tls-verify-backend", stdout: "one\ntwo\nthree\n"},
		{args: "logs p -c main --previous", stderr: `previous terminated container "main" in pod "p" not found`, code: 1},
		{args: "logs p -c none", stderr: "error: container none is not valid for pod p", code: 1},
		{args: "logs none", stderr: `pods "none" not found`, code: 1},
		{args: "get --raw /api/v1/namespaces/default/pods/p/log",
			stderr: "a container name must be specified for pod p, choose one of: [main side]", code: 1},
		{args: "get --raw /api/v1/namespaces/default/pods/p/log?container=main&stream=Stderr", stdout: "two\n"},
		{args: "get --raw /api/v1/namespaces/default/pods/p/log?container=main&tailLines=-1",
			stderr: `PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0`, code: 1},
		{args: "get --raw /api/v1/namespaces/default/pods/p/log?container=main&tailLines=x", stderr: `strconv.ParseInt: parsing "x": invalid syntax`, code: 1},
	})
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ContainerID: "host://" + previous.ID}
	pod.Status.ContainerStatuses[1].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	w.setStatus(t, pod)
	check(t, k, []call{
		{args: "logs p -c main --previous", stdout: "before\n"},
		{args: "logs p -c side", stderr: `container "side" in pod "p" is waiting to start: trying and failing to pull image`, code: 1},
	})
	if all := w.admitted.list(); len(all) != 0 {
		t.Errorf("admission has seen %v: a log is read, not connected to", all)
	}
}

// TestFollow: what is written appears, over a rotation too, and the end of the container is the end.
func TestFollow(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, cs := w.pod(t, "p", "main")
	w.write(t, cs[0], day+"03:04:05Z stdout F one")
	k := w.kubectl(t, "admin", authn.GroupMasters)
	c := k.Command(t.Context(), "logs", "-f", "p")
	lines := linesOf(t, c)
	expect(t, lines, "one")
	w.write(t, cs[0], day+"03:04:06Z stdout F two")
	expect(t, lines, "two")
	if err := os.Rename(cs[0].LogPath, cs[0].LogPath+".20260102-030407"); err != nil {
		t.Fatal(err)
	}
	w.write(t, cs[0], day+"03:04:07Z stdout F three")
	expect(t, lines, "three")
	w.write(t, cs[0], day+"03:04:08Z stdout F four")
	w.setState(cs[0].ID, cri.ContainerExited)
	expect(t, lines, "four")
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// linesOf starts a command and returns the lines that it writes.
func linesOf(t *testing.T, c *exec.Cmd) <-chan string {
	t.Helper()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

func expect(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	select {
	case got, ok := <-lines:
		if !ok || got != want {
			t.Fatalf("got line %q (%v), want %q", got, ok, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("no line %q", want)
	}
}

func TestExec(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.pod(t, "p", "main")
	w.pod(t, "gone", "main")
	for _, c := range w.containers {
		if strings.HasPrefix(c.ID, "gone") {
			w.setState(c.ID, cri.ContainerExited)
		}
	}
	k := w.kubectl(t, "admin", authn.GroupMasters)
	large := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	check(t, k, []call{
		{args: "exec p -- echo hello", stdout: "hello\n"},
		{args: "exec p -- sh -c 'echo out; echo err >&2; exit 3'", stdout: "out\n", stderr: "err\ncommand terminated with exit code 3\n", code: 3},
		{args: "exec p -- true"},
		{args: "exec p -- false", stderr: "command terminated with exit code 1", code: 1},
		{args: "exec -i p -- cat", stdin: "hello", stdout: "hello"},
		{args: "exec -i p -- cat", stdin: large, stdout: large},
		// It ends without having read everything: kubectl, still copying, says so when the answer overtakes it.
		{args: "exec -i p -- head -c 3", stdin: large, stdout: "012", remark: "Copying stdin failed"},
		{args: "exec -i p -- wc -c", stdin: "", stdout: "0\n"},
		{args: "exec p -c none -- cat", stderr: "container none is not valid for pod p", code: 1},
		{args: "exec none -- cat", stderr: `pods "none" not found`, code: 1},
		{args: "exec gone -- cat", stderr: `unable to upgrade connection: container not found ("main")`, code: 1},
		{args: "exec p -- no-such-command", stderr: "executable file not found", code: 1},
		{args: "get --raw /api/v1/namespaces/default/pods/p/exec?command=ls&stdout=true", stderr: "Upgrade request required", code: 1},
		{args: "get --raw /api/v1/namespaces/default/pods/p/exec?dryRun=All", stderr: "dryRun is not supported", code: 1},
	})
	if all := w.admitted.list(); len(all) == 0 || all[0] != "CONNECT PodExecOptions pods/exec p" {
		t.Errorf("admission has seen %v", all)
	}
}

// TestTerminal: kubectl with a terminal of its own gives the command one of the same size.
func TestTerminal(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.pod(t, "p", "main")
	k := w.kubectl(t, "admin", authn.GroupMasters)
	// kubectl sends the size beside all else, so that it may come after the first input.
	const script = `test -t 0 && echo terminal; read line; until [ "$(stty size)" = "33 77" ]; do sleep 0.01; done; stty size; echo got $line; exit 5`
	c := k.Command(t.Context(), "exec", "-it", "p", "--", "sh", "-c", script)
	terminal, err := pty.StartWithSize(c, &pty.Winsize{Rows: 33, Cols: 77})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = terminal.Close() }()
	out := bufio.NewReader(terminal)
	var all strings.Builder
	for _, want := range []string{"terminal", "input", "33 77", "got input"} {
		for {
			line, err := out.ReadString('\n')
			all.WriteString(line)
			if err != nil {
				t.Fatalf("%q never came: %v, but %q", want, err, all.String())
			}
			if strings.TrimSpace(line) == want {
				break
			}
		}
		if want == "terminal" {
			if _, err := terminal.WriteString("input\r"); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != 5 {
		t.Errorf("exit code %d", code)
	}
}

func TestAttach(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, cs := w.pod(t, "p", "main", "tty")
	k := w.kubectl(t, "admin", authn.GroupMasters)
	const hint = "If you don't see a command prompt"
	check(t, k, []call{
		{args: "attach p -c main", stdout: "attached to " + cs[0].ID + ", tty false\n", stderr: hint},
		{args: "attach -i p -c main", stdin: "said\n", stdout: "attached to " + cs[0].ID + ", tty false\nsaid\n", stderr: hint},
		{args: "attach p -c tty", stdout: "attached to " + cs[1].ID + ", tty true\n", stderr: hint},
		{args: "attach p -c none", stderr: "container none is not valid for pod p", code: 1},
	})
}

func TestCopy(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.pod(t, "p", "main")
	k := w.kubectl(t, "admin", authn.GroupMasters)
	local := t.TempDir()
	data := bytes.Repeat([]byte("some data\n"), 1<<17)
	from, to, back := filepath.Join(local, "from"), filepath.Join(w.dir, "to"), filepath.Join(local, "back")
	if err := os.WriteFile(from, data, 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, k, []call{{args: "cp " + from + " p:" + to}, {args: "cp p:" + to + " " + back, stdout: "tar: Removing leading `/' from member names\n"}})
	for _, path := range []string{to, back} {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
}

func TestPortForward(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.pod(t, "p", "main")
	echo := listen(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	defer serving.Wait()
	defer func() { _ = echo.Close() }()
	_, port, err := net.SplitHostPort(echo.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	k := w.kubectl(t, "admin", authn.GroupMasters)
	ctx, cancel := context.WithCancel(t.Context())
	c := k.Command(ctx, "port-forward", "p", ":"+port)
	lines := linesOf(t, c)
	local := ""
	select {
	case line := <-lines:
		if _, err := fmt.Sscanf(line, "Forwarding from %s -> ", &local); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing is forwarded")
	}
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	var clients sync.WaitGroup
	for range 5 {
		clients.Go(func() { roundTrip(t, local, data) })
	}
	clients.Wait()
	cancel()
	_ = c.Wait()
}

// roundTrip sends data to where it comes back from.
func roundTrip(t *testing.T, address string, data []byte) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	go func() { _, _ = conn.Write(data) }()
	got := make([]byte, len(data))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, data) {
		t.Errorf("what came back differs: %v", err)
	}
}

// TestDebug: an ephemeral container is added to a pod, run by its node, and attached to.
func TestDebug(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.pod(t, "p", "main")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	changes, err := w.client(t).Get().AbsPath("/api/v1/namespaces/default/pods").Param("watch", "true").Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var node sync.WaitGroup
	node.Go(func() {
		for e := range changes.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok || len(pod.Spec.EphemeralContainers) == 0 || len(pod.Status.EphemeralContainerStatuses) > 0 {
				continue
			}
			c := w.add(pod, "debugger", cri.ContainerRunning)
			pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{
				Name: "debugger", ContainerID: "host://" + c.ID, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}
			w.setStatus(t, pod)
			return
		}
	})
	check(t, w.kubectl(t, "admin", authn.GroupMasters), []call{{
		args: "debug p -i --image=image -c debugger --profile=general", stdin: "said\n", stderr: "If you don't see a command prompt",
		stdout: "attached to p-debugger-1, tty false\nsaid\n",
	}})
	changes.Stop()
	node.Wait()
}

// TestPermissions: who may read a pod's log must not run commands in it.
func TestPermissions(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, cs := w.pod(t, "p", "main")
	w.write(t, cs[0], day+"03:04:05Z stdout F one")
	const may = `pods "p" is forbidden: User "reader" cannot create resource "pods/%s" in API group "" in the namespace "default"`
	check(t, w.kubectl(t, "reader"), []call{
		{args: "logs p", stdout: "one\n"},
		{args: "exec p -- true", stderr: fmt.Sprintf(may, "exec"), code: 1},
		{args: "attach p", stderr: fmt.Sprintf(may, "attach"), code: 1},
		{args: "port-forward p :80", stderr: fmt.Sprintf(may, "portforward"), code: 1},
	})
	check(t, w.kubectl(t, "nobody"), []call{
		{args: "get --raw /api/v1/namespaces/default/pods/p/log", stderr: `User "nobody" cannot get resource "pods/log"`, code: 1},
		{args: "get --raw /api/v1/nodes/node/proxy/pods", stderr: `User "nobody" cannot get resource "nodes/proxy"`, code: 1},
	})
	w.pod(t, "forbidden", "main")
	check(t, w.kubectl(t, "admin", authn.GroupMasters), []call{
		{args: "exec forbidden -- true", stderr: `pods "forbidden" is forbidden: not this one`, code: 1},
	})
}
