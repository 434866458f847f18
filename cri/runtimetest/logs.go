package runtimetest

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

func (s suite) logFormat(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	sandbox, id := s.shell(t, `echo one; echo two >&2; echo; printf 'a b  c\n'; head -c 100000 /dev/zero | tr '\0' x; echo; printf unfinished`, nil)
	status := s.exited(t, id)
	path := s.logPath(sandbox, "main")
	if status.LogPath != path {
		t.Errorf("the status tells of the log %s, want %s", status.LogPath, path)
	}
	lines := logOf(t, path)
	if got, want := text(lines, "stdout"), "one\n\na b  c\n"+long+"\nunfinished"; strings.TrimSuffix(got, "\n") != want {
		t.Errorf("stdout is %d bytes %.40q…, want %d", len(got), got, len(want))
	}
	if got := text(lines, "stderr"); got != "two\n" {
		t.Errorf("stderr is %q", got)
	}
	partial := false
	for i, l := range lines {
		partial = partial || l.tag == "P"
		if l.stream == "stdout" && i > 0 && lines[i-1].stream == "stdout" && l.at.Before(lines[i-1].at) {
			t.Errorf("line %d is of %v, the one before of %v", i, l.at, lines[i-1].at)
		}
		if l.at.Before(status.CreatedAt) {
			t.Errorf("line %d is older than its container", i)
		}
	}
	if !partial {
		t.Error("a line of 100,000 bytes is not told in parts")
	}
}

func (s suite) logRotation(t *testing.T) {
	reopener, ok := s.runtime.(cri.LogReopener)
	if !ok {
		t.Log("this runtime reopens no logs")
		return
	}
	sandbox, id := s.shell(t, `trap 'exit 0' TERM; i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done`, nil)
	path := s.logPath(sandbox, "main")
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	s.eventually(t, "there is a log", func() bool { return size() > 0 })
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := reopener.ReopenContainerLog(s.context(t), id); err != nil {
		t.Fatalf("ReopenContainerLog: %v", err)
	}
	s.eventually(t, "the new log grows", func() bool { return size() > 0 })
	if err := s.runtime.StopContainer(s.context(t), id, s.Patience); err != nil {
		t.Fatal(err)
	}
	// No line may be lost or duplicated.
	all := append(logOf(t, path+".old"), logOf(t, path)...)
	for i, l := range all {
		if l.text != itoa(i) {
			t.Fatalf("line %d is %q", i, l.text)
		}
	}
}

// openLog checks the calls of a runtime that keeps logs itself; keptLog checks what is in them.
func (s suite) openLog(t *testing.T) {
	keeper, ok := s.runtime.(cri.LogOpener)
	if !ok {
		return
	}
	_, err := keeper.OpenLog(s.context(t), "unknown")
	is(t, "OpenLog of an unknown container", err, cri.ErrNotFound)
	_, id := s.running(t, s.Sleeper)
	log, err := keeper.OpenLog(s.context(t), id)
	if err != nil {
		t.Fatalf("OpenLog: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if more, err := log.Wait(short); !more {
		is(t, "Wait for a container that says nothing", err, context.DeadlineExceeded)
	}
	if err := s.runtime.StopContainer(s.context(t), id, s.Patience); err != nil {
		t.Fatal(err)
	}
	s.rest(t, log)
	if more, err := log.Wait(s.context(t)); more || err != nil || len(log.Next()) > 0 {
		t.Errorf("a log goes on after its container's end: %v, %v", more, err)
	}
}

// rest reads a log to its end.
func (s suite) rest(t *testing.T, log cri.Log) []cri.LogLine {
	t.Helper()
	var all []cri.LogLine
	for {
		all = append(all, log.Next()...)
		more, err := log.Wait(s.context(t))
		if err != nil {
			t.Fatalf("Wait: %v", err)
		}
		if !more {
			return all
		}
	}
}

func (s suite) keptLog(t *testing.T) {
	keeper, ok := s.runtime.(cri.LogOpener)
	if !ok {
		return
	}
	_, id := s.shell(t, "echo one; echo two >&2; echo; echo 'a b  c'", nil)
	log, err := keeper.OpenLog(s.context(t), id)
	if err != nil {
		t.Fatalf("OpenLog: %v", err)
	}
	followed := s.rest(t, log)
	status := s.exited(t, id)
	for _, opened := range []bool{false, true} { // the log outlives its container
		if opened {
			if log, err = keeper.OpenLog(s.context(t), id); err != nil {
				t.Fatalf("OpenLog: %v", err)
			}
			followed = s.rest(t, log)
		}
		var stdout, stderr strings.Builder
		for i, l := range followed {
			to := &stdout
			if l.Stderr {
				to = &stderr
			}
			to.WriteString(l.Text + "\n")
			if l.At.Before(status.StartedAt) || l.At.After(status.FinishedAt) || i > 0 && l.At.Before(followed[i-1].At) {
				t.Errorf("line %d is of %v, its container ran from %v to %v", i, l.At, status.StartedAt, status.FinishedAt)
			}
		}
		if stdout.String() != "one\n\na b  c\n" || stderr.String() != "two\n" {
			t.Errorf("stdout %q, stderr %q", &stdout, &stderr)
		}
	}
}
