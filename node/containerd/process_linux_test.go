package containerd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const halfDead = "KEELSON_TEST_HALF_DEAD"

// endFirstThread ends the thread that is the process' first, and leaves the others.
func endFirstThread() {
	var ended atomic.Bool
	for !ended.Load() {
		go func() {
			runtime.LockOSThread()
			if syscall.Gettid() == os.Getpid() {
				ended.Store(true)
				_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
			}
			select {}
		}()
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Hour)
}

// TestHalfDead: a process whose first thread has ended is a zombie to look at, and has its files open and its mounts busy until the last
// thread has ended: it is alive until then.
func TestHalfDead(t *testing.T) {
	if os.Getenv(halfDead) != "" {
		endFirstThread()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHalfDead$")
	command.Env = append(os.Environ(), halfDead+"=1")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = command.Process.Kill(), command.Wait() }()
	p, err := identify(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
		if err != nil || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
		if strings.HasPrefix(string(data[bytes.LastIndexByte(data, ')'):]), ") Z") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !p.alive() {
		t.Error("it is taken for dead while it has threads")
	}
	if err := p.kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(ctx); err != nil || p.alive() {
		t.Errorf("killed: %v, alive: %v", err, p.alive())
	}
}
