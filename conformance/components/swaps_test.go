package components_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/internal/upstream"
	"github.com/keelson-dev/keelson/internal/upstream/controlplane"
	"github.com/keelson-dev/keelson/node/bundled"
	"github.com/keelson-dev/keelson/node/nodetools"
	"github.com/keelson-dev/keelson/node/ociimage"
	"github.com/keelson-dev/keelson/pki"
)

var results = flag.String("results", "", "directory to write swaps.json to; empty writes nothing")

// The parts of a cluster that are swapped.
const (
	scheduler   = "scheduler"
	controllers = "controllers"
	kubelet     = "kubelet"
	proxy       = "kube-proxy"
)

// swap is one row of the matrix: the parts that are not from the API server's side.
type swap struct {
	server string
	parts  []string
}

func (s swap) other() string {
	if s.server == "keelson" {
		return "upstream"
	}
	return "keelson"
}

func (s swap) has(part string) bool { return slices.Contains(s.parts, part) }

// proxied reports whether services have a proxy: the one of the row, or that of examples/cluster, which comes with its nodes.
func (s swap) proxied() bool { return s.has(proxy) || s.server == "keelson" && !s.has(kubelet) }

func (s swap) String() string {
	return fmt.Sprintf("%s's %s under %s's API server", s.other(), strings.Join(s.parts, ", "), s.server)
}

func matrix() (all []swap) {
	for _, server := range []string{"keelson", "upstream"} {
		for _, parts := range [][]string{{scheduler}, {controllers}, {kubelet}, {scheduler, controllers, kubelet}, {proxy}} {
			all = append(all, swap{server, parts})
		}
	}
	return all
}

