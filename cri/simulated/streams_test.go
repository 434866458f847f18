package simulated_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/internal/inmemory"
)

// with returns a runtime whose containers all behave alike.
func with(p simulated.Program) *simulated.Runtime {
	return simulated.New(simulated.Options{Program: func(simulated.Process) simulated.Program { return p }})
}

// texts returns what a log has to say now.
func texts(log cri.Log) string {
	var all []string
	for {
		lines := log.Next()
		if len(lines) == 0 {
			return strings.Join(all, " ")
		}
		for _, l := range lines {
			all = append(all, l.Text)
		}
	}
}

// counting writes a number every second.
func counting(n int) (simulated.LogLine, bool) {
	return simulated.LogLine{After: time.Duration(n) * time.Second, Text: fmt.Sprint(n)}, true
}

func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := with(simulated.Program{Log: counting})
		defer r.Close()
		_, id := start(t, r)
		began := time.Now()
		log, err := r.OpenLog(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2500 * time.Millisecond)
		if err := r.WriteLog(id, "two\nlines\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := texts(log); got != "0 1 2 two lines 3" {
			t.Errorf("the log is %q", got)
		}
		if more, err := log.Wait(t.Context()); !more || err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("waited until %v: %v %v", time.Since(began), more, err)
		}
		go func() {
			time.Sleep(300 * time.Millisecond)
			if err := r.WriteLog(id, "soon"); err != nil {
				t.Error(err)
			}
		}()
		texts(log)
		if more, err := log.Wait(t.Context()); !more || err != nil || time.Since(began) != 4300*time.Millisecond {
			t.Errorf("waited until %v: %v %v", time.Since(began), more, err)
		}
		if got := log.Next(); len(got) != 1 || got[0] != (cri.LogLine{At: began.Add(4300 * time.Millisecond), Text: "soon"}) {
			t.Errorf("the log goes on with %+v", got)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if more, err := log.Wait(short); more || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited for no longer than the context: %v %v", more, err)
		}
		if err := r.Exit(id, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if more, err := log.Wait(t.Context()); more || err != nil || texts(log) != "" {
			t.Errorf("after the end: %v %v", more, err)
		}
		if err := r.WriteLog(id, "too late"); !errors.Is(err, cri.ErrInvalid) {
			t.Errorf("a container that has ended writes: %v", err)
		}
		if again, err := r.OpenLog(t.Context(), id); err != nil || texts(again) != "0 1 2 two lines 3 4 soon" {
			t.Errorf("another reader: %v", err)
		}
		_, unknown := r.OpenLog(t.Context(), "unknown")
		for _, err := range []error{unknown, r.WriteLog("unknown", "")} {
			if !errors.Is(err, cri.ErrNotFound) {
				t.Errorf("an unknown container: %v", err)
			}
		}
	})
}

// TestLongLog: a log of many lines is read in parts, of which none is lost.
func TestLongLog(t *testing.T) {
	const many = 12345
	r := with(simulated.Program{Log: func(n int) (simulated.LogLine, bool) { return simulated.LogLine{}, n < many }})
	defer r.Close()
	_, id := start(t, r)
	log, err := r.OpenLog(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for n := len(log.Next()); n > 0; n = len(log.Next()) {
		total += n
	}
	if total != many {
		t.Errorf("%d lines of %d", total, many)
	}
}

// TestUnscripted: what nobody has scripted says so, and names what does it.
func TestUnscripted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := with(simulated.Program{Log: simulated.Lines(
			simulated.LogLine{Text: "before"}, simulated.LogLine{After: time.Minute, Text: "out"}, simulated.LogLine{After: time.Minute, Text: "err", Stderr: true},
		)})
		defer r.Close()
		sandbox, id := start(t, r)
		_, err := r.HandleExec(t.Context(), id, []string{"sh"}, cri.StreamIO{})
		if !errors.Is(err, cri.ErrUnsupported) || !strings.Contains(err.Error(), "Program.Streams.Exec") {
			t.Errorf("exec: %v", err)
		}
		if err := r.HandlePort(t.Context(), sandbox, 80, nil); err == nil || !strings.Contains(err.Error(), "port 80 of pod n/p") || !strings.Contains(err.Error(), "Program.Streams.Port") {
			t.Errorf("port-forward: %v", err)
		}
		time.Sleep(time.Second)
		time.AfterFunc(time.Hour, func() { _ = r.Exit(id, 0) })
		began := time.Now()
		var stdout, stderr bytes.Buffer
		if err := r.HandleAttach(t.Context(), id, cri.StreamIO{Stdout: &stdout, Stderr: &stderr}); err != nil || stdout.String() != "out\n" || stderr.String() != "err\n" || time.Since(began) != time.Hour {
			t.Errorf("attach: %q %q after %v, %v", &stdout, &stderr, time.Since(began), err)
		}
	})
}

