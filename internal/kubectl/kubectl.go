// Package kubectl builds and runs the upstream kubectl that tools/kubectl pins, for tests and measurements that use a
// cluster as its users do.
package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubectl is the program with its kubeconfig.
type Kubectl struct {
	Path       string
	Kubeconfig string
	// Home holds kubectl's caches.
	Home string
}

// Version is the version that the program reports, so that it does not warn about skew.
const Version = "v1.37.2"

// Build compiles kubectl into the repository's bin directory, unless it is already there and up to date.
func Build(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/keelson-dev/keelson").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	root := strings.TrimSpace(string(out))
	path := filepath.Join(root, "bin", "kubectl")
	flags := "-X k8s.io/component-base/version.gitVersion=" + Version +
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "tools", "kubectl"), "-ldflags", flags, "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kubectl: %w\n%s", err, out)
	}
	return path, nil
}

// Answer is the outcome of a command.
type Answer struct {
	Stdout, Stderr string
	Code           int
}

// Command prepares a run. It passes only PATH from the environment.
func (k Kubectl) Command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, k.Path, args...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + k.Home, "KUBECONFIG=" + k.Kubeconfig}
	return c
}

// Run runs a command with stdin and returns its outcome, even if it failed; the error means that it could not be run.
func (k Kubectl) Run(ctx context.Context, stdin string, args ...string) (Answer, error) {
	c := k.Command(ctx, args...)
	var stdout, stderr bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Answer{}, fmt.Errorf("run kubectl %s: %w", strings.Join(args, " "), err)
	}
	return Answer{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}, nil
}
