package logs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/kubelet/logs"
)

var errFull = errors.New("nobody reads any more")

// limited accepts a number of writes and then fails.
type limited struct {
	left int
	seen strings.Builder
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left == 0 {
		return 0, errFull
	}
	l.left--
	return l.seen.Write(p)
}

// Lines longer than one chunk still count as one line, in all files.
func TestLongLines(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	const buffer = 64 << 10
	var want []string
	var lines []string
	for i, length := range []int{0, 1, buffer - 40, buffer - 1, buffer, buffer + 1, 2*buffer + 7, 3} {
		text := fmt.Sprint(i) + strings.Repeat("x", length)
		lines = append(lines, day+"01Z stdout F "+text)
		want = append(want, text+"\n")
	}
	store(t, log+".20260101-000000.gz", lines...)
	store(t, log+".20260102-000000", lines...)
	store(t, log, lines...)
	all := slices.Concat(want, want, want)
	for n := range len(all) + 2 {
		if got := read(t, log, logs.Options{Tail: number(int64(n))}); got != strings.Join(all[max(len(all)-n, 0):], "") {
			t.Errorf("the last %d lines are %d bytes", n, len(got))
		}
	}
	if got := read(t, log, logs.Options{}); got != strings.Join(all, "") {
		t.Errorf("all lines are %d bytes", len(got))
	}
}

// The last lines are found wherever lines end within a chunk.
func TestTailAtTheEdges(t *testing.T) {
	const chunk = 64 << 10
	dir := t.TempDir()
	const prefix = day + "01Z stdout F "
	for last := -2; last <= 2; last++ {
		for before := -2; before <= 2; before++ {
			log := filepath.Join(dir, fmt.Sprintf("%d_%d.log", last, before))
			texts := []string{"first", strings.Repeat("b", chunk-len(prefix)-1+before), strings.Repeat("a", chunk-len(prefix)-1+last)}
			store(t, log, prefix+texts[0], prefix+texts[1], prefix+texts[2])
			for n := 1; n <= 4; n++ {
				want := strings.Join(texts[max(3-n, 0):], "\n") + "\n"
				if got := read(t, log, logs.Options{Tail: number(int64(n))}); got != want {
					t.Fatalf("%d, %d: the last %d lines are %d bytes, not %d", last, before, n, len(got), len(want))
				}
			}
		}
	}
}

// Malformed lines do not count; a line that is being written does.
func TestTailOfOddLines(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		none  logs.Stream
		want  []string // of the last 0, 1, 2, ... lines
	}{
		"damaged":          {[]string{"", day + "01Z stdout F 1", "half", day + "02Z stdout", day + "02Z stdout F", day + "02Z stdout F 2", "x y z"}, "", []string{"", "2\n", "1\n2\n", "1\n2\n"}},
		"being written":    {[]string{day + "01Z stdout F 1", day + "02Z stdout P 2", day + "02Z stdout P 3"}, "", []string{"", "23", "1\n23", "1\n23"}},
		"was written":      {[]string{day + "01Z stdout F 1", day + "02Z stdout P 2", day + "02Z stdout F 3"}, "", []string{"", "23\n", "1\n23\n"}},
		"of the other":     {[]string{day + "01Z stdout F 1", day + "02Z stderr F 2", day + "02Z stderr P 3"}, logs.Stderr, []string{"", "1\n", "1\n"}},
		"beginning inside": {[]string{day + "02Z stdout P 2", day + "02Z stdout F 3"}, "", []string{"", "23\n", "23\n"}},
		"with more tags":   {[]string{day + "01Z stdout F:x 1", day + "02Z stdout P:x 2", day + "02Z stdout F:x 3"}, "", []string{"", "23\n", "1\n23\n"}},
		"nothing":          {nil, "", []string{"", "", ""}},
	} {
		log := filepath.Join(t.TempDir(), "0.log")
		store(t, log, tt.lines...)
		for n, want := range tt.want {
			var out bytes.Buffer
			o := logs.Options{Stdout: &out, Stderr: &out, Tail: number(int64(n))}
			if tt.none == logs.Stderr {
				o.Stderr = nil
			}
			if err := logs.Read(t.Context(), log, o); err != nil || out.String() != want {
				t.Errorf("%s: the last %d: %q, %v", name, n, &out, err)
			}
		}
	}
}