// TestScripted: scripts get the client's streams.
func TestScripted(t *testing.T) {
	r := with(simulated.Program{Streams: simulated.Streams{
		Exec: func(_ context.Context, command []string, s cri.StreamIO) (int32, error) {
			word := "nothing"
			if s.Stdin != nil {
				text, err := io.ReadAll(s.Stdin)
				if err != nil {
					return 0, err
				}
				word = string(text)
			}
			_, err := fmt.Fprintln(s.Stdout, command, word)
			return 4, err
		},
		Attach: func(_ context.Context, s cri.StreamIO) error {
			_, err := io.Copy(s.Stdout, s.Stdin)
			return err
		},
		Port: simulated.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "you are at "+r.URL.Path) })),
	}})
	defer r.Close()
	sandbox, id := start(t, r)
	var stdout bytes.Buffer
	code, err := r.HandleExec(t.Context(), id, []string{"cat"}, cri.StreamIO{Stdin: strings.NewReader("word"), Stdout: &stdout})
	if err != nil || code != 4 || stdout.String() != "[cat] word\n" {
		t.Errorf("exec: %q %d %v", &stdout, code, err)
	}
	if result, err := r.ExecSync(t.Context(), id, []string{"probe"}, 0); err != nil || result.ExitCode != 4 || string(result.Stdout) != "[probe] nothing\n" {
		t.Errorf("exec without streams: %q %d %v", result.Stdout, result.ExitCode, err)
	}
	stdout.Reset()
	if err := r.HandleAttach(t.Context(), id, cri.StreamIO{Stdin: strings.NewReader("echo"), Stdout: &stdout}); err != nil || stdout.String() != "echo" {
		t.Errorf("attach: %q %v", &stdout, err)
	}
	client, conn := inmemory.Pipe()
	served := make(chan error, 1)
	go func() { served <- r.HandlePort(t.Context(), sandbox, 80, conn) }()
	if _, err := io.WriteString(client, "GET /there HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, answer.ContentLength)
	if _, err := io.ReadFull(answer.Body, text); err != nil || string(text) != "you are at /there" {
		t.Errorf("port-forward: %q %v", text, err)
	}
	_ = client.Close()
	if err := <-served; err != nil {
		t.Errorf("port-forward: %v", err)
	}
}

// TestStreamsEnd: streams end with their container, and none begins after it.
func TestStreamsEnd(t *testing.T) {
	ended := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	synctest.Test(t, func(t *testing.T) {
		r := with(simulated.Program{Exits: true, After: time.Minute, Streams: simulated.Streams{
			Exec:   func(ctx context.Context, _ []string, _ cri.StreamIO) (int32, error) { return 137, ended(ctx) },
			Attach: func(ctx context.Context, _ cri.StreamIO) error { return ended(ctx) },
			Port:   func(ctx context.Context, _ int32, _ io.ReadWriteCloser) error { return ended(ctx) },
		}})
		defer r.Close()
		sandbox, id := start(t, r)
		calls := map[string]func() error{
			"exec":   func() error { _, err := r.HandleExec(t.Context(), id, nil, cri.StreamIO{}); return err },
			"attach": func() error { return r.HandleAttach(t.Context(), id, cri.StreamIO{}) },
			"port-forward": func() error {
				client, conn := inmemory.Pipe()
				defer func() { _ = client.Close() }()
				return r.HandlePort(t.Context(), sandbox, 80, conn)
			},
		}
		began := time.Now()
		results := make(chan error, len(calls))
		for _, call := range calls {
			go func() { results <- call() }()
		}
		for range calls {
			if err := <-results; !errors.Is(err, context.Canceled) || time.Since(began) != time.Minute {
				t.Errorf("ended after %v: %v", time.Since(began), err)
			}
		}
		for name, call := range calls {
			if err := call(); err == nil || name == "port-forward" && !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("%s of what has ended: %v", name, err)
			}
		}
		if _, err := r.ExecSync(t.Context(), id, nil, 0); !errors.Is(err, cri.ErrInvalid) {
			t.Errorf("a command in what has ended: %v", err)
		}
	})
}

