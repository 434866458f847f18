package streams_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
	streamingspdy "k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/runtimetest"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/cri/streams"
	"github.com/keelson-dev/keelson/internal/inmemory"
	"github.com/keelson-dev/keelson/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.VerifyTestMain(m) }

// runtime is a simulated runtime whose streams are served.
type runtime struct {
	*simulated.Runtime
	*streams.Server
}

// serve serves the streams of a runtime with the given programs.
func serve(t testing.TB, program func(r *simulated.Runtime, p simulated.Process) simulated.Program) runtime {
	t.Helper()
	var r *simulated.Runtime
	r = simulated.New(simulated.Options{
		Program: func(p simulated.Process) simulated.Program { return program(r, p) },
		Behave: func(op simulated.Operation) simulated.Outcome {
			if op.Verb == simulated.PullImage && op.Image == "missing" {
				return simulated.Outcome{Err: fmt.Errorf("pulling: %w", cri.ErrNotFound)}
			}
			return simulated.Outcome{}
		},
	})
	t.Cleanup(r.Close)
	var s *streams.Server
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r) }))
	t.Cleanup(web.Close)
	s = streams.New(r, streams.Options{URL: web.URL})
	return runtime{r, s}
}

// imitation answers to the scripts of the conformance suite.
func imitation(r *simulated.Runtime, p simulated.Process) simulated.Program {
	switch p.Image {
	case "stubborn":
		return simulated.Program{IgnoresStop: true}
	case "failure":
		return simulated.Program{Exits: true, After: 20 * time.Millisecond, ExitCode: 3}
	case "success":
		return simulated.Program{Exits: true, After: 20 * time.Millisecond}
	}
	program := simulated.Program{Streams: simulated.Streams{
		Exec: shell,
		Attach: func(_ context.Context, s cri.StreamIO) error {
			for words := bufio.NewScanner(s.Stdin); words.Scan(); {
				_, _ = fmt.Fprintln(s.Stdout, "got", words.Text())
				_, _ = fmt.Fprintln(s.Stderr, "err")
			}
			_, err := fmt.Fprintln(s.Stdout, "end")
			return errors.Join(err, exit(r, p))
		},
		Port: func(_ context.Context, _ int32, conn io.ReadWriteCloser) error {
			_, err := io.WriteString(conn, "hello\n")
			return err
		},
	}}
	if len(p.Command) == 3 && strings.HasPrefix(p.Command[2], "echo one") {
		program.Exits = true
		program.After = 20 * time.Millisecond
		program.Log = simulated.Lines(simulated.LogLine{Text: "one"}, simulated.LogLine{Text: "two", Stderr: true},
			simulated.LogLine{After: 10 * time.Millisecond}, simulated.LogLine{After: 20 * time.Millisecond, Text: "a b  c"})
	}
	return program
}

// exit ends the container of a process.
func exit(r *simulated.Runtime, p simulated.Process) error {
	all, err := r.ListContainers(context.Background(), cri.Filter{Labels: map[string]string{cri.LabelPodUID: p.Pod.UID}})
	if err != nil {
		return err
	}
	return r.Exit(all[0].ID, 0)
}

func shell(_ context.Context, command []string, s cri.StreamIO) (int32, error) {
	switch text := strings.Join(command, " "); {
	case strings.Contains(text, "read word"):
		word, err := bufio.NewReader(s.Stdin).ReadString('\n')
		_, _ = fmt.Fprint(s.Stdout, "out ", word)
		_, _ = fmt.Fprintln(s.Stderr, "err")
		return 4, err
	case strings.Contains(text, "test -t"):
		if s.TTY && s.Stderr == nil {
			_, _ = fmt.Fprintln(s.Stdout, "terminal")
		}
		_, err := fmt.Fprintln(s.Stdout, "err")
		return 0, err
	case command[0] == "head":
		_, err := s.Stdout.Write(make([]byte, 5_000_000))
		return 0, err
	case command[0] == "echo":
		_, err := fmt.Fprintln(s.Stdout, strings.Join(command[1:], " "))
		return 0, err
	}
	return 127, nil
}

