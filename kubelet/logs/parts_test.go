package logs_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/kubelet/logs"
)

// writing calls a function with each write.
type writing func(text string) error

func (w writing) Write(p []byte) (int, error) { return len(p), w(string(p)) }

// TestCompressedMeanwhile: a file that is compressed while an earlier one is read is still read.
func TestCompressedMeanwhile(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	first, second := log+".20260101-000000", log+".20260102-000000"
	store(t, first, day+"01Z stdout F 1")
	store(t, second, day+"02Z stdout F 2")
	store(t, log, day+"03Z stdout F 3")
	var got strings.Builder
	out := writing(func(text string) error {
		if text == "1\n" {
			store(t, second+".gz", day+"02Z stdout F 2")
			if err := os.Remove(second); err != nil {
				t.Error(err)
			}
		}
		got.WriteString(text)
		return nil
	})
	if err := logs.Read(t.Context(), log, logs.Options{Stdout: out}); err != nil || got.String() != "1\n2\n3\n" {
		t.Errorf("%q, %v", got.String(), err)
	}
}

// TestTailAcrossParts: each file counts with all its lines, including those longer than one chunk; a damaged one counts
// as empty; lines skipped in one file are not skipped again in the next.
func TestTailAcrossParts(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	long := strings.Repeat("x", 70<<10)
	store(t, log+".20260101-000000", day+"01Z stdout F 1", day+"01Z stdout F 2", day+"01Z stdout F 3")
	if err := os.WriteFile(log+".20260102-000000.gz", []byte("no gzip"), 0o600); err != nil {
		t.Fatal(err)
	}
	store(t, log+".20260103-000000", day+"02Z stdout F "+long, day+"02Z stdout F 4", day+"02Z stdout F "+long)
	store(t, log+".20260104-000000", day+"03Z stdout F 5", day+"03Z stdout F 6")
	store(t, log, day+"04Z stdout F 7")
	lines := []string{"1\n", "2\n", "3\n", long + "\n", "4\n", long + "\n", "5\n", "6\n", "7\n"}
	for n := range len(lines) + 2 {
		if got, want := read(t, log, logs.Options{Tail: number(int64(n))}), strings.Join(lines[max(len(lines)-n, 0):], ""); got != want {
			t.Errorf("the last %d lines are %d bytes, not %d", n, len(got), len(want))
		}
	}
}

// TestReadEndsWithItsContext: even without following, an interrupted read returns an error.
func TestReadEndsWithItsContext(t *testing.T) {
	log := rotated(t)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := logs.Read(ctx, log, logs.Options{Stdout: writing(func(string) error { n++; cancel(); return nil })})
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("%v after %d lines", err, n)
	}
}

