package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/node/containerd/containerdtest"
)

func output(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := run(t.Context(), args, &out)
	return out.String(), err
}

// TestContainerd uses every command with the test's own containerd.
func TestContainerd(t *testing.T) {
	daemon := containerdtest.Start(t, containerdtest.Options{})
	flags := []string{"--endpoint", daemon.Socket(), "--log-directory", t.TempDir()}
	call := func(args ...string) string {
		t.Helper()
		got, err := output(t, append(flags, args...)...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		return got
	}
	shown := call()
	for _, want := range []string{"containerd ", "running", "hello from criclient\n", "hello from exec\n", "asked to stop\n", "removed\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("it does not show %q:\n%s", want, shown)
		}
	}
	words := strings.Fields(call("run", "sh", "-c", "echo logged; sleep 1000"))
	if len(words) != 2 {
		t.Fatalf("run prints %q", words)
	}
	sandbox, container := words[0], words[1]
	t.Cleanup(func() { _ = run(context.Background(), append(flags, "rm", sandbox), &strings.Builder{}) })
	if got := call("exec", container, "echo", "in", "it"); got != "in it\n" {
		t.Errorf("exec prints %q", got)
	}
	if got := call("ps"); strings.Count(got, "\n") != 2 || !strings.Contains(got, container[:13]) {
		t.Errorf("ps prints %s", got)
	}
	if _, err := output(t, append(flags, "exec", container, "false")...); err == nil || !strings.Contains(err.Error(), "exit code 1") {
		t.Errorf("exec false: %v", err)
	}
	call("rm", sandbox)
	if got := call("ps"); strings.Count(got, "\n") != 1 {
		t.Errorf("after rm, ps prints %s", got)
	}
}

func TestMistakes(t *testing.T) {
	for _, args := range [][]string{{"frobnicate"}, {"exec"}, {"exec", "id"}, {"rm"}, {"ps", "all"}} {
		if _, err := output(t, args...); err == nil || !strings.Contains(err.Error(), "see --help") {
			t.Errorf("%v: %v", args, err)
		}
	}
	_, err := output(t, "--endpoint", t.TempDir()+"/missing.sock")
	if !errors.Is(err, cri.ErrUnavailable) || !strings.Contains(err.Error(), "start the runtime or correct the endpoint") {
		t.Errorf("without a runtime: %v", err)
	}
}