// connector speaks to streaming servers as kubectl does: over SPDY, or over WebSocket.
type connector struct{ websocket bool }

func (c connector) Stream(ctx context.Context, address string, s runtimetest.Streams) (int, error) {
	target, err := url.Parse(address)
	if err != nil {
		return 0, err
	}
	config := &rest.Config{Host: target.Host}
	executor, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, target)
	if c.websocket {
		executor, err = remotecommand.NewWebSocketExecutorForProtocols(config, http.MethodGet, address, "v4.channel.k8s.io")
	}
	if err != nil {
		return 0, err
	}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, Tty: s.TTY})
	var exit exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitStatus(), nil
	}
	return 0, err
}

// forwarded is one connection with the one that carries it.
type forwarded struct {
	io.ReadWriteCloser
	failure io.Reader
	close   func() error
}

func (f forwarded) Close() error { return errors.Join(f.ReadWriteCloser.Close(), f.close()) }

func (connector) Forward(_ context.Context, address string, port int32) (io.ReadWriteCloser, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{Host: target.Host})
	if err != nil {
		return nil, err
	}
	conn, _, err := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target).Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	header := func(kind string) http.Header {
		return http.Header{corev1.StreamType: {kind}, corev1.PortHeader: {fmt.Sprint(port)}, corev1.PortForwardRequestIDHeader: {"1"}}
	}
	failure, err := conn.CreateStream(header(corev1.StreamTypeError))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := failure.Close(); err != nil { // nothing is written to it
		return nil, errors.Join(err, conn.Close())
	}
	data, err := conn.CreateStream(header(corev1.StreamTypeData))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return forwarded{data, failure, conn.Close}, nil
}

// TestConformance holds a simulated runtime with streams to the contract.
func TestConformance(t *testing.T) {
	runtimetest.Run(t, func(t *testing.T) runtimetest.Runtime { return serve(t, imitation) }, runtimetest.Options{
		Sleeper:      runtimetest.Program{Image: "sleeper"},
		Stubborn:     runtimetest.Program{Image: "stubborn"},
		Failure:      runtimetest.Program{Image: "failure"},
		Success:      runtimetest.Program{Image: "success"},
		MissingImage: "missing",
		Pullable:     "pullable",
		Exec:         []string{"echo", "hello"}, ExecOutput: "hello\n",
		Imitation: "shell", Connect: connector{},
	})
}

// TestWebSocket: as over SPDY, but that protocol cannot end the input.
func TestWebSocket(t *testing.T) {
	r := serve(t, imitation)
	_, id := start(t, r, r)
	all := cri.Streams{Stdin: true, Stdout: true, Stderr: true}
	at, err := r.Server.Exec(t.Context(), cri.ExecRequest{ContainerID: id, Command: []string{"read word"}, Streams: all})
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	code, err := connector{websocket: true}.Stream(t.Context(), at, runtimetest.Streams{Stdin: strings.NewReader("there\n"), Stdout: &stdout, Stderr: &stderr})
	if err != nil || code != 4 || stdout.String() != "out there\n" || stderr.String() != "err\n" {
		t.Errorf("code %d, stdout %q, stderr %q, %v", code, &stdout, &stderr, err)
	}
}

