package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// crash is what is left of a test program in which the detector's code read address 0.
const crash = `SIGSEGV: segmentation violation
PC=0x41cb49 m=6 sigcode=1 addr=0x0

goroutine 0 gp=0xc000504000 m=6 mp=0xc000480008 [idle]:
rax    0x0
`

func TestRun(t *testing.T) {
	failed := errors.New("exit status 1")
	type answer struct {
		out string
		err error
	}
	for name, test := range map[string]struct {
		answers []answer
		calls   []string // the packages of every call
		fails   bool
	}{
		"all pass":                   {[]answer{{"ok  \ta\t1s\n?   \tb\t[no test files]\n", nil}}, []string{"a b"}, false},
		"a crash, then not":          {[]answer{{"ok  \ta\t1s\n" + crash + "FAIL\tb\t48.349s\nFAIL\n", failed}, {"ok  \tb\t50s\n", nil}}, []string{"a b", "b"}, false},
		"a crash, then too":          {[]answer{{crash + "FAIL\tb\t48.349s\nFAIL\n", failed}, {crash + "FAIL\tb\t1s\nFAIL\n", failed}}, []string{"a b", "b"}, true},
		"a test fails":               {[]answer{{"--- FAIL: TestX (0.00s)\nFAIL\nFAIL\ta\t1s\nok  \tb\t1s\n", failed}}, []string{"a b"}, true},
		"does not compile":           {[]answer{{"FAIL\ta [build failed]\nFAIL\n", failed}}, []string{"a b"}, true},
		"cannot run":                 {[]answer{{"", failed}}, []string{"a b"}, true},
		"a crash, a failure":         {[]answer{{crash + "FAIL\ta\t1s\n--- FAIL: TestX (0.00s)\nFAIL\tb\t1s\n", failed}}, []string{"a b"}, true},
		"a failure, a crash":         {[]answer{{"panic: x\nFAIL\ta\t1s\n" + crash + "FAIL\tb\t1s\n", failed}}, []string{"a b"}, true},
		"a race and a crash":         {[]answer{{"WARNING: DATA RACE\n" + crash + "FAIL\ta\t1s\n", failed}}, []string{"a b"}, true},
		"a test and a crash":         {[]answer{{"    --- FAIL: TestX/y (0.00s)\n" + crash + "FAIL\ta\t1s\n", failed}}, []string{"a b"}, true},
		"a crash of one that passes": {[]answer{{crash + "ok  \ta\t1s\npanic: x\nFAIL\tb\t1s\n", failed}}, []string{"a b"}, true},
		"a signal that was sent":     {[]answer{{"SIGQUIT: quit\nPC=0x48d901 m=0 sigcode=0\nFAIL\ta\t600s\n", failed}}, []string{"a b"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []string
			var out bytes.Buffer
			err := run(t.Context(), func(_ context.Context, packages []string, out io.Writer) error {
				answer := test.answers[len(calls)]
				calls = append(calls, strings.Join(packages, " "))
				// In two parts, since a program's output arrives as it likes.
				half := len(answer.out) / 2
				_, _ = io.WriteString(out, answer.out[:half])
				_, _ = io.WriteString(out, answer.out[half:])
				return answer.err
			}, []string{"a", "b"}, &out)
			if (err != nil) != test.fails || test.fails && (!errors.Is(err, failed) || !errors.Is(err, errFailed)) {
				t.Errorf("got error %v, failure expected: %v", err, test.fails)
			}
			if !slices.Equal(calls, test.calls) {
				t.Errorf("tested %q, want %q", calls, test.calls)
			}
			for _, answer := range test.answers[:len(calls)] {
				if !strings.Contains(out.String(), answer.out) {
					t.Errorf("printed %q, without %q", &out, answer.out)
				}
			}
		})
	}
	t.Run("no package", func(t *testing.T) {
		if err := run(t.Context(), nil, nil, io.Discard); !errors.Is(err, errNone) {
			t.Errorf("got %v, want %v", err, errNone)
		}
	})
}