// TestWhatComesLast: output between the last check and the container's end is read, in whatever order it was written.
func TestWhatComesLast(t *testing.T) {
	for name, tt := range map[string]struct {
		happens []func(t *testing.T, log string) // one per check of Running, the last of which is false
		want    string
	}{
		"two rotations": {[]func(*testing.T, string){func(t *testing.T, log string) {
			rename(t, log, log+".20260101-000000")
			appendTo(t, log, day+"02Z stdout F 2\n")
			rename(t, log, log+".20260102-000000")
			appendTo(t, log, day+"03Z stdout F 3\n")
		}}, "1\n2\n3\n"},
		"the old file until the new is written to": {[]func(*testing.T, string){
			func(t *testing.T, log string) {
				rename(t, log, log+".20260101-000000")
				appendTo(t, log, "")
			},
			func(t *testing.T, log string) {
				appendTo(t, log+".20260101-000000", day+"02Z stdout F late\n")
				appendTo(t, log, day+"03Z stdout F new\n")
			},
		}, "1\nlate\nnew\n"},
		"a last line without an end, before the new file is written to": {[]func(*testing.T, string){
			func(t *testing.T, log string) {
				appendTo(t, log, day+"02Z stdout F broke off")
				rename(t, log, log+".20260101-000000")
				appendTo(t, log, "")
				if err := os.Chtimes(log, time.Time{}, time.Unix(1e9, 0)); err != nil {
					t.Error(err)
				}
			},
			func(t *testing.T, log string) { appendTo(t, log+".20260101-000000", " too late\n") },
		}, "1\nbroke off"},
		"two rotations in a directory that cannot be listed at first": {[]func(*testing.T, string){
			func(t *testing.T, log string) {
				rename(t, log, log+".20260101-000000")
				appendTo(t, log, day+"02Z stdout F 2\n")
				rename(t, log, log+".20260102-000000")
				appendTo(t, log, day+"03Z stdout F 3\n")
				chmod(t, filepath.Dir(log), 0o300)
			},
			func(t *testing.T, log string) { chmod(t, filepath.Dir(log), 0o700) },
		}, "1\n2\n3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "0.log")
			store(t, log, day+"01Z stdout F 1")
			var out bytes.Buffer
			asked := 0
			fakeroot.Unprivileged(t, func() {
				err := logs.Read(t.Context(), log, logs.Options{Stdout: &out, Follow: true, Running: func(context.Context) (bool, error) {
					tt.happens[asked](t, log)
					asked++
					return asked < len(tt.happens), nil
				}})
				if err != nil || out.String() != tt.want {
					t.Errorf("%q, %v", &out, err)
				}
			})
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Error(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Error(err)
	}
}

// TestOutputThatFails: a failing output ends the read, whenever it fails, and is not retried.
func TestOutputThatFails(t *testing.T) {
	for name, options := range map[string]func(log string, o *logs.Options){
		"during a check": func(log string, o *logs.Options) {
			o.Running = func(context.Context) (bool, error) { appendTo(t, log, day+"02Z stdout F 2\n"); return false, nil }
		},
		"after a rotation": func(log string, o *logs.Options) {
			o.Running = func(context.Context) (bool, error) {
				appendTo(t, log, day+"02Z stdout F 2")
				rename(t, log, log+".20260101-000000")
				appendTo(t, log, day+"03Z stdout F 3\n")
				return false, nil
			}
		},
		"while waiting": func(log string, o *logs.Options) {
			asked := 0
			o.Idle = func() error { appendTo(t, log, day+"02Z stdout F 2\n"); return nil }
			o.Running = func(context.Context) (bool, error) { asked++; return asked < 2, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "0.log")
			store(t, log, day+"01Z stdout F 1")
			tries := 0
			o := logs.Options{Follow: true, Stdout: writing(func(text string) error {
				if tries++; strings.HasPrefix(text, "2") {
					return errFull
				}
				return nil
			})}
			options(log, &o)
			if err := logs.Read(t.Context(), log, o); !errors.Is(err, errFull) || tries != 2 {
				t.Errorf("%v after %d", err, tries)
			}
		})
	}
}

// TestNoRoomForNames: a log for which no free name can be found stays as it is.
func TestNoRoomForNames(t *testing.T) {
	rotates := func(dir, id string) error {
		r := &runtime{dir: dir, states: map[string]cri.ContainerState{id: cri.ContainerRunning}}
		err := logs.NewRotator(r, logs.RotatorOptions{MaxSize: 10}).Rotate(t.Context())
		if len(r.reopened) > 0 {
			t.Errorf("reopened %v", r.reopened)
		}
		return err
	}
	dir, id := t.TempDir(), strings.Repeat("c", 245)
	store(t, filepath.Join(dir, id+".log"), strings.Repeat("x", 20))
	if err := rotates(dir, id); !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("a long name: %v", err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("files %v", got)
	}
	dir = t.TempDir()
	store(t, filepath.Join(dir, "c.log"), strings.Repeat("x", 20))
	if err := os.Chmod(dir, 0o300); err != nil {
		t.Fatal(err)
	}
	fakeroot.Unprivileged(t, func() {
		if err := rotates(dir, "c"); !errors.Is(err, os.ErrPermission) {
			t.Errorf("nobody knows what was rotated: %v", err)
		}
	})
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("files %v", got)
	}
}

// TestTailOfAnUnfinishedPart: a line that was never finished, however long, does not count.
func TestTailOfAnUnfinishedPart(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	long := strings.Repeat("x", 70<<10)
	appendTo(t, log+".20260101-000000", day+"01Z stdout F 1\n"+day+"01Z stdout F "+long)
	store(t, log, day+"04Z stdout F 2")
	if got := read(t, log, logs.Options{Tail: number(2)}); got != "1\n2\n" {
		t.Errorf("the last 2 lines are %.10q, of %d bytes", got, len(got))
	}
}

// TestFollowToDamage: a follower fails if it cannot read what comes next.
func TestFollowToDamage(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	store(t, log, day+"01Z stdout F 1")
	asked := 0
	err := logs.Read(t.Context(), log, logs.Options{Stdout: writing(func(string) error { return nil }), Follow: true, Running: func(context.Context) (bool, error) {
		if asked++; asked > 1 {
			return asked < 5, nil
		}
		rename(t, log, log+".20260102-000000")
		appendTo(t, log, day+"03Z stdout F 3\n")
		return true, os.WriteFile(log+".20260103-000000.gz", []byte("no gzip"), 0o600)
	}})
	if err == nil || asked != 1 {
		t.Errorf("%v after %d looks", err, asked)
	}
}