// TestSwaps: a Deployment goes through its whole life cycle, in real containers, whichever parts of the cluster are
// keelson's and which are upstream's. Where there is a proxy, its service answers as long as it has pods.
func TestSwaps(t *testing.T) {
	if err := nodetools.Supported(t.Context()); err != nil {
		if os.Getenv("CI") == "true" || *results != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if !*inside {
		again(t)
		return
	}
	uplink(t)
	begun, err := evidence.Begin(*results, "swaps")
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	r := evidence.Result{Upstream: s.kubernetes.Version}
	var failed []error
	for _, row := range matrix() {
		began, played := time.Now(), false
		passed := t.Run(row.String(), func(t *testing.T) {
			played = true
			s.play(t, row)
		})
		switch {
		case !played: // -run selected others
			failed = append(failed, fmt.Errorf("%s: did not run", row))
			continue
		case !passed:
			failed = append(failed, fmt.Errorf("%s: failed", row))
			continue
		}
		r.Figures = append(r.Figures, evidence.Figure{What: row.String() + ": the story, with start and end of all", Unit: "s", Value: time.Since(began).Seconds(), Runs: 1})
	}
	if err := begun.End(r, errors.Join(failed...)); err != nil && *results != "" {
		t.Error(err)
	}
}

// stage has what all rows share.
type stage struct {
	kubernetes upstream.Kubernetes
	cluster    clusterprocess.Program
	programs   map[string]string // keelson's, by part
	tools      nodetools.Tools
	archives   []string // images of pods and, first, of sandboxes
}

func newStage(t *testing.T) *stage {
	t.Helper()
	ctx := t.Context()
	s := &stage{programs: map[string]string{}}
	var err error
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	s.kubernetes, err = upstream.Find(ctx)
	check("Kubernetes", err)
	dir := t.TempDir()
	s.cluster, err = clusterprocess.Build(ctx, dir)
	check("examples/cluster", err)
	for part, program := range map[string]string{scheduler: "kube-scheduler", controllers: "controllers", kubelet: "kubelet"} {
		s.programs[part] = filepath.Join(dir, program)
		out, err := exec.CommandContext(ctx, "go", "build", "-C", s.kubernetes.Root(), "-o", s.programs[part], "./examples/"+program).CombinedOutput()
		check(string(out), err)
	}
	s.tools, err = nodetools.Install(ctx, nodetools.Options{Dir: filepath.Join(s.kubernetes.Root(), "bin", "node"), Progress: func(line string) { t.Log(line) }})
	check("tools", err)
	pause, err := ociimage.Pause(ctx, s.tools.Images, t.Output())
	check("image of sandboxes", err)
	web := ociimage.Recipe{Name: "web", Version: "1", Fill: ociimage.FillNginx}
	for _, tag := range []string{"1", "2"} {
		web.Images = append(web.Images, ociimage.Image{
			References: []string{"docker.io/library/web:" + tag},
			Config:     ociimage.Config{Cmd: []string{"/usr/sbin/nginx", "-g", "daemon off;"}, StopSignal: "SIGQUIT", Env: []string{"VERSION=" + tag}},
		})
	}
	images, err := ociimage.Build(ctx, s.tools.Images, web, t.Output())
	check("image of pods", err)
	s.archives = []string{pause, images}
	return s
}

// play runs one row.
func (s *stage) play(t *testing.T, row swap) {
	var w *world
	if row.server == "keelson" {
		w = s.onKeelson(t, row)
	} else {
		w = s.onUpstream(t, row)
	}
	answers := func(want bool) {
		t.Helper()
		if row.proxied() {
			w.answers(t, want)
		}
	}
	w.schedulable(t)
	w.namespace(t, "shop")
	w.rollOut(t)
	answers(true)
	w.update(t)
	answers(true)
	w.scale(t, 5)
	w.scale(t, 1)
	answers(true)
	w.cascade(t)
	answers(false)
	w.endNamespace(t, "shop")
}

// schedulable waits for a node without taints that repel pods.
func (w *world) schedulable(t *testing.T) {
	t.Helper()
	eventually(t, "a node", func(ctx context.Context) (string, error) {
		nodes, err := w.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, n := range nodes.Items {
			ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
			if ready && len(n.Spec.Taints) == 0 {
				return "", nil
			}
		}
		return fmt.Sprintf("%d nodes, and none is ready and without a taint", len(nodes.Items)), nil
	})
}

// onKeelson starts examples/cluster, with upstream's programs in place of some parts.
func (s *stage) onKeelson(t *testing.T, row swap) *world {
	t.Helper()
	var without, flags []string
	given := row.has(kubelet) || row.has(proxy) // the proxy of examples/cluster comes with its nodes
	if row.has(scheduler) {
		without = append(without, "scheduler")
	}
	if row.has(controllers) {
		without = append(without, "controllers")
	}
	dir := t.TempDir()
	if given {
		without = append(without, "nodes")
	} else {
		flags = append(flags, "--runtime", "containerd", "--cluster-cidr", "10.77.0.0/16", "--images", s.archives[1])
		t.Cleanup(func() {
			if text, code, err := s.cluster.Fail(context.Background(), "--data-dir", dir, "--runtime", "containerd", "--down"); err != nil || code != 0 {
				t.Errorf("--down: %d, %v\n%s", code, err, text)
			}
		})
	}
	w := started(t, s.cluster, dir, append(flags, "--disable", strings.Join(without, ","))...)
	if row.has(scheduler) {
		startScheduler(t, dir)
	}
	if row.has(controllers) {
		startControllerManager(t, dir)
	}
	if given {
		authority, err := pki.Open(filepath.Join(dir, "pki"), "kubernetes")
		if err != nil {
			t.Fatal(err)
		}
		at := controlplane.Access{Dir: filepath.Join(dir, "pki"), URL: w.config.Host, Authority: authority}
		s.kubelet(t, at, row.has(kubelet))
		if row.has(proxy) {
			startProxy(t, at)
		}
	}
	return w
}

// onUpstream starts upstream's control plane, with keelson's programs in place of some parts.
func (s *stage) onUpstream(t *testing.T, row swap) *world {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	site, err := controlplane.New(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	arguments, err := site.Arguments(ctx)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(name string) { // programs that need others are restarted until these are there
		path, err := s.kubernetes.Build(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		d := controlplane.StartDaemon(path, arguments[name], site.File(name+".log"))
		t.Cleanup(func() {
			if err := d.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	keep(upstream.Etcd)
	keep(upstream.APIServer)
	config, err := site.Config("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	w := worldOf(t, dir, config)
	eventually(t, "an API server", func(ctx context.Context) (string, error) {
		_, err := w.api.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return "", err
	})
	if row.has(scheduler) {
		credentials, err := site.Kubeconfig(ctx, "keelson-scheduler", "system:kube-scheduler")
		if err != nil {
			t.Fatal(err)
		}
		start(t, s.programs[scheduler], "--kubeconfig", credentials)
	} else {
		keep(upstream.Scheduler)
	}
	if row.has(controllers) {
		credentials, err := site.Kubeconfig(ctx, "keelson-controllers", "admin", "system:masters")
		if err != nil {
			t.Fatal(err)
		}
		start(t, s.programs[controllers], "--kubeconfig", credentials, "--root-ca-file", site.File("ca.crt"))
	} else {
		keep(upstream.ControllerManager)
	}
	s.kubelet(t, site.Access, !row.has(kubelet))
	if row.has(proxy) {
		runProxy(t, site.Access)
	}
	return w
}

// kubelet runs a node of real containers with upstream's or keelson's kubelet.
func (s *stage) kubelet(t *testing.T, at controlplane.Access, theirs bool) {
	t.Helper()
	ctx := t.Context()
	dir, err := os.MkdirTemp("", "swap-") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	n, err := bundled.New(filepath.Join(dir, "node"), pods, s.tools, bundled.Options{Archives: s.archives})
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(n.Dir(), "kubelet")
	t.Cleanup(func() {
		ctx := context.Background()
		_ = exec.CommandContext(ctx, "umount", "--lazy", root).Run() // upstream's kubelet leaves a bind mount there
		if err := errors.Join(n.Remove(ctx), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := n.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if theirs {
		arguments, err := at.Kubelet(ctx, "node-0", n.Daemon(), root)
		if err != nil {
			t.Fatal(err)
		}
		upstreams(t, upstream.Kubelet, arguments...)
		return
	}
	credentials, err := at.Kubeconfig(ctx, "keelson-kubelet", "system:node:node-0", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	start(t, s.programs[kubelet], "--kubeconfig", credentials, "--node-name", "node-0", "--runtime-endpoint", n.Daemon().Socket(),
		"--root-dir", root, "--pod-logs-dir", filepath.Join(n.Dir(), "logs"), "--cgroup-root", n.Daemon().CgroupRoot()+"/kubepods",
		"--eviction-hard", "memory.available=10Mi", "--listen", "127.0.0.1:0", "--client-ca", at.File("ca.crt"))
}