// start runs a pod with one container.
func start(t testing.TB, r cri.RuntimeService, images cri.ImageService) (sandbox, container string) {
	t.Helper()
	ctx := t.Context()
	pod := cri.SandboxConfig{Metadata: cri.SandboxMetadata{Name: "p", Namespace: "n", UID: "u"}}
	sandbox, err := r.RunPodSandbox(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := images.PullImage(ctx, cri.ImageSpec{Image: "app"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	container, err = r.CreateContainer(ctx, sandbox, cri.ContainerConfig{Metadata: cri.ContainerMetadata{Name: "main"}, Image: cri.ImageSpec{Image: ref}}, pod)
	if err == nil {
		err = r.StartContainer(ctx, container)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sandbox, container
}

// TestClientGone: a command learns that its client is gone.
func TestClientGone(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	r := serve(t, func(*simulated.Runtime, simulated.Process) simulated.Program {
		return simulated.Program{Streams: simulated.Streams{Exec: func(ctx context.Context, _ []string, _ cri.StreamIO) (int32, error) {
			close(begun)
			<-ctx.Done()
			close(ended)
			return 0, ctx.Err()
		}}}
	})
	_, id := start(t, r, r)
	at, err := r.Server.Exec(t.Context(), cri.ExecRequest{ContainerID: id, Streams: cri.Streams{Stdout: true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = connector{}.Stream(ctx, at, runtimetest.Streams{Stdout: io.Discard})
	}()
	<-begun
	leave()
	<-gone
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the command goes on")
	}
}

// TestResize: a command learns the sizes of its terminal, until its client is gone.
func TestResize(t *testing.T) {
	left := make(chan struct{})
	r := serve(t, func(*simulated.Runtime, simulated.Process) simulated.Program {
		ignore := func(_ context.Context, s cri.StreamIO) error {
			_, err := io.ReadAll(s.Stdin)
			return err
		}
		return simulated.Program{Streams: simulated.Streams{Attach: ignore, Exec: func(ctx context.Context, command []string, s cri.StreamIO) (int32, error) {
			if command[0] == "ignore" {
				return 0, ignore(ctx, s)
			}
			size := <-s.Resize
			_, err := fmt.Fprint(s.Stdout, size.Width, "x", size.Height)
			for range s.Resize {
				err = errors.Join(err, errors.New("there is another size"))
			}
			close(left)
			return 0, err
		}}}
	})
	_, id := start(t, r, r)
	stream := func(ctx context.Context, command string, o remotecommand.StreamOptions) error {
		terminal := cri.Streams{Stdin: true, Stdout: true, TTY: true}
		at, err := r.Server.Exec(t.Context(), cri.ExecRequest{ContainerID: id, Command: []string{command}, Streams: terminal})
		if command == "" {
			at, err = r.Server.Attach(t.Context(), cri.AttachRequest{ContainerID: id, Streams: terminal})
		}
		if err != nil {
			t.Fatal(err)
		}
		target, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		executor, err := remotecommand.NewSPDYExecutor(&rest.Config{Host: target.Host}, http.MethodPost, target)
		if err != nil {
			t.Fatal(err)
		}
		o.Tty, o.TerminalSizeQueue = true, &sizes{{Width: 80, Height: 24}}
		return executor.StreamWithContext(ctx, o)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	out, in := io.Pipe()
	go func() {
		text := make([]byte, len("80x24"))
		if _, err := io.ReadFull(out, text); err != nil || string(text) != "80x24" {
			t.Errorf("%q, %v", text, err)
		}
		leave()
		_ = out.Close()
	}()
	keyboard, hand := io.Pipe() // nobody types
	_ = stream(ctx, "read", remotecommand.StreamOptions{Stdin: keyboard, Stdout: in})
	_ = hand.Close()
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Error("a command without a client waits for sizes")
	}
	// Whoever ignores the sizes leaves nothing behind.
	for _, command := range []string{"ignore", ""} {
		if err := stream(t.Context(), command, remotecommand.StreamOptions{Stdin: strings.NewReader("x"), Stdout: io.Discard}); err != nil {
			t.Error(err)
		}
	}
}

// served is a server of streams in a bubble, and one client's connection to it.
type served struct {
	*streams.Server
	sandbox, container string

	request context.CancelFunc // ends the client's request
	client  net.Conn
	ended   chan time.Duration // how long the request took
}

// inBubble serves the streams of a container in virtual time.
func inBubble(t *testing.T, program simulated.Streams, test func(t *testing.T, s *served)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := simulated.New(simulated.Options{Program: func(simulated.Process) simulated.Program { return simulated.Program{Streams: program} }})
		defer r.Close()
		s := &served{Server: streams.New(r, streams.Options{}), ended: make(chan time.Duration, 1)}
		s.sandbox, s.container = start(t, r, r)
		test(t, s)
	})
}

// dial connects to a URL, with the streams of a header each.
func (s *served) dial(t *testing.T, at string, protocol string, headers ...http.Header) []httpstream.Stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s.request = cancel
	began := time.Now()
	web := inmemory.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(ctx))
		s.ended <- time.Since(began)
	}))
	t.Cleanup(web.Close)
	t.Cleanup(cancel)
	through, err := streamingspdy.NewRoundTripperWithConfig(streamingspdy.RoundTripperConfig{
		UpgradeTransport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var err error
			s.client, err = web.Dial(ctx, nil)
			return s.client, err
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := spdy.NewDialerForStreaming(spdy.NewUpgraderForStreaming(through), &http.Client{Transport: through}, http.MethodPost, target).Dial(protocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var all []httpstream.Stream
	for _, h := range headers {
		stream, err := conn.CreateStream(h)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, stream)
	}
	return all
}

// port is the header of a stream of port-forward.
func port(kind string) http.Header {
	return http.Header{corev1.StreamType: {kind}, corev1.PortHeader: {"80"}, corev1.PortForwardRequestIDHeader: {"1"}}
}

// TestEnds: whatever ends a connection ends what is served over it, before the handler returns.
func TestEnds(t *testing.T) {
	for name, end := range map[string]func(s *served){
		"the client": func(s *served) { _ = s.client.Close() },
		"the server": func(s *served) { s.request() },
	} {
		t.Run(name, func(t *testing.T) {
			ended := 0
			wait := func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Minute)
				ended++
				return nil
			}
			inBubble(t, simulated.Streams{
				Exec: func(ctx context.Context, _ []string, _ cri.StreamIO) (int32, error) { return 0, wait(ctx) },
				Port: func(ctx context.Context, _ int32, _ io.ReadWriteCloser) error { return wait(ctx) },
			}, func(t *testing.T, s *served) {
				at, err := s.PortForward(t.Context(), s.sandbox, nil)
				if err != nil {
					t.Fatal(err)
				}
				s.dial(t, at, portforward.PortForwardProtocolV1Name, port(corev1.StreamTypeError), port(corev1.StreamTypeData))
				synctest.Wait()
				end(s)
				if took := <-s.ended; ended != 1 || took > 2*time.Minute {
					t.Errorf("ended %d after %v", ended, took)
				}
				if at, err = s.Exec(t.Context(), cri.ExecRequest{ContainerID: s.container, Streams: cri.Streams{Stdout: true}}); err != nil {
					t.Fatal(err)
				}
				s.dial(t, at, "v4.channel.k8s.io", http.Header{corev1.StreamType: {"error"}}, http.Header{corev1.StreamType: {"stdout"}})
				synctest.Wait()
				end(s)
				if took := <-s.ended; ended != 2 || took > 2*time.Minute {
					t.Errorf("ended %d after %v", ended, took)
				}
			})
		})
	}
}

