package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/tools/mutants/schemata"
)

// Limits of a process with a mutant in it, which may do anything: allocate, loop, write, remove files.
const (
	memory   = 6 << 20     // kilobytes of address space; a Go program that does nothing reserves 2 GB
	fileSize = 1 << 20     // blocks, of 512 bytes or a kilobyte
	goMemory = "1GiB"      // above this the garbage collector spends time instead of memory
	user     = 64999       // the user it runs as, if this runs as root: one that owns no files
	output   = 16 << 20    // maximum output in bytes
	grace    = time.Second // for closing its output after it was killed
)

// limit is the time limit of a run that usually takes d: large enough for a busy machine.
func (w *Workshop) limit(d time.Duration) time.Duration { return w.base + 6*d }

// outcome is how a run of a test binary ended.
type outcome struct {
	passed   bool
	timedOut bool
	took     time.Duration
	output   []byte
}

// command is one run of a test binary.
type command struct {
	binary, dir string
	args        []string
	active      int    // a mutant's ID, or -1
	reached     string // a file name, or ""
	limit       time.Duration
}

// run runs a test binary in its own process group and temporary directory and as its own user, and leaves nothing of
// these.
func (w *Workshop) run(ctx context.Context, c command) (o outcome, err error) {
	tmp, err := os.MkdirTemp(w.dir, "run")
	if err != nil {
		return outcome{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	seconds := strconv.Itoa(int(c.limit/time.Second) + 1)
	// Where the system does not limit memory (macOS has no -v), time does. CPU time is limited for processes that
	// escape.
	script := fmt.Sprintf("ulimit -c 0; ulimit -v %d 2>/dev/null; ulimit -f %d 2>/dev/null; ulimit -t %s; exec \"$@\"", memory, fileSize, seconds)
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh", c.binary}, c.args...)...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + tmp, "TMPDIR=" + tmp, "GOMEMLIMIT=" + goMemory, "TZ=UTC",
		schemata.ActiveVariable + "=" + strconv.Itoa(c.active), schemata.ReachedVariable + "=" + c.reached}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
		if err := os.Chown(tmp, user, user); err != nil {
			return outcome{}, err
		}
	}
	out := &tail{}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, grace
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	timer := time.NewTimer(c.limit)
	defer timer.Stop()
	group := -cmd.Process.Pid
	select {
	case err = <-ended:
	case <-timer.C:
		o.timedOut = true
		_ = syscall.Kill(group, syscall.SIGKILL)
		err = <-ended
	case <-ctx.Done():
		_ = syscall.Kill(group, syscall.SIGKILL)
		return outcome{}, errors.Join(ctx.Err(), <-ended)
	}
	_ = syscall.Kill(group, syscall.SIGKILL) // children that it left
	o.passed, o.took, o.output = err == nil || errors.Is(err, exec.ErrWaitDelay), time.Since(start), out.data
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return outcome{}, err
	}
	return o, nil
}

// tail keeps the first bytes of what is written, up to output, and discards the rest.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p[:min(len(p), output-len(t.data))]...)
	return len(p), nil
}

// reachedFile makes the file in which a test binary records the reached mutants.
func (w *Workshop) reachedFile(size int) (string, error) {
	file, err := os.CreateTemp(w.dir, "reached")
	if err != nil {
		return "", err
	}
	_, err = file.Write(make([]byte, size))
	if err == nil && os.Geteuid() == 0 {
		err = file.Chown(user, user)
	}
	return file.Name(), errors.Join(err, file.Close())
}

// compile builds the test binary of a package, with the overlay's mutants.
func (w *Workshop) compile(ctx context.Context, pkg, overlay, dir string) (string, error) {
	binary := filepath.Join(dir, "test-"+strconv.Itoa(int(w.binaries.Add(1))))
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, pkg)
	cmd.Dir = w.module
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go test -c %s, with mutants: %w\n%s", pkg, err, bytes.TrimSpace(out))
	}
	if _, err := os.Stat(binary); errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s has no tests", pkg)
	}
	return binary, nil
}

// directory returns that of a package.
func (w *Workshop) directory(ctx context.Context, pkg string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "--", pkg)
	cmd.Dir = w.module
	out, err := cmd.Output()
	return string(bytes.TrimSpace(out)), err
}