// TestExecWithoutStreams: the Exec of a program answers clients with streams, too, and Streams.Exec those without.
func TestExecWithoutStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := with(simulated.Program{Exec: func([]string) cri.ExecResult {
			return cri.ExecResult{Stdout: []byte("out"), Stderr: []byte("err"), ExitCode: 5}
		}})
		defer r.Close()
		_, id := start(t, r)
		var stdout, stderr bytes.Buffer
		code, err := r.HandleExec(t.Context(), id, []string{"x"}, cri.StreamIO{Stdout: &stdout, Stderr: &stderr})
		if err != nil || code != 5 || stdout.String() != "out" || stderr.String() != "err" {
			t.Errorf("%q %q %d %v", &stdout, &stderr, code, err)
		}
		stdout.Reset() // a terminal has one output
		if code, err := r.HandleExec(t.Context(), id, []string{"x"}, cri.StreamIO{Stdout: &stdout, TTY: true}); err != nil || code != 5 || stdout.String() != "outerr" {
			t.Errorf("%q %d %v", &stdout, code, err)
		}
		if code, err := r.HandleExec(t.Context(), id, []string{"x"}, cri.StreamIO{}); err != nil || code != 5 {
			t.Errorf("with nobody who listens: %d %v", code, err)
		}
		broken := errors.New("broken")
		if _, err := r.HandleExec(t.Context(), id, []string{"x"}, cri.StreamIO{Stdout: &stdout, Stderr: failing{broken}}); !errors.Is(err, broken) {
			t.Errorf("a client that is gone: %v", err)
		}

		slow := with(simulated.Program{Streams: simulated.Streams{Exec: func(ctx context.Context, _ []string, _ cri.StreamIO) (int32, error) {
			<-ctx.Done()
			return 0, nil
		}}})
		defer slow.Close()
		_, id = start(t, slow)
		began := time.Now()
		if _, err := slow.ExecSync(t.Context(), id, []string{"x"}, time.Second); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestStreamErrors: streams to what is not there fail, and operations fail on demand.
func TestStreamErrors(t *testing.T) {
	boom := errors.New("boom")
	fail := simulated.Verb("")
	r := simulated.New(simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		if op.Verb == fail {
			return simulated.Outcome{Err: boom}
		}
		return simulated.Outcome{}
	}})
	defer r.Close()
	sandbox, id := start(t, r)
	calls := map[simulated.Verb]func(container, sandbox string) error{
		simulated.Exec: func(id, _ string) error {
			_, err := r.HandleExec(t.Context(), id, nil, cri.StreamIO{})
			return err
		},
		simulated.Attach:      func(id, _ string) error { return r.HandleAttach(t.Context(), id, cri.StreamIO{}) },
		simulated.PortForward: func(_, id string) error { return r.HandlePort(t.Context(), id, 80, nil) },
		simulated.List: func(id, _ string) error {
			_, err := r.OpenLog(t.Context(), id)
			return err
		},
	}
	for verb, call := range calls {
		if err := call("unknown", "unknown"); !errors.Is(err, cri.ErrNotFound) {
			t.Errorf("%s of what is not there: %v", verb, err)
		}
		fail = verb
		if err := call(id, sandbox); !errors.Is(err, boom) {
			t.Errorf("%s: %v", verb, err)
		}
		fail = ""
	}
	if _, err := r.DialPort(t.Context(), sandbox, 80); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a port where nothing listens: %v", err)
	}
}

