package client

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/keelson-dev/keelson/admission/serviceaccount"
	"github.com/keelson-dev/keelson/cluster"
)

var (
	update = flag.Bool("update", false, "write kubectl's answers into testdata")
	// One of kubectl's packages hides the flags of rapid.
	rounds = flag.Int("rounds", 1, "how often to draw 100 command lines")
)

// kubectl runs commands against a server in this process, one at a time: kubectl has globals.
type kubectl struct {
	mu     sync.Mutex
	config *rest.Config
	cache  string
}

func newKubectl(t *testing.T) *kubectl {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBECTL_KUBERC", "false")
	c, err := cluster.New(cluster.Options{Components: []cluster.Component{}, Disable: []string{serviceaccount.Name}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return &kubectl{config: c.Config(), cache: t.TempDir()}
}

// exited is the panic that replaces exiting the process.
type exited struct{ message string }

// run returns the output of a command with more flags, and its error message.
func (k *kubectl) run(args []string, flags ...string) (out, failure string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer func(before []string) { os.Args = before }(os.Args)
	os.Args = append([]string{"kubectl"}, args...) // recorded as the change-cause
	args = before(args, flags)
	var stdout, stderr bytes.Buffer
	options := genericclioptions.NewConfigFlags(false).WithWrapConfigFn(func(*rest.Config) *rest.Config { return rest.CopyConfig(k.config) })
	options.CacheDir = &k.cache
	command := cmd.NewKubectlCommand(cmd.KubectlOptions{
		Arguments: os.Args, ConfigFlags: options,
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr},
	})
	command.SetArgs(args)
	command.SetOut(&stdout)
	command.SetErr(&stderr)
	cmdutil.BehaviorOnFatal(func(message string, _ int) { panic(exited{message}) })
	defer func() {
		if e, ok := recover().(exited); ok {
			out, failure = stdout.String(), strings.TrimSpace(e.message)
		}
	}()
	if err := command.Execute(); err != nil {
		return stdout.String(), fmt.Sprint("error: ", err)
	}
	return stdout.String(), ""
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
