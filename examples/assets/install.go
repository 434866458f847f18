package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// The programs, by the names that envtest looks for.
const (
	etcdName      = "etcd"
	apiServerName = "kube-apiserver"
	kubectlName   = "kubectl"
)

// rememberedName is the file beside kube-apiserver with flags that precede those of its command line, one a line.
const rememberedName = "kube-apiserver.flags"

// install writes the programs.
func install(_ context.Context, args []string) error {
	f := pflag.NewFlagSet("assets", pflag.ContinueOnError)
	f.SetOutput(os.Stdout)
	var w workloads
	w.define(f)
	f.Usage = func() {
		fmt.Printf("assets writes the programs etcd and kube-apiserver into a directory, for envtest.\n\nUsage:\n\n  assets [flags] DIR\n\nFlags:\n\n%s\n"+
			"Then run the tests of an operator with KUBEBUILDER_ASSETS=DIR. The flags are remembered in DIR/%s.\n", f.FlagUsages(), rememberedName)
	}
	switch err := f.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errUsage, err)
	case f.NArg() != 1:
		return fmt.Errorf("%w: name one directory to write to", errUsage)
	}
	if err := w.check(); err != nil {
		return err
	}
	dir, err := filepath.Abs(f.Arg(0))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := writePrograms(dir); err != nil {
		return err
	}
	if err := w.remember(filepath.Join(dir, rememberedName)); err != nil {
		return err
	}
	fmt.Printf("%s has etcd and kube-apiserver; run tests with KUBEBUILDER_ASSETS=%[1]s\n", dir)
	return linkKubectl(dir)
}

// writePrograms writes this program under both names. Programs that are running go on as they were.
func writePrograms(dir string) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	fresh := filepath.Join(dir, ".new")
	if err := copyProgram(own, fresh); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	second := filepath.Join(dir, ".second")
	if err := os.Link(fresh, second); err != nil { // a file system without links
		if err := copyProgram(own, second); err != nil {
			return errors.Join(err, os.Remove(fresh), os.Remove(second))
		}
	}
	return errors.Join(os.Rename(fresh, filepath.Join(dir, etcdName)), os.Rename(second, filepath.Join(dir, apiServerName)))
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) { // of an earlier run that was interrupted
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// linkKubectl links the kubectl in PATH, if there is one: ControlPlane.KubeCtl looks for it beside the other programs.
func linkKubectl(dir string) error {
	link := filepath.Join(dir, kubectlName)
	if _, err := os.Lstat(link); err == nil {
		return nil
	}
	found, err := exec.LookPath(kubectlName)
	if errors.Is(err, exec.ErrNotFound) {
		fmt.Println("there is no kubectl in PATH to link: tests that use ControlPlane.KubeCtl() need one in the directory")
		return nil
	}
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return err
	}
	return os.Symlink(found, link)
}

// workloads are what the control plane has beyond that of envtest.
type workloads struct {
	controllers bool
	nodes       int
}

const (
	controllersFlag = "keelson-controllers"
	nodesFlag       = "keelson-nodes"
	maxNodes        = 5000
)

func (w *workloads) define(f *pflag.FlagSet) {
	f.BoolVar(&w.controllers, controllersFlag, false, "run the built-in controllers and the scheduler, which envtest has not: owned objects are\n"+
		"deleted, namespaces end, deployments get pods")
	f.IntVar(&w.nodes, nodesFlag, 0, "how many simulated nodes there are, on which pods run in name only; their logs are empty")
}

func (w *workloads) check() error {
	if w.nodes < 0 || w.nodes > maxNodes {
		return fmt.Errorf("%w: --%s %d: choose a number from 0 to %d", errUsage, nodesFlag, w.nodes, maxNodes)
	}
	return nil
}

// remember writes the flags for the API server that the directory's next tests start.
func (w *workloads) remember(path string) error {
	return os.WriteFile(path, fmt.Appendf(nil, "--%s=%t\n--%s=%d\n", controllersFlag, w.controllers, nodesFlag, w.nodes), 0o644)
}

// remembered returns the flags in the file beside this program; none if there is no file.
func remembered() ([]string, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(own), rememberedName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return strings.Fields(string(text)), nil
}