// TestAttachBreaksOff: an attached client that is gone ends its stream.
func TestAttachBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := with(simulated.Program{Log: counting})
		defer r.Close()
		_, id := start(t, r)
		broken := errors.New("broken")
		if err := r.HandleAttach(t.Context(), id, cri.StreamIO{Stdout: failing{broken}}); !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		var out bytes.Buffer
		if err := r.HandleAttach(ctx, id, cri.StreamIO{Stdout: &out, TTY: true}); err != nil || out.String() != "2\r\n" {
			t.Errorf("%q, %v", &out, err)
		}
	})
}

// TestDialPort: connections to a port end with the container, and with the runtime.
func TestDialPort(t *testing.T) {
	for name, end := range map[string]func(r *simulated.Runtime, id string){
		"the container": func(r *simulated.Runtime, id string) { _ = r.Exit(id, 0) },
		"the runtime":   func(r *simulated.Runtime, _ string) { r.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := with(simulated.Program{Streams: simulated.Streams{Port: simulated.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, r.URL.Path)
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}))}})
				defer r.Close()
				sandbox, id := start(t, r)
				conn, err := r.DialPort(t.Context(), sandbox, 80)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(conn, "GET /there HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Minute, func() { end(r, id) })
				began := time.Now()
				text, err := io.ReadAll(conn)
				if err != nil || !strings.Contains(string(text), "/there") || time.Since(began) != time.Minute {
					t.Errorf("%q after %v, %v", text, time.Since(began), err)
				}
				_ = conn.Close()
				if name == "the runtime" {
					if _, err := r.DialPort(t.Context(), sandbox, 80); !errors.Is(err, cri.ErrUnavailable) {
						t.Errorf("after its end: %v", err)
					}
				}
			})
		})
	}
}

// TestUsageTogether: what containers use together grows, also when they end.
func TestUsageTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := with(simulated.Program{NanoCores: 500_000_000, Memory: 3 << 20, Exits: true, After: 10 * time.Second})
		defer r.Close()
		start(t, r)
		for _, want := range []simulated.Usage{
			{CoreNanoSeconds: 0, Memory: 3 << 20, Processes: 1}, {CoreNanoSeconds: 3_000_000_000, Memory: 3 << 20, Processes: 1},
			{CoreNanoSeconds: 5_000_000_000}, {CoreNanoSeconds: 5_000_000_000},
		} {
			if got := r.Usage(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			time.Sleep(6 * time.Second)
		}
	})
}

// TestScriptsEnd: what a script has left running learns from its context that nobody is there any more.
func TestScriptsEnd(t *testing.T) {
	var contexts []context.Context
	keep := func(ctx context.Context) { contexts = append(contexts, ctx) }
	r := with(simulated.Program{Streams: simulated.Streams{
		Exec:   func(ctx context.Context, _ []string, _ cri.StreamIO) (int32, error) { keep(ctx); return 0, nil },
		Attach: func(ctx context.Context, _ cri.StreamIO) error { keep(ctx); return nil },
		Port:   func(ctx context.Context, _ int32, _ io.ReadWriteCloser) error { keep(ctx); return nil },
	}})
	defer r.Close()
	sandbox, id := start(t, r)
	client, conn := inmemory.Pipe()
	defer func() { _ = client.Close() }()
	_, err := r.HandleExec(t.Context(), id, nil, cri.StreamIO{})
	if err := errors.Join(err, r.HandleAttach(t.Context(), id, cri.StreamIO{}), r.HandlePort(t.Context(), sandbox, 80, conn)); err != nil || len(contexts) != 3 {
		t.Fatalf("%d calls, %v", len(contexts), err)
	}
	for i, ctx := range contexts {
		if ctx.Err() == nil {
			t.Errorf("context %d goes on", i)
		}
	}
}

// TestHTTPEnds: the end of a container is no failure of those who were connected to it.
func TestHTTPEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := with(simulated.Program{Exits: true, After: time.Minute, Streams: simulated.Streams{Port: simulated.HTTP(http.NotFoundHandler())}})
		defer r.Close()
		sandbox, _ := start(t, r)
		client, conn := inmemory.Pipe()
		defer func() { _ = client.Close() }()
		began := time.Now()
		if err := r.HandlePort(t.Context(), sandbox, 80, conn); err != nil || time.Since(began) != time.Minute {
			t.Errorf("ended after %v: %v", time.Since(began), err)
		}
	})
}
