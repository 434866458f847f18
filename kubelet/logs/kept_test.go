package logs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/logs"
)

// kept is a log whose lines come in parts: those that there are, and those for which a reader waits.
type kept struct {
	now, later []cri.LogLine
	err        error // of waiting, once all lines have come
}

func (k *kept) Next() []cri.LogLine {
	n := min(3, len(k.now))
	lines := k.now[:n]
	k.now = k.now[n:]
	return lines
}

func (k *kept) Wait(context.Context) (bool, error) {
	n := min(1, len(k.later))
	k.now, k.later = append(k.now, k.later[:n]...), k.later[n:]
	if len(k.now) > 0 {
		return true, nil
	}
	return false, k.err
}

// TestCopyIsRead: a log that the runtime keeps reads as it would from a file, with any options.
func TestCopyIsRead(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	random := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "0.log")
	for range 500 {
		var lines []cri.LogLine
		var file strings.Builder
		for i := range random.IntN(12) {
			l := cri.LogLine{At: start.Add(time.Duration(i) * time.Second), Stderr: random.IntN(3) == 0, Text: strings.Repeat("x", random.IntN(4))}
			lines = append(lines, l)
			stream := map[bool]logs.Stream{false: logs.Stdout, true: logs.Stderr}[l.Stderr]
			fmt.Fprintf(&file, "%s %s F %s\n", l.At.Format(time.RFC3339Nano), stream, l.Text)
		}
		if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		o := logs.Options{Timestamps: random.IntN(2) == 0, Follow: random.IntN(2) == 0}
		if random.IntN(2) == 0 {
			o.Tail = number(random.Int64N(12))
		}
		if random.IntN(3) == 0 {
			o.Limit = number(1 + random.Int64N(60))
		}
		if random.IntN(3) == 0 {
			o.Since = start.Add(time.Duration(random.IntN(12)) * time.Second)
		}
		o.Running = func(context.Context) (bool, error) { return false, nil }
		var copied, read bytes.Buffer
		which := random.IntN(3)
		to := func(out *bytes.Buffer) logs.Options {
			o := o
			if which != 1 {
				o.Stdout = out
			}
			if which != 2 {
				o.Stderr = out
			}
			return o
		}
		if err := errors.Join(logs.Copy(t.Context(), &kept{now: lines}, to(&copied)), logs.Read(t.Context(), path, to(&read))); err != nil {
			t.Fatal(err)
		}
		if copied.String() != read.String() {
			t.Errorf("%+v: copied %q, read %q", o, &copied, &read)
		}
	}
}

// TestCopyFollows: what is written meanwhile follows the last lines, and whoever reads learns when there is nothing for now.
func TestCopyFollows(t *testing.T) {
	at := time.Unix(0, 0)
	log := &kept{now: []cri.LogLine{{At: at, Text: "1"}, {At: at, Text: "2"}}, later: []cri.LogLine{{At: at, Text: "3"}, {At: at, Text: "4"}}}
	var out bytes.Buffer
	o := logs.Options{Stdout: &out, Follow: true, Tail: number(1), Idle: func() error {
		out.WriteString("-")
		return nil
	}}
	if err := logs.Copy(t.Context(), log, o); err != nil || out.String() != "2\n-3\n-4\n-" {
		t.Errorf("%q, %v", &out, err)
	}
	broken := errors.New("broken")
	if err := logs.Copy(t.Context(), &kept{err: broken}, logs.Options{Follow: true}); !errors.Is(err, broken) {
		t.Errorf("a log that breaks off: %v", err)
	}
	if err := logs.Copy(t.Context(), &kept{}, logs.Options{Follow: true, Idle: func() error { return broken }}); !errors.Is(err, broken) {
		t.Errorf("a reader that is gone: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := logs.Copy(over, &kept{}, logs.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("without time: %v", err)
	}
}

// TestCopyFails: an output that fails ends the copy.
func TestCopyFails(t *testing.T) {
	line := []cri.LogLine{{At: time.Unix(0, 0), Text: "1"}}
	for name, o := range map[string]logs.Options{"everything": {}, "the last lines": {Tail: number(1)}, "what comes": {Follow: true, Tail: number(0)}} {
		o.Stdout = &limited{}
		if err := logs.Copy(t.Context(), &kept{now: line, later: line}, o); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