// TestPatience: clients that do nothing are not waited for.
func TestPatience(t *testing.T) {
	quiet := simulated.Streams{
		Exec: func(ctx context.Context, _ []string, _ cri.StreamIO) (int32, error) {
			<-ctx.Done()
			return 0, nil
		},
		Attach: func(ctx context.Context, _ cri.StreamIO) error {
			<-ctx.Done()
			return nil
		},
		Port: func(ctx context.Context, _ int32, _ io.ReadWriteCloser) error {
			<-ctx.Done()
			return nil
		},
	}
	out := cri.Streams{Stdout: true}
	exec := func(ctx context.Context, s *served) (string, error) {
		return s.Exec(ctx, cri.ExecRequest{ContainerID: s.container, Streams: out})
	}
	attach := func(ctx context.Context, s *served) (string, error) {
		return s.Attach(ctx, cri.AttachRequest{ContainerID: s.container, Streams: out})
	}
	forward := func(ctx context.Context, s *served) (string, error) { return s.PortForward(ctx, s.sandbox, nil) }
	kinds := func(kinds ...string) []http.Header {
		var all []http.Header
		for _, kind := range kinds {
			all = append(all, http.Header{corev1.StreamType: {kind}})
		}
		return all
	}
	const command = "v4.channel.k8s.io"
	for name, c := range map[string]struct {
		prepare  func(context.Context, *served) (string, error)
		protocol string
		headers  []http.Header
		want     time.Duration
	}{
		"exec without streams":   {exec, command, kinds("error"), 30 * time.Second},
		"exec":                   {exec, command, kinds("error", "stdout"), 4 * time.Hour},
		"attach without streams": {attach, command, kinds("error"), 30 * time.Second},
		"attach":                 {attach, command, kinds("error", "stdout"), 4 * time.Hour},
		"port-forward":           {forward, portforward.PortForwardProtocolV1Name, []http.Header{port("error"), port("data")}, 4 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, quiet, func(t *testing.T, s *served) {
				at, err := c.prepare(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				s.dial(t, at, c.protocol, c.headers...)
				if took := <-s.ended; took < c.want || took > c.want+time.Minute {
					t.Errorf("it took %v, want %v", took, c.want)
				}
			})
		})
	}
	inBubble(t, quiet, func(t *testing.T, s *served) {
		at, err := forward(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		failure := s.dial(t, at, portforward.PortForwardProtocolV1Name, port("error"))[0]
		began, text := time.Now(), make([]byte, 100)
		n, err := failure.Read(text)
		if took := time.Since(began); err != nil || !strings.Contains(string(text[:n]), "timed out waiting for streams") || took > time.Minute {
			t.Errorf("%q after %v, %v", text[:n], took, err)
		}
	})
}

