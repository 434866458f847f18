package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/bench/containers"
	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/internal/upstream"
	"github.com/keelson-dev/keelson/internal/upstream/controlplane"
	"github.com/keelson-dev/keelson/node/bundled"
	"github.com/keelson-dev/keelson/node/nodetools"
	"github.com/keelson-dev/keelson/node/ociimage"
)

// The pod networks of the two nodes.
const (
	keelsonPods  = "10.69.0.0/16"
	upstreamPods = "10.70.0.0/24"
)

// crews are the two sides with one node of real containers each, or the reason why there are none.
type crews struct {
	peers   [2]peer
	leftOut string
}

// newCrews finds what nodes need. Both have a containerd of the same build and configuration, the same bridge and the
// same images.
func newCrews(ctx context.Context, program clusterprocess.Program, theirs *theUpstream, progress io.Writer) (crews, error) {
	if err := nodetools.Supported(ctx); err != nil {
		return crews{leftOut: err.Error()}, nil //nolint:nilerr // the rows say it
	}
	if _, err := os.Stat(theirs.programs[upstream.Kubelet]); err != nil {
		return crews{leftOut: fmt.Sprintf("upstream's programs lack a kubelet: %v", err)}, nil
	}
	tools, err := nodetools.Install(ctx, nodetools.Options{Progress: func(line string) { fmt.Fprintln(progress, line) }})
	if err != nil {
		return crews{}, err
	}
	var images []string
	for _, image := range []func(context.Context, string, io.Writer) (string, error){ociimage.Pause, ociimage.Nginx} {
		path, err := image(ctx, tools.Images, progress)
		if err != nil {
			return crews{}, err
		}
		images = append(images, path)
	}
	return crews{peers: [2]peer{keelsonNode{program, images[1]}, upstreamNode{theirs, tools, images}}}, nil
}

// keelsonNode is examples/cluster with one node of real containers.
type keelsonNode struct {
	program clusterprocess.Program
	image   string
}

func (k keelsonNode) start(ctx context.Context, dir string) (*plane, error) {
	ctx = context.WithoutCancel(ctx)
	flags := []string{"--runtime", "containerd", "--cluster-cidr", keelsonPods}
	p, err := k.program.Start(ctx, dir, append(flags, "--audit-log", "", "--images", k.image)...)
	if err != nil {
		return nil, err
	}
	stop := func() error {
		err := p.Interrupt()
		text, code, downErr := k.program.Fail(ctx, append(flags, "--data-dir", dir, "--down")...)
		if downErr == nil && code != 0 {
			downErr = fmt.Errorf("--down: exit code %d: %s", code, text)
		}
		return errors.Join(err, downErr)
	}
	config, err := p.Config()
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return &plane{config: config, processes: func() ([]int, error) { return []int{p.PID()}, nil }, stop: stop}, nil
}

// upstreamNode is upstream's control plane with upstream's kubelet.
type upstreamNode struct {
	control *theUpstream
	tools   nodetools.Tools
	images  []string
}

// nodeName is the name of the node and of its user.
const nodeName = "node-0"

func (u upstreamNode) start(ctx context.Context, dir string) (*plane, error) {
	ctx = context.WithoutCancel(ctx)
	cidr, err := netip.ParsePrefix(upstreamPods)
	if err != nil {
		return nil, err
	}
	n, err := bundled.New(filepath.Join(dir, "node"), cidr, u.tools, bundled.Options{Archives: u.images})
	if err != nil {
		return nil, err
	}
	root := filepath.Join(n.Dir(), "kubelet")
	remove := func() error {
		// The kubelet has bind-mounted its directory onto itself and does not unmount it.
		_ = exec.CommandContext(ctx, "umount", "--lazy", root).Run()
		return n.Remove(ctx)
	}
	if err := n.Start(ctx); err != nil {
		return nil, errors.Join(err, remove())
	}
	p, s, err := u.control.launch(ctx, filepath.Join(dir, "control"))
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	arguments, err := s.Kubelet(ctx, nodeName, n.Daemon(), root)
	if err != nil {
		return nil, errors.Join(err, p.stop(), remove())
	}
	kubelet := controlplane.StartDaemon(u.control.programs[upstream.Kubelet], arguments, s.File("kubelet.log"))
	others := *p
	p.processes = func() ([]int, error) {
		all, err := others.processes()
		if err != nil {
			return nil, err
		}
		pid, err := kubelet.PID()
		return append(all, pid), err
	}
	p.stop = func() error { return errors.Join(kubelet.Stop(), others.stop(), remove()) }
	return p, nil
}

// containers measures deployments of real containers. Both nodes run all the time; only one at a time has work.
func (m *measurement) containers(ctx context.Context) (err error) {
	sizes := []int{3, 30}
	if m.crews.leftOut != "" {
		for _, replicas := range sizes {
			ready, gone := containerRows(replicas, 0)
			ready.LeftOut, gone.LeftOut = m.crews.leftOut, m.crews.leftOut
			m.rows = append(m.rows, ready, gone)
		}
		return nil
	}
	var apis [2]kubernetes.Interface
	for i, p := range m.crews.peers {
		s := &m.sides[i]
		plane, err := p.start(ctx, m.next(s))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		defer func() { err = errors.Join(err, plane.stop()) }()
		if apis[i], err = kubernetes.NewForConfig(plane.config); err != nil {
			return err
		}
		if err := soon(ctx, "a node that is ready", func(ctx context.Context) error { return readyNode(ctx, apis[i]) }); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if _, _, err := containers.Round(ctx, apis[i], 1); err != nil { // the first round on a node does not count
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for _, replicas := range sizes {
		var ready, gone [2][]float64
		err := m.inTurn(m.rounds, func(_, i int, _ *side) error {
			r, g, err := containers.Round(ctx, apis[i], int32(replicas))
			ready[i], gone[i] = append(ready[i], milliseconds(r)), append(gone[i], milliseconds(g))
			return err
		})
		if err != nil {
			return err
		}
		toReady, toGone := containerRows(replicas, m.rounds)
		m.row(toReady, [2]float64{median(ready[0]), median(ready[1])})
		m.row(toGone, [2]float64{median(gone[0]), median(gone[1])})
	}
	return nil
}

// containerRows returns the rows of a size, without figures. bench/node takes its limits from them.
func containerRows(replicas, runs int) (ready, gone evidence.Peer) {
	row := func(name, what string) evidence.Peer {
		p := evidence.Peer{Name: fmt.Sprintf("containers-%d-%s", replicas, name), What: fmt.Sprintf(what, replicas), Unit: "ms"}
		if runs > 0 {
			p.Of, p.Runs = "median", runs
		}
		return p
	}
	return row("ready", "deployment of nginx created to %d replicas ready, on containerd"), row("gone", "deployment deleted to %d pods gone, on containerd")
}

var errNotReady = errors.New("it is not ready")

func readyNode(ctx context.Context, api kubernetes.Interface) error {
	nodes, err := api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range nodes.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: %d nodes", errNotReady, len(nodes.Items))
}
