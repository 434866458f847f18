// Package nodetest gives tests a cluster in their process with a node of real containers on this machine, and ways to
// break it: the runtime killed or held, the kubelet killed at a chosen call, a server that does not answer. Everything
// is removed after the test, which fails if pods have left something behind.
//
// Tests wait for the API's state by watches; only leftovers on the machine are polled.
package nodetest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/node"
	"github.com/keelson-dev/keelson/node/bundled"
	"github.com/keelson-dev/keelson/node/containerd/containerdtest"
	"github.com/keelson-dev/keelson/node/host"
	"github.com/keelson-dev/keelson/node/nodetools"
	"github.com/keelson-dev/keelson/node/ociimage"
	"github.com/keelson-dev/keelson/registry"
)

// Images that every node has.
const (
	Busybox = "docker.io/library/busybox:latest"
	Nginx   = "docker.io/library/nginx:latest"
)

// Options change what Start starts. The zero value is a node with the images Busybox and Nginx.
type Options struct {
	// Node may change the node's options and tools before each of its lives.
	Node func(o *bundled.Options, tools *nodetools.Tools)
	// Started is called in each life after the node was started, before its kubelet is.
	Started func(n *bundled.Node)
	// Adapt may replace parts of the machine as seen by the kubelet, in each life.
	Adapt func(h *kubelet.Host)
	// Pinning is what the node reserves and gives to containers alone.
	Pinning host.Pinning
	// Dir is the node's directory; empty is one of the test.
	Dir string
}

// World is a cluster with one node of real containers, node-0, whose kubelet and containerd can be ended and restarted.
// The namespace is default.
type World struct {
	t       *testing.T
	Context context.Context
	Cluster *cluster.Cluster
	Clients kubernetes.Interface
	Dir     string

	options  Options
	tools    nodetools.Tools
	archives []string
	held     string // while a file of this name exists, containerd does not start
	baseline map[string]bool
	*shared
}

// shared is what the worlds of a test and its subtests share.
type shared struct {
	outage  *outage
	started chan struct{} // closed when Cluster is set

	mu   sync.Mutex
	node *bundled.Node
	life *life
	hook Hook // of lives to come and of the one that is
}

// Start starts a cluster and its node and returns when it is ready.
func Start(t *testing.T, o Options) *World {
	t.Helper()
	tools := containerdtest.Tools(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	w := &World{t: t, Context: ctx, options: o, tools: tools, Dir: o.Dir, shared: &shared{outage: newOutage(), started: make(chan struct{})}}
	if w.Dir == "" {
		w.Dir = filepath.Join(t.TempDir(), "node")
	}
	for _, build := range []func(context.Context, string, io.Writer) (string, error){ociimage.Pause, ociimage.Busybox, ociimage.Nginx} {
		archive, err := build(ctx, tools.Images, io.Discard)
		w.Check(err)
		w.archives = append(w.archives, archive)
	}
	w.gate()
	t.Cleanup(w.remove)
	c, err := cluster.Start(ctx, cluster.Options{Nodes: cluster.Nodes{Count: 1, Network: network(), Run: w.run}, Logger: w.logger()})
	w.Check(err)
	w.Cluster = c
	close(w.started)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("the cluster broke: %v", err)
		}
	})
	w.Clients, err = kubernetes.NewForConfig(c.Config())
	w.Check(err)
	w.Check(c.WaitNodes(ctx))
	w.UntilReady(true)
	w.baseline = map[string]bool{}
	for _, name := range w.left() {
		w.baseline[name] = true
	}
	return w
}

// network returns one that most probably no other running test has.
func network() netip.Prefix {
	n := time.Now().UnixNano() ^ int64(os.Getpid())<<8
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 | byte(n)&63, byte(n >> 8), 0}), 24)
}

// Check fails the test at once when there is an error.
func (w *World) Check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Images is a directory of archives of images.
func (w *World) Images() string { return w.tools.Images }

