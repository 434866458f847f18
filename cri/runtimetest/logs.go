package runtimetest

import (
	"os"
	"strings"
	"testing"

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
