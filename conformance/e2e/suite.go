package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
)

// suite is upstream's e2e.test and the cluster to test.
type suite struct {
	class   class
	batches []batch
	// asked are the names of the tests in the batches, if the table has them.
	asked  []string
	seed   uint64
	dir    string
	images string // directory of the stand-ins for its images
	// registry serves them as well, for tests that pull.
	registry http.Handler
	version  string
	path     string
	kubectl  string
	cluster  clusterprocess.Program
	out      io.Writer
}

const (
	// leave is the time for the suite to clean up after Ctrl-C.
	leave = 30 * time.Second
	// longest is the time limit of a batch that others wait for: its tests are then stopped, and fail.
	longest = 40 * time.Minute
)

// run runs the suite and returns the tests that ran, even if some batches failed. Tests that need two hosts have a cluster of
// their own, after the others.
func (s *suite) run(ctx context.Context) (tests []test, err error) {
	shown := &progress{out: s.out}
	for _, b := range s.batches {
		shown.total += b.tests
	}
	for _, hosts := range []bool{false, true} {
		var batches []int
		for i, b := range s.batches {
			if b.hosts == hosts {
				batches = append(batches, i)
			}
		}
		if len(batches) == 0 {
			continue
		}
		ran, failed := s.on(ctx, hosts, batches, shown)
		if ctx.Err() != nil {
			return nil, failed
		}
		tests, err = append(tests, ran...), errors.Join(err, failed)
	}
	sortTests(tests)
	return tests, err
}

// on starts a cluster and runs batches of the suite on it.
func (s *suite) on(ctx context.Context, hosts bool, batches []int, shown *progress) (_ []test, err error) {
	flags, nodes := []string{"--nodes", "2"}, []string{"node-0"}
	if s.class.containers {
		// Another cluster on this machine, such as that of make up, may use the default addresses.
		flags = []string{"--runtime", "containerd", "--images", s.images, "--cluster-cidr", "10.160.0.0/16", "--verbose"}
		if hosts {
			flags, nodes = append(flags, "--nodes", "2", "--hosts", "netns", "--host-cidr", "10.159.0.0/24"), []string{"node-0", "node-1"}
		} else {
			mirror := httptest.NewServer(s.registry)
			defer mirror.Close()
			flags = append(flags, "--nodes", "1", "--registry-mirror", mirror.URL)
		}
	}
	// It is not stopped by Ctrl-C itself, since the suite has to clean up first.
	process, err := s.cluster.Start(context.WithoutCancel(ctx), s.data(hosts), flags...)
	if err != nil {
		return nil, errors.Join(err, s.down(context.WithoutCancel(ctx)))
	}
	defer func() {
		err = errors.Join(err, process.Interrupt(), os.WriteFile(filepath.Join(s.dir, filepath.Base(s.data(hosts))+".log"), []byte(process.Output()), 0o644),
			s.down(context.WithoutCancel(ctx)))
	}()
	if s.class.containers {
		if err := s.ready(ctx, process.Kubeconfig, nodes); err != nil {
			return nil, err
		}
	}
	return s.all(ctx, process.Kubeconfig, batches, shown)
}

// ready waits until nodes are ready, which the suite assumes.
func (s *suite) ready(ctx context.Context, kubeconfig string, nodes []string) error {
	for _, node := range nodes {
		for _, what := range []string{"create", "condition=Ready"} {
			wait := exec.CommandContext(ctx, s.kubectl, "--kubeconfig", kubeconfig, "wait", "--for="+what, "--timeout=2m", "node/"+node)
			if out, err := wait.CombinedOutput(); err != nil {
				return fmt.Errorf("wait for node %s: %w\n%s", node, err, out)
			}
		}
	}
	return nil
}

// data is the directory of the cluster, or of that of two hosts.
func (s *suite) data(hosts bool) string {
	if hosts {
		return filepath.Join(s.dir, "hosts")
	}
	return filepath.Join(s.dir, "cluster")
}

// down removes what nodes of real containers leave running.
func (s *suite) down(ctx context.Context) error {
	if !s.class.containers {
		return nil
	}
	for _, hosts := range []bool{false, true} {
		if _, err := os.Stat(s.data(hosts)); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if text, code, err := s.cluster.Fail(ctx, "--data-dir", s.data(hosts), "--down"); err != nil || code != 0 {
			return fmt.Errorf("remove the nodes: exit code %d: %w\n%s", code, err, text)
		}
	}
	return nil
}

