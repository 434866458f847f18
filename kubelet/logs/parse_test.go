package logs_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/kubelet/logs"
)

func TestParse(t *testing.T) {
	at := time.Date(2016, 10, 6, 0, 17, 9, 669794202, time.UTC)
	for line, want := range map[string]logs.Entry{
		"2016-10-06T00:17:09.669794202Z stdout P log content 1":                   {Time: at, Stream: logs.Stdout, Partial: true, Text: []byte("log content 1")},
		"2016-10-06T00:17:09.669794202Z stdout P log content 1\n":                 {Time: at, Stream: logs.Stdout, Partial: true, Text: []byte("log content 1")},
		"2016-10-06T00:17:09.669794202Z stderr F log content 2\n":                 {Time: at, Stream: logs.Stderr, Text: []byte("log content 2\n")},
		"2016-10-06T00:17:09.669794202Z stdout F:TAG2 log \n":                     {Time: at, Stream: logs.Stdout, Text: []byte("log \n")},
		"2016-10-06T00:17:09.669794202Z stdout P:TAG2 log":                        {Time: at, Stream: logs.Stdout, Partial: true, Text: []byte("log")},
		"2016-10-06T02:17:09.669794202+02:00 stdout F \n":                         {Time: at, Stream: logs.Stdout, Text: []byte("\n")},
		"2016-10-06T00:17:09.669794202Z stdout F 2016-10-06T00:17:09Z stdout F x": {Time: at, Stream: logs.Stdout, Text: []byte("2016-10-06T00:17:09Z stdout F x")},
	} {
		got, err := logs.Parse([]byte(line))
		if err != nil || !got.Time.Equal(want.Time) || got.Stream != want.Stream || got.Partial != want.Partial || !bytes.Equal(got.Text, want.Text) {
			t.Errorf("%q: %+v, %v", line, got, err)
		}
	}
	for _, line := range []string{
		"", "\n", " ", "2016-10-06T00:17:09Z", "2016-10-06T00:17:09Z stdout", "2016-10-06T00:17:09Z stdout F", "x stdout F text",
		"2016-10-06T00:17:09Z stdin F text", "2016-10-06T00:17:09Z  F text", "\x00\x00\x00", `{"log":"docker's","stream":"stdout"}`,
	} {
		if e, err := logs.Parse([]byte(line)); !errors.Is(err, logs.ErrFormat) {
			t.Errorf("%q: %+v, %v", line, e, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("2016-10-06T00:17:09.669794202Z stdout P log content 1\n"))
	f.Add([]byte("2016-10-06T00:17:09Z stderr F:X \n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := logs.Parse(line)
		if err != nil {
			if !errors.Is(err, logs.ErrFormat) {
				t.Error(err)
			}
			return
		}
		if e.Stream != logs.Stdout && e.Stream != logs.Stderr {
			t.Errorf("stream %q", e.Stream)
		}
		if !bytes.Contains(line, e.Text) {
			t.Errorf("%q is not of the line", e.Text)
		}
		if e.Partial && strings.HasSuffix(string(e.Text), "\n") && !strings.HasSuffix(string(line), "\n\n") {
			t.Errorf("a part with a line end: %q", e.Text)
		}
	})
}

// FuzzTail: whatever a file holds, its last lines are the end of all its lines.
func FuzzTail(f *testing.F) {
	f.Add([]byte("2016-10-06T00:17:09Z stdout P a\n2016-10-06T00:17:09Z stderr F b\nrubbish\n2016-10-06T00:17:09Z stdout F c\n"), uint8(1))
	f.Add([]byte("2016-10-06T00:17:09Z stdout F a\n\n \n2016-10-06T00:17:09Z stdout F"), uint8(2))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, n uint8) {
		log := filepath.Join(dir, "0.log")
		if err := os.WriteFile(log, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if all, last := read(t, log, logs.Options{}), read(t, log, logs.Options{Tail: number(int64(n))}); !strings.HasSuffix(all, last) {
			t.Errorf("%q does not end with %q", all, last)
		}
	})
}
