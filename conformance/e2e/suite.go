package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
)

// suite is upstream's e2e.test and what it runs against.
type suite struct {
	focus   string
	seed    uint64
	dir     string
	version string
	path    string
	kubectl string
	cluster clusterprocess.Program
	out     io.Writer
}

// leave is how long the suite has to clean up after Ctrl-C.
const leave = 30 * time.Second

func (s *suite) log() string { return filepath.Join(s.dir, "e2e.log") }

// run starts a cluster, runs the suite on it, and returns the tests that ran.
func (s *suite) run(ctx context.Context) (_ []test, err error) {
	// It outlives Ctrl-C, for the suite to clean up.
	process, err := s.cluster.Start(context.WithoutCancel(ctx), filepath.Join(s.dir, "data"), "--nodes", "2")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, process.Interrupt()) }()
	if err := s.test(ctx, process.Kubeconfig); err != nil {
		return nil, err
	}
	report, err := os.Open(filepath.Join(s.dir, "junit_01.xml"))
	if err != nil {
		return nil, fmt.Errorf("the suite wrote no report: %w; what it says is in %s", err, s.log())
	}
	defer func() { _ = report.Close() }()
	return readReport(report)
}

// test runs the suite and shows how it gets on. That tests failed is no error: the report tells.
func (s *suite) test(ctx context.Context, kubeconfig string) error {
	log, err := os.Create(s.log())
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	command := exec.CommandContext(ctx, s.path,
		"--kubeconfig="+kubeconfig, "--provider=skeleton", "--kubectl-path="+s.kubectl,
		"--num-nodes=1", "--allowed-not-ready-nodes=-1", // its checks of nodes and system pods are of clusters with real ones
		"--ginkgo.focus="+s.focus, fmt.Sprintf("--ginkgo.seed=%d", s.seed), "--ginkgo.timeout=24h",
		"--ginkgo.no-color", "--ginkgo.v", "--disable-log-dump", "--dump-logs-on-failure=false", "--report-dir="+s.dir)
	command.Dir = s.dir
	// In a group of its own Ctrl-C reaches it through this program alone, and what it started ends with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = leave
	words, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	done := make(chan error, 1)
	go func() { done <- follow(io.TeeReader(words, log), s.out) }()
	if err := command.Start(); err != nil {
		return err
	}
	err = command.Wait()
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // what it left running
	_ = writer.Close()
	err = errors.Join(<-done, ignoreExit(err))
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

// ignoreExit drops the error that says that the suite ended with failures.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// follow shows a line for each test, with its name when it begins and how it went when it ended. In the verbose words of
// the suite a test begins with its name below a rule and ends with a bullet.
func follow(words io.Reader, out io.Writer) error {
	lines := bufio.NewReader(words)
	begun, total, rule := 0, "?", false
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "Will run "):
			total = strings.Fields(line)[2]
		case rule && strings.HasPrefix(line, "[sig-"):
			begun++
			fmt.Fprintf(out, "%3d/%s %s ", begun, total, withoutLabels(line))
		case strings.HasPrefix(line, "• "), strings.HasPrefix(line, "S ["): // a test may skip itself
			fmt.Fprintln(out, strings.TrimLeft(line, "•S "))
		}
		rule = strings.HasPrefix(line, "-----")
	}
}

// withoutLabels cuts the list of labels that follows a name.
func withoutLabels(line string) string {
	if at := strings.LastIndex(line, " ["); at > 0 {
		return line[:at]
	}
	return line
}