// all runs batches by their numbers, several concurrently and those that must run alone at the end.
func (s *suite) all(ctx context.Context, kubeconfig string, batches []int, shown *progress) ([]test, error) {
	var mu sync.Mutex
	var tests []test
	var failures []error
	one := func(i int) {
		ran, err := s.test(ctx, kubeconfig, i, shown)
		mu.Lock()
		defer mu.Unlock()
		tests = append(tests, ran...)
		failures = append(failures, err)
	}
	var running sync.WaitGroup
	places := make(chan struct{}, s.class.parallel)
	for _, i := range batches {
		if s.batches[i].alone {
			running.Wait()
			one(i)
			continue
		}
		places <- struct{}{}
		running.Go(func() {
			one(i)
			<-places
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}
	return tests, errors.Join(failures...)
}

// test runs the suite for one batch and shows its progress. Failed tests are not an error: they are in the report.
func (s *suite) test(ctx context.Context, kubeconfig string, i int, shown *progress) ([]test, error) {
	dir := filepath.Join(s.dir, fmt.Sprintf("batch-%02d", i+1))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "e2e.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	command := exec.CommandContext(ctx, s.path, s.arguments(kubeconfig, dir, s.batches[i])...)
	command.Dir = dir
	// In its own process group, Ctrl-C reaches it only through this program, and its children end with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = leave
	words, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	done := make(chan error, 1)
	go func() { done <- follow(io.TeeReader(words, log), shown) }()
	if err := command.Start(); err != nil {
		return nil, errors.Join(err, writer.Close(), <-done)
	}
	err = command.Wait()
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // children that it left
	_ = writer.Close()
	if err := errors.Join(<-done, ignoreExit(err)); err != nil {
		return nil, err
	}
	report, err := os.Open(filepath.Join(dir, "junit_01.xml"))
	if err != nil {
		return nil, fmt.Errorf("the suite wrote no report: %w; what it says is in %s", err, log.Name())
	}
	defer func() { _ = report.Close() }()
	tests, err := readReport(report)
	if err != nil {
		err = fmt.Errorf("%w; what the suite says is in %s", err, log.Name())
	}
	return tests, err
}

// arguments returns those of the suite for a batch.
func (s *suite) arguments(kubeconfig, dir string, b batch) []string {
	limit := 24 * time.Hour
	nodes := []string{"--num-nodes=1", "--allowed-not-ready-nodes=-1"} // its checks of nodes and system pods need real ones
	if s.class.containers {
		limit = longest
		nodes = []string{"--node-schedulable-timeout=2m", "--system-pods-startup-timeout=1m", "--system-daemonsets-startup-timeout=1m"}
	}
	return append(nodes,
		"--kubeconfig="+kubeconfig, "--provider=skeleton", "--kubectl-path="+s.kubectl,
		"--ginkgo.focus="+b.focus, fmt.Sprintf("--ginkgo.seed=%d", s.seed), "--ginkgo.timeout="+limit.String(),
		"--ginkgo.no-color", "--ginkgo.v", "--disable-log-dump", "--dump-logs-on-failure=false", "--report-dir="+dir)
}

// ignoreExit drops the error for a suite that ended with failures.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// progress prints a line for each finished test. Several batches may write to it.
type progress struct {
	out io.Writer

	mu           sync.Mutex
	total, ended int
}

// planned sets the number of tests if it was unknown.
func (p *progress) planned(n string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total == 0 {
		_, _ = fmt.Sscan(n, &p.total)
	}
}

func (p *progress) end(name, how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
	fmt.Fprintf(p.out, "%3d/%d %s %s\n", p.ended, p.total, name, how)
}

// follow reports each finished test to the progress. In the suite's verbose output a test begins with its name below a
// rule and ends with a bullet.
func follow(words io.Reader, shown *progress) error {
	lines := bufio.NewReader(words)
	name, rule := "", false
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
			shown.planned(strings.Fields(line)[2])
		case rule && strings.HasPrefix(line, "[sig-"):
			name = withoutLabels(line)
		case strings.HasPrefix(line, "• "), strings.HasPrefix(line, "S ["): // a test may skip itself
			shown.end(name, strings.TrimLeft(line, "•S "))
		}
		rule = strings.HasPrefix(line, "-----")
	}
}

// withoutLabels removes the list of labels that follows a name.
func withoutLabels(line string) string {
	if at := strings.LastIndex(line, " ["); at > 0 {
		return line[:at]
	}
	return line
}
