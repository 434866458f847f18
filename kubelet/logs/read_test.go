package logs_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keelson-dev/keelson/kubelet/logs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = "2026-01-02T03:04:"

// store writes a file, compressed if its name says so.
func store(t testing.TB, path string, lines ...string) {
	t.Helper()
	var b bytes.Buffer
	w := io.WriteCloser(nopCloser{&b})
	if strings.HasSuffix(path, ".gz") {
		w = gzip.NewWriter(&b)
	}
	for _, line := range lines {
		if _, err := io.WriteString(w, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func number(n int64) *int64 { return &n }

// rotated is a log of several files.
func rotated(t *testing.T) string {
	t.Helper()
	log := filepath.Join(t.TempDir(), "0.log")
	store(t, log+".20260101-000000.gz", day+"01Z stdout F 1", day+"02Z stderr F 2")
	store(t, log+".20260102-000000", day+"03Z stdout F 3", "half a li")
	store(t, log+".20260102-000000-001", day+"03.5Z stdout F 3.5")
	store(t, log+".20260102-000001.tmp", day+"03Z stdout F never")
	store(t, log, day+"04Z stdout P 4", day+"05.25Z stdout P 4", day+"06Z stderr F 5", day+"07Z stdout F 4", day+"08Z stdout F 6")
	return log
}

func TestRead(t *testing.T) {
	log := rotated(t)
	tests := map[string]struct {
		options logs.Options
		none    logs.Stream // is not read
		want    string
	}{
		"all":             {want: "1\n2\n3\n3.5\n445\n4\n6\n"},
		"stdout":          {none: logs.Stderr, want: "1\n3\n3.5\n444\n6\n"},
		"stderr":          {none: logs.Stdout, want: "2\n5\n"},
		"none":            {options: logs.Options{Tail: number(0)}},
		"last":            {options: logs.Options{Tail: number(1)}, want: "6\n"},
		"within":          {options: logs.Options{Tail: number(2)}, want: "4\n6\n"},
		"one file":        {options: logs.Options{Tail: number(3)}, want: "445\n4\n6\n"},
		"into older":      {options: logs.Options{Tail: number(4)}, want: "3.5\n445\n4\n6\n"},
		"two older":       {options: logs.Options{Tail: number(5)}, want: "3\n3.5\n445\n4\n6\n"},
		"compressed":      {options: logs.Options{Tail: number(6)}, want: "2\n3\n3.5\n445\n4\n6\n"},
		"more than all":   {options: logs.Options{Tail: number(99)}, want: "1\n2\n3\n3.5\n445\n4\n6\n"},
		"last of stderr":  {options: logs.Options{Tail: number(1)}, none: logs.Stdout, want: "5\n"},
		"two of stderr":   {options: logs.Options{Tail: number(2)}, none: logs.Stdout, want: "2\n5\n"},
		"since":           {options: logs.Options{Since: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)}, want: "5\n4\n6\n"},
		"since never":     {options: logs.Options{Since: time.Date(2027, 1, 2, 3, 4, 6, 0, time.UTC)}},
		"limit":           {options: logs.Options{Limit: number(5)}, want: "1\n2\n3"},
		"limit of a tail": {options: logs.Options{Limit: number(3), Tail: number(2)}, want: "4\n6"},
		"timestamps": {options: logs.Options{Tail: number(1), Timestamps: true}, none: logs.Stderr,
			want: day + "08.000000000Z 6\n"},
		"timestamps once a line": {options: logs.Options{Since: time.Date(2026, 1, 2, 3, 4, 4, 0, time.UTC), Timestamps: true}, none: logs.Stderr,
			want: day + "04.000000000Z 444\n" + day + "08.000000000Z 6\n"},
		"limit with timestamps": {options: logs.Options{Tail: number(1), Timestamps: true, Limit: number(24)}, want: day + "08.0000"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o := test.options
			if o.Stdout = &out; test.none == logs.Stdout {
				o.Stdout = nil
			}
			if o.Stderr = &out; test.none == logs.Stderr {
				o.Stderr = nil
			}
			if err := logs.Read(t.Context(), log, o); err != nil || out.String() != test.want {
				t.Errorf("got %q, %v; want %q", &out, err, test.want)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	if err := logs.Read(t.Context(), filepath.Join(dir, "none.log"), logs.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	log := filepath.Join(dir, "0.log")
	store(t, log, day+"01Z stdout F 1")
	broken := errors.New("broken")
	if err := logs.Read(t.Context(), log, logs.Options{Stdout: failing{broken}}); !errors.Is(err, broken) {
		t.Errorf("output: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := logs.Read(ctx, log, logs.Options{Follow: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := logs.Read(t.Context(), log, logs.Options{Follow: true, Running: func(context.Context) (bool, error) { return false, broken }}); !errors.Is(err, broken) {
		t.Errorf("runtime: %v", err)
	}
	// A damaged file is skipped.
	if err := os.WriteFile(log+".20260101-000000.gz", []byte("no gzip"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := logs.Read(t.Context(), log, logs.Options{Stdout: &out, Tail: number(5)}); err != nil || out.String() != "1\n" {
		t.Errorf("beside a damaged file: %q, %v", &out, err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestTail compares the last lines with the end of all lines, for logs of all shapes.
func TestTail(t *testing.T) {
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		log := filepath.Join(dir, fmt.Sprintf("%d.log", i))
		var lines []string
		for range random.IntN(300) {
			text, tag := strings.Repeat("x", random.IntN(2000)), "F"
			if random.IntN(4) == 0 {
				tag = "P"
			}
			lines = append(lines, day+"01Z stdout "+tag+" "+text)
		}
		lines = append(lines, day+"01Z stdout F end")
		store(t, log, lines...)
		all := read(t, log, logs.Options{})
		for _, n := range []int{0, 1, 2, 10, 100, 1000} {
			whole := strings.SplitAfter(strings.TrimSuffix(all, "\n"), "\n")
			want := strings.Join(whole[max(len(whole)-n, 0):], "")
			if n > 0 {
				want += "\n"
			}
			if got := read(t, log, logs.Options{Tail: number(int64(n))}); got != want {
				t.Fatalf("log %d, last %d lines: got %d bytes, want %d", i, n, len(got), len(want))
			}
		}
	}
}

func read(t *testing.T, log string, o logs.Options) string {
	t.Helper()
	var out bytes.Buffer
	o.Stdout, o.Stderr = &out, &out
	if err := logs.Read(t.Context(), log, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// follower follows a log and passes on what it reads.
type follower struct {
	chunks chan string
	ended  chan struct{} // closed when the container is to have ended
	done   chan error
}

func (f *follower) Write(p []byte) (int, error) {
	f.chunks <- string(p)
	return len(p), nil
}

func follow(t *testing.T, log string, o logs.Options) *follower {
	t.Helper()
	f := &follower{make(chan string, 1000), make(chan struct{}), make(chan error, 1)}
	o.Stdout, o.Stderr, o.Follow = f, f, true
	o.Running = func(context.Context) (bool, error) {
		select {
		case <-f.ended:
			return false, nil
		default:
			return true, nil
		}
	}
	go func() { f.done <- logs.Read(t.Context(), log, o) }()
	return f
}

func (f *follower) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-f.chunks:
			if got != w {
				t.Fatalf("got %q, want %q", got, w)
			}
		case err := <-f.done:
			t.Fatalf("ended with %v before %q", err, w)
		case <-time.After(time.Minute):
			t.Fatalf("no %q", w)
		}
	}
}

func (f *follower) end(t *testing.T, want ...string) {
	t.Helper()
	close(f.ended)
	f.expect(t, want...)
	select {
	case err := <-f.done:
		if err != nil || len(f.chunks) > 0 {
			t.Errorf("ended with %v, %d more", err, len(f.chunks))
		}
	case <-time.After(time.Minute):
		t.Error("it goes on although the container has ended")
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFollow(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	store(t, log, day+"01Z stdout F 1", day+"02Z stdout F 2")
	f := follow(t, log, logs.Options{Tail: number(1)})
	f.expect(t, "2\n")
	appendTo(t, log, day+"03Z stdout F 3\n")
	f.expect(t, "3\n")
	appendTo(t, log, day+"04Z stdou")
	appendTo(t, log, "t P 4")
	appendTo(t, log, "4\n")
	f.expect(t, "44")
	// Output written to the old file before and after the new one appears is not lost.
	for i, name := range []string{".20260102-000000", ".20260102-000001"} {
		if err := os.Rename(log, log+name); err != nil {
			t.Fatal(err)
		}
		appendTo(t, log+name, day+"05Z stdout F old\n")
		appendTo(t, log, "")
		appendTo(t, log+name, day+"05Z stdout F older\n")
		appendTo(t, log, fmt.Sprintf("%s05Z stdout F new%d\n", day, i))
		f.expect(t, "old\n", "older\n", fmt.Sprintf("new%d\n", i))
	}
	appendTo(t, log, day+"09Z stdout F last\n"+day+"09Z stdout F end")
	f.end(t, "last\n", "end")
}

// TestFollowManyRotations: files that were rotated between two checks are read too.
func TestFollowManyRotations(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	store(t, log, day+"01Z stdout F 1")
	f := follow(t, log, logs.Options{})
	f.expect(t, "1\n")
	dir := filepath.Dir(log)
	for i, name := range []string{".20260102-000000", ".20260102-000001", ".20260102-000002"} {
		// Written under another name, so that it appears at once.
		next := filepath.Join(dir, "next")
		store(t, next, fmt.Sprintf("%s01Z stdout F %d", day, i+2))
		if err := os.Rename(log, log+name); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, log); err != nil {
			t.Fatal(err)
		}
	}
	f.expect(t, "2\n", "3\n", "4\n")
	f.end(t)
}

func TestFollowLimit(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	store(t, log, day+"01Z stdout F 1")
	f := follow(t, log, logs.Options{Limit: number(3)})
	f.expect(t, "1\n")
	appendTo(t, log, day+"01Z stdout F 234\n")
	f.expect(t, "2")
	if err := <-f.done; err != nil {
		t.Error(err)
	}
}

func BenchmarkTail(b *testing.B) {
	log := filepath.Join(b.TempDir(), "0.log")
	line := day + "01.123456789Z stdout F " + strings.Repeat("x", 100)
	lines := make([]string, 80_000)
	for i := range lines {
		lines[i] = line
	}
	store(b, log, lines...)
	for _, n := range []*int64{number(10), nil} {
		name := "all"
		if n != nil {
			name = "last"
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := logs.Read(b.Context(), log, logs.Options{Stdout: io.Discard, Tail: n}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