// Combinations: outputs by stream, limits at the edges of entries.
func TestStreamsAndLimits(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	store(t, log, day+"01Z stdout F 12", day+"02Z stderr F 34", day+"03Z stdout F 56")
	for limit, want := range map[int64]string{0: "", 1: "1", 3: "12\n", 4: "12\n3", 6: "12\n34\n", 9: "12\n34\n56\n", 10: "12\n34\n56\n"} {
		if got := read(t, log, logs.Options{Limit: number(limit)}); got != want {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
	for _, o := range []struct {
		options logs.Options
		want    string
	}{{logs.Options{Tail: number(2)}, "12\n56\n"}, {logs.Options{Tail: number(1)}, "56\n"}} {
		var out bytes.Buffer
		o.options.Stdout = &out
		if err := logs.Read(t.Context(), log, o.options); err != nil || out.String() != o.want {
			t.Errorf("%q, %v", &out, err)
		}
		out.Reset()
		o.options.Stdout, o.options.Stderr = nil, &out
		if err := logs.Read(t.Context(), log, o.options); err != nil || out.String() != "34\n" {
			t.Errorf("%q, %v", &out, err)
		}
	}
	// Reaching the limit ends the read, even while following.
	asked := func(context.Context) (bool, error) { t.Error("asked whether it runs"); return true, nil }
	for _, limit := range []int64{0, 4, 9} {
		if got := read(t, log, logs.Options{Limit: number(limit), Follow: true, Running: asked}); int64(len(got)) != limit {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
	empty := filepath.Join(t.TempDir(), "0.log")
	store(t, empty)
	if got := read(t, empty, logs.Options{Limit: number(0), Follow: true, Running: asked}); got != "" {
		t.Errorf("of nothing %q", got)
	}
}

// Any failure while following ends the read with that error.
func TestFollowFails(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		options func(log string, o *logs.Options) // what happens at the end of the log
		writes  int
		want    error
		seen    string
	}{
		"idle": {func(_ string, o *logs.Options) { o.Idle = func() error { return broken } }, 9, broken, "1\n"},
		"asking whether it runs": {func(_ string, o *logs.Options) {
			calls := 0
			o.Running = func(context.Context) (bool, error) { calls++; return true, []error{nil, nil, broken}[calls] }
		}, 9, broken, "1\n"},
		"more": {func(log string, o *logs.Options) {
			o.Idle = func() error { appendTo(t, log, day+"02Z stdout F 2\n"); return nil }
		}, 3, errFull, "1\n2\n2\n"},
		"an end without a line end": {func(log string, o *logs.Options) {
			o.Running = func(context.Context) (bool, error) { appendTo(t, log, day+"02Z stdout F 2"); return false, nil }
		}, 1, errFull, "1\n"},
		"a rotation within a line": {func(log string, o *logs.Options) {
			calls := 0
			o.Idle = func() error {
				if calls++; calls > 1 {
					return nil
				}
				appendTo(t, log, day+"02Z stdout F 2")
				if err := os.Rename(log, log+".20260102-000000"); err != nil {
					t.Error(err)
				}
				appendTo(t, log, day+"03Z stdout F 3\n")
				return nil
			}
		}, 1, errFull, "1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "0.log")
			store(t, log, day+"01Z stdout F 1")
			out := &limited{left: tt.writes}
			o := logs.Options{Stdout: out, Stderr: out, Follow: true}
			tt.options(log, &o)
			if err := logs.Read(t.Context(), log, o); !errors.Is(err, tt.want) || out.seen.String() != tt.seen {
				t.Errorf("%v after %q", err, out.seen.String())
			}
		})
	}
	// Without Running, following continues until its context ends.
	log := filepath.Join(t.TempDir(), "0.log")
	store(t, log, day+"01Z stdout F 1")
	ctx, cancel := context.WithCancel(t.Context())
	idle := 0
	err := logs.Read(ctx, log, logs.Options{Stdout: io.Discard, Follow: true, Idle: func() error {
		if idle++; idle == 3 {
			cancel()
		}
		return nil
	}})
	if !errors.Is(err, context.Canceled) || idle != 3 {
		t.Errorf("%v after %d times", err, idle)
	}
}

// A log that is a directory, or that may not be read, is an error.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "0.log")
	if err := os.Mkdir(log, 0o755); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]logs.Options{"read log: ": {}, "find the last lines: ": {Tail: number(1)}} {
		o.Stdout = io.Discard
		if err := logs.Read(t.Context(), log, o); !errors.Is(err, syscall.EISDIR) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("a directory: %v", err)
		}
	}
	loop := filepath.Join(dir, "loop.log")
	if err := os.Symlink("loop.log", loop); err != nil {
		t.Fatal(err)
	}
	if err := logs.Read(t.Context(), loop, logs.Options{}); err == nil {
		t.Error("a loop was read")
	}
	if _, err := logs.Rotated(filepath.Join(dir, "missing", "0.log")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("rotated files of a directory that is not there: %v", err)
	}
	// A link to a log stands for the log, with its rotated files.
	store(t, filepath.Join(dir, "1.log"), day+"02Z stdout F 2")
	store(t, filepath.Join(dir, "1.log.20260101-000000"), day+"01Z stdout F 1")
	link := filepath.Join(t.TempDir(), "link.log")
	if err := os.Symlink(filepath.Join(dir, "1.log"), link); err != nil {
		t.Fatal(err)
	}
	if got := read(t, link, logs.Options{}); got != "1\n2\n" {
		t.Errorf("through a link: %q", got)
	}
	if err := os.Chmod(filepath.Join(dir, "1.log"), 0); err != nil {
		t.Fatal(err)
	}
	fakeroot.Unprivileged(t, func() {
		if err := logs.Read(t.Context(), link, logs.Options{}); !errors.Is(err, os.ErrPermission) {
			t.Errorf("a secret log: %v", err)
		}
	})
	store(t, filepath.Join(dir, "2.log"))
	if err := os.Chmod(dir, 0o300); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(dir, 0o700) }()
	fakeroot.Unprivileged(t, func() {
		if err := logs.Read(t.Context(), filepath.Join(dir, "2.log"), logs.Options{}); !errors.Is(err, os.ErrPermission) {
			t.Errorf("a secret directory: %v", err)
		}
	})
}