type sizes []remotecommand.TerminalSize

func (s *sizes) Next() *remotecommand.TerminalSize {
	if len(*s) == 0 {
		return nil
	}
	next := (*s)[0]
	*s = (*s)[1:]
	return &next
}

// TestURLs: a URL holds for one connection and a minute, and not too many wait.
func TestURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := simulated.New(simulated.Options{})
		defer r.Close()
		s := streams.New(r, streams.Options{URL: "https://10.0.0.1:1234/streams"})
		_, id := start(t, r, r)
		request := cri.AttachRequest{ContainerID: id, Streams: cri.Streams{Stdout: true}}
		code := func(at string) int {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, at, nil))
			return w.Code
		}
		at, err := s.Attach(t.Context(), request)
		if err != nil || !strings.HasPrefix(at, "https://10.0.0.1:1234/streams/") {
			t.Fatalf("%q, %v", at, err)
		}
		if first, second := code(at), code(at); first == http.StatusNotFound || second != http.StatusNotFound {
			t.Errorf("the first use is answered with %d, the second with %d", first, second)
		}
		if at, err = s.Attach(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + 1)
		if got := code(at); got != http.StatusNotFound {
			t.Errorf("an old URL is answered with %d", got)
		}
		for range 1000 {
			if _, err := s.Attach(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Attach(t.Context(), request); !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("one too many: %v", err)
		}
		time.Sleep(time.Minute + 1)
		if _, err := s.Attach(t.Context(), request); err != nil {
			t.Errorf("after the others: %v", err)
		}
	})
}

func Example() {
	r := simulated.New(simulated.Options{})
	defer r.Close()
	server := streams.New(r, streams.Options{URL: "http://127.0.0.1:10010"})
	_, err := server.Exec(context.Background(), cri.ExecRequest{ContainerID: "unknown", Command: []string{"sh"}})
	fmt.Println(errors.Is(err, cri.ErrNotFound))
	// Output: true
}