// gate makes containerd refuse to start while it is held.
func (w *World) gate() {
	dir := w.t.TempDir()
	w.held = filepath.Join(dir, "held")
	script := filepath.Join(dir, "containerd")
	text := fmt.Sprintf("#!/bin/sh\n[ -e '%s' ] && exit 1\nexec '%s' \"$@\"\n", w.held, w.tools.Containerd)
	w.Check(os.WriteFile(script, []byte(text), 0o755))
	w.tools.Containerd = script
}

// run is one life of the node.
func (w *World) run(ctx context.Context, parts node.Parts) error {
	o := bundled.Options{Archives: w.archives, Logger: w.logger()}
	tools := w.tools
	if w.options.Node != nil {
		w.options.Node(&o, &tools)
	}
	n, err := bundled.New(w.Dir, parts.PodCIDRs[0], tools, o)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.node = n
	w.mu.Unlock()
	// The test may kill containerd just then; a real node's supervisor would restart it, too.
	for tries := 0; ; tries++ {
		err := n.Start(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			break
		}
		if tries == 5 {
			return err
		}
	}
	if w.options.Started != nil {
		w.options.Started(n)
	}
	runtime, err := n.Runtime()
	if err != nil {
		return err
	}
	defer func() { _ = runtime.Close() }()
	l := &life{}
	w.mu.Lock()
	w.life, l.hook = l, w.hook
	w.mu.Unlock()
	pods, err := w.pods(ctx, parts.Name)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	return lifecycle.Group(pods, lifecycle.Func(func(ctx context.Context) error {
		parts.Client, parts.Pods = gatedClient{parts.Client, l, w.outage}, pods
		return n.Run(ctx, parts, gatedRuntime{runtime, l}, host.Options{Pinning: w.options.Pinning, Adapt: func(h *kubelet.Host) {
			if w.options.Adapt != nil {
				w.options.Adapt(h)
			}
			h.Volumes, h.Cgroups = gatedVolumes{h.Volumes, l}, gatedCgroups{h.Cgroups, l}
		}})
	})).Run(ctx)
}

// pods is the source of the node's pods, while the server answers.
func (w *World) pods(ctx context.Context, node string) (*informer.Informer[*corev1.Pod], error) {
	select {
	case <-w.started:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	in, err := registry.Source[*corev1.Pod](w.Cluster.Registry(), corev1.Resource("pods"), registry.Selection{
		Fields: fields.OneTermEqualSelector("spec.nodeName", node),
	})
	if err != nil {
		return nil, err
	}
	return informer.New[*corev1.Pod](source[*corev1.Pod]{in, w.outage}, informer.Options{}), nil
}

// Node is the machine's part of the node.
func (w *World) Node() *bundled.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.node
}

// remove removes the node, however far the test got.
func (w *World) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	_ = os.Remove(w.held)
	n := w.Node()
	if n == nil {
		return
	}
	if w.t.Failed() {
		if b, err := os.ReadFile(n.Daemon().LogFile()); err == nil {
			w.t.Logf("the end of containerd's log:\n%s", tailOf(string(b), 60))
		}
	}
	if err := n.Remove(ctx); err != nil {
		w.t.Errorf("removing the node: %v", err)
	}
}

func tailOf(text string, lines int) string {
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// logger writes what is worth a warning to the test's log.
func (w *World) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&logTo{t: w.t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// logTo writes lines to the log of a test.
type logTo struct{ t *testing.T }

func (l *logTo) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

// Pod returns one with the given containers, to be created in the namespace default.
func Pod(name string, containers ...corev1.Container) *corev1.Pod {
	grace := int64(2)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: containers, TerminationGracePeriodSeconds: &grace},
	}
}

// Shell is a container that runs a script.
func Shell(name, script string) corev1.Container {
	return corev1.Container{Name: name, Image: Busybox, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sh", "-c", script}}
}

// Sleeper is a container that runs until it is asked to end, and then ends at once.
func Sleeper(name string) corev1.Container {
	return Shell(name, "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done")
}