// A damaged file loses only its own lines, not those after it.
func TestDamagedParts(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	store(t, log+".20260101-000000", day+"01Z stdout F 1")
	store(t, log+".20260102-000000", day+"02Z stdout F 2", day+"02Z stdout F 3")
	store(t, log, day+"03Z stdout F 4")
	if err := os.WriteFile(log+".20260103-000000.gz", []byte("no gzip"), 0o600); err != nil {
		t.Fatal(err)
	}
	store(t, log+".20260104-000000.gz", day+"03Z stdout F never", strings.Repeat("x", 100))
	data, err := os.ReadFile(log + ".20260104-000000.gz")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log+".20260104-000000.gz", data[:len(data)-12], 0o600); err != nil { // truncated
		t.Fatal(err)
	}
	for n, want := range map[int64]string{1: "4\n", 2: "3\n4\n", 3: "2\n3\n4\n", 4: "1\n2\n3\n4\n", 9: "1\n2\n3\n4\n"} {
		var out bytes.Buffer
		err := logs.Read(t.Context(), log, logs.Options{Stdout: &out, Tail: number(n)})
		if got := strings.Replace(out.String(), "never\n", "", 1); err == nil && got != want {
			t.Errorf("the last %d: %q", n, &out)
		}
	}
}

// sparse makes a file of a size without writing it.
func sparse(t *testing.T, path string, size int64) {
	t.Helper()
	store(t, path)
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// By default, logs are rotated at 10 MiB and five files are kept; two is the minimum.
func TestRotatorDefaults(t *testing.T) {
	for _, tt := range []struct {
		options logs.RotatorOptions
		size    int64
		rotates bool
		files   int
	}{
		{logs.RotatorOptions{}, 10<<20 - 1, false, 6},
		{logs.RotatorOptions{}, 10 << 20, true, 5},
		{logs.RotatorOptions{MaxSize: -5, MaxFiles: -5, Period: -5}, 10<<20 - 1, false, 6},
		{logs.RotatorOptions{MaxSize: -5, MaxFiles: -5}, 10 << 20, true, 5},
		{logs.RotatorOptions{MaxSize: 1, MaxFiles: 1}, 1, true, 2},
		{logs.RotatorOptions{MaxSize: 2, MaxFiles: 2}, 1, false, 6},
		{logs.RotatorOptions{MaxSize: 1, MaxFiles: 3}, 1, true, 3},
	} {
		r := &runtime{dir: t.TempDir(), states: map[string]cri.ContainerState{"c": cri.ContainerRunning}}
		for i := range 5 {
			store(t, r.path("c")+fmt.Sprintf(".2000010%d-000000.gz", i))
		}
		sparse(t, r.path("c"), tt.size)
		if err := logs.NewRotator(r, tt.options).Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(names(t, r.dir)); got != tt.files || (len(r.reopened) == 1) != tt.rotates {
			t.Errorf("%+v, %d bytes: %d files, reopened %v", tt.options, tt.size, got, r.reopened)
		}
	}
}

// odd is a runtime with one unusual answer.
type odd struct {
	*runtime
	list, status error
	path         *string
}

func (o odd) ListContainers(ctx context.Context, f cri.Filter) ([]cri.Container, error) {
	if o.list != nil {
		return nil, o.list
	}
	return o.runtime.ListContainers(ctx, f)
}

func (o odd) ContainerStatus(ctx context.Context, id string) (cri.ContainerStatus, error) {
	status, err := o.runtime.ContainerStatus(ctx, id)
	if o.status != nil {
		err = o.status
	}
	if o.path != nil {
		status.LogPath = *o.path
	}
	return status, err
}

func TestRotatorFailures(t *testing.T) {
	broken := errors.New("broken")
	running := map[string]cri.ContainerState{"c": cri.ContainerRunning}
	rotate := func(t *testing.T, r odd, prepare func(log string)) error {
		t.Helper()
		r.runtime = &runtime{dir: t.TempDir(), states: running}
		store(t, r.runtime.path("c"), "text")
		prepare(r.runtime.path("c"))
		return logs.NewRotator(r, logs.RotatorOptions{MaxSize: 1, MaxFiles: 3}).Rotate(t.Context())
	}
	nothing := func(string) {}
	inTheWay := func(suffix string) func(string) {
		return func(log string) {
			if err := os.MkdirAll(filepath.Join(log+suffix, "x"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	none := ""
	for name, tt := range map[string]struct {
		r       odd
		prepare func(log string)
		want    string
	}{
		"list":            {odd{list: broken}, nothing, "list containers: broken"},
		"status":          {odd{status: broken}, nothing, "log of container gone: broken\nlog of container c: broken"},
		"gone":            {odd{status: cri.ErrNotFound}, nothing, ""},
		"no log":          {odd{path: &none}, nothing, ""},
		"left unfinished": {odd{}, inTheWay(".20000101-000000.tmp"), "log of container c: remove "},
		"cannot compress": {odd{}, inTheWay(".20000101-000000"), "log of container c: compress "},
		"cannot be removed": {odd{}, func(log string) {
			inTheWay(".20000101-000000.gz")(log)
			store(t, log+".20000102-000000.gz")
		}, "log of container c: remove "},
	} {
		t.Run(name, func(t *testing.T) {
			err := rotate(t, tt.r, tt.prepare)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("got %v", err)
			}
		})
	}
	// An unreadable log is an error too; a missing one is created again.
	r := odd{runtime: &runtime{dir: t.TempDir(), states: running}}
	store(t, r.runtime.path("c"), "text")
	below := r.runtime.path("c") + "/below"
	r.path = &below
	if err := logs.NewRotator(r, logs.RotatorOptions{}).Rotate(t.Context()); !errors.Is(err, syscall.ENOTDIR) || len(r.reopened) != 0 {
		t.Errorf("got %v", err)
	}
	gone := &runtime{dir: t.TempDir(), states: running, broken: broken}
	if err := logs.NewRotator(gone, logs.RotatorOptions{}).Rotate(t.Context()); !errors.Is(err, broken) || len(gone.reopened) != 1 {
		t.Errorf("got %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	gone.broken = nil
	if err := logs.NewRotator(gone, logs.RotatorOptions{}).Rotate(over); !errors.Is(err, context.Canceled) {
		t.Errorf("for nobody: %v", err)
	}
}

// Leftovers of interrupted compressions are removed, and a compression leaves nothing behind.
func TestSweep(t *testing.T) {
	r := &runtime{dir: t.TempDir(), states: map[string]cri.ContainerState{"c[1]": cri.ContainerRunning}}
	log := r.path("c[1]")
	store(t, log, "text")
	for _, suffix := range []string{".19990101-000000.tmp", ".20000101-000000.gz.tmp", ".20000102-000000.gz", ".20000102-000000", ".20000103-000000"} {
		store(t, log+suffix, "older")
	}
	if err := os.Chmod(log+".20000103-000000", 0o640); err != nil {
		t.Fatal(err)
	}
	other := r.path("c1")
	store(t, other+".19990101-000000.tmp", "another's")
	if err := logs.NewRotator(r, logs.RotatorOptions{MaxSize: 1, MaxFiles: 9}).Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := names(t, r.dir)
	want := []string{"c1.log.19990101-000000.tmp", "c[1].log", "c[1].log.20000102-000000.gz", "c[1].log.20000103-000000.gz"}
	if len(got) != 5 || !slices.Equal(got[:4], want) {
		t.Errorf("files %v", got)
	}
	if info, err := os.Stat(log + ".20000103-000000.gz"); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.MkdirAll(filepath.Join(log+".20000104-000000", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := logs.Remove(log); err == nil || !strings.Contains(err.Error(), ".20000104-000000") {
		t.Errorf("removed a directory: %v", err)
	}
	if got := names(t, r.dir); len(got) != 2 {
		t.Errorf("files %v", got)
	}
}

// Failures are logged while Run runs, but not because it ends.
func TestRotatorLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := odd{runtime: &runtime{dir: t.TempDir()}, list: errors.New("broken")}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		if err := logs.NewRotator(r, logs.RotatorOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))}).Run(ctx); err != nil {
			t.Error(err)
		}
		if got := log.String(); strings.Count(got, `msg="container logs not rotated" error="list containers: broken"`) != 2 || strings.Count(got, "\n") != 2 {
			t.Errorf("logged %s", got)
		}
		log.Reset()
		r.list = nil
		ctx, cancel = context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		if err := logs.NewRotator(r, logs.RotatorOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))}).Run(ctx); err != nil || log.Len() > 0 {
			t.Errorf("%v, logged %s", err, &log)
		}
	})
	// The logger is optional.
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		if err := logs.NewRotator(odd{runtime: &runtime{dir: t.TempDir()}, list: errors.New("broken")}, logs.RotatorOptions{}).Run(ctx); err != nil {
			t.Error(err)
		}
	})
}
