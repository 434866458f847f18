// Demo runs a demonstration with the real kubectl: a deployment of nginx comes up, its page is fetched from every pod,
// a command runs in one, its logs are read, and it is scaled and deleted.
//
//	go run ./internal/demo
//
// It uses the cluster of `make up` if that is running, or else one of its own, which it removes at the end. As root on
// Linux the containers are real; elsewhere they are simulated, and steps that need a process in them are left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/kubectl"
	"github.com/keelson-dev/keelson/node/nodetools"
)

const usage = `demo plays the life of a deployment of nginx with kubectl, and exits with 0 when all of it went well.

Usage:

  demo [--kubeconfig FILE]

Flags:

  --kubeconfig FILE   the cluster to play it on (default: that of make up if it runs, and else one of its own)
`

func main() {
	file := flag.String("kubeconfig", "", "")
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	home, _ := os.UserHomeDir()
	err := run(ctx, *file, home, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file, home string, out io.Writer) (err error) {
	fmt.Fprintln(out, "building kubectl (the first time takes a while)")
	path, err := kubectl.Build(ctx)
	if err != nil {
		return err
	}
	s := &story{kubectl: kubectl.Kubectl{Path: path, Kubeconfig: file}, out: out}
	if s.kubectl.Home, err = os.MkdirTemp("", "keelson-demo-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.kubectl.Home)) }()
	if file == "" {
		s.kubectl.Kubeconfig = filepath.Join(home, ".keelson", "kubeconfig")
	}
	switch _, absent := s.ask(ctx, "get", "--raw", "/readyz", "--request-timeout=2s"); {
	case absent != nil && file != "":
		return fmt.Errorf("--kubeconfig %s: no cluster answers: %w", file, absent)
	case absent != nil:
		end, err := s.start(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	s.began = time.Now()
	if err := s.play(ctx); err != nil {
		return err
	}
	s.tell("done")
	return nil
}

// start runs a cluster for the demo and returns a function that removes it.
func (s *story) start(ctx context.Context) (end func() error, err error) {
	fmt.Fprintln(s.out, "no cluster runs: starting one")
	if nodetools.Supported(ctx) == nil { // otherwise the cluster says why not
		if _, err := nodetools.Install(ctx, nodetools.Options{Progress: func(line string) { fmt.Fprintln(s.out, line) }}); err != nil {
			return nil, err
		}
	}
	program, err := clusterprocess.Build(ctx, s.kubectl.Home)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(s.kubectl.Home, "data")
	p, err := program.Start(ctx, data, "--runtime", "containerd", "--install", "--cluster-cidr", "10.72.0.0/16")
	remove := func(err error) error {
		if _, statErr := os.Stat(filepath.Join(data, "nodes")); statErr != nil {
			return err // simulated nodes leave nothing behind
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		text, code, downErr := program.Fail(ctx, "--data-dir", data, "--down")
		if downErr == nil && code != 0 {
			downErr = fmt.Errorf("removing the cluster: %s", text)
		}
		return errors.Join(err, downErr)
	}
	if err != nil {
		return nil, remove(err)
	}
	s.kubectl.Kubeconfig = p.Kubeconfig
	return func() error { return remove(p.Interrupt()) }, nil
}

// story is a run of the demo.
type story struct {
	kubectl kubectl.Kubectl
	out     io.Writer
	began   time.Time
}

func (s *story) tell(format string, args ...any) {
	fmt.Fprintf(s.out, "%7.2f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// ask runs kubectl without printing anything.
func (s *story) ask(ctx context.Context, args ...string) (string, error) {
	answer, err := s.kubectl.Run(ctx, "", args...)
	if err == nil && answer.Code != 0 {
		err = fmt.Errorf("kubectl %s: %s", strings.Join(args, " "), answer.Stderr)
	}
	return answer.Stdout, err
}

// show runs kubectl and prints the command and its output.
func (s *story) show(ctx context.Context, args ...string) (string, error) {
	s.tell("$ kubectl %s", strings.Join(args, " "))
	text, err := s.ask(ctx, args...)
	for line := range strings.Lines(text) {
		fmt.Fprint(s.out, "           ", line)
	}
	return text, err
}

// fetch gets the page of a pod.
func fetch(ctx context.Context, ip string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ip+"/", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(page), err
}
