package nodetest

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/node/bundled"
)

// Hook is called for calls of a kubelet that change something. A kubelet that it kills is as dead as after kill -9:
// nothing it does afterwards has any effect. A hook replaced by SetHook kills no kubelet any more.
type Hook struct {
	// Before is called before a call, with a function that kills the kubelet, whether or not the call has taken effect
	// by then.
	Before func(call string, kill func() (killed bool))
	// After is called when a call has taken effect. If it returns true the kubelet dies before it sees the result.
	After func(call string) (dead bool)
}

// life is one life of a kubelet, from its start to its end or death.
type life struct {
	dead  atomic.Bool
	mu    sync.Mutex
	hook  Hook
	hooks int // how many there have been
}

func (l *life) set(hook Hook) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hook = hook
	l.hooks++
}

// do makes a call that changes something, unless the kubelet is dead.
func (l *life) do(ctx context.Context, call string, f func(ctx context.Context) error) error {
	if err := l.alive(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	l.before(call, cancel)
	err := f(limited)
	l.after(call)
	if dead := l.alive(ctx); dead != nil {
		return dead
	}
	return err
}

func (l *life) before(call string, cancel context.CancelFunc) {
	l.mu.Lock()
	before, number := l.hook.Before, l.hooks
	l.mu.Unlock()
	if before == nil {
		return
	}
	before(call, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.hooks != number {
			return false
		}
		l.dead.Store(true)
		cancel()
		return true
	})
}

func (l *life) after(call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hook.After != nil && l.hook.After(call) {
		l.dead.Store(true)
	}
}

// alive returns at once for a living kubelet; a dead one waits until the test has noticed.
func (l *life) alive(ctx context.Context) error {
	if !l.dead.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// SetHook sets the hook for calls that change something, in this life and the next.
func (w *World) SetHook(hook Hook) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hook = hook
	if w.life != nil {
		w.life.set(hook)
	}
}

// KillKubelet ends the kubelet in the middle of its work.
func (w *World) KillKubelet() {
	w.mu.Lock()
	if w.life != nil {
		w.life.dead.Store(true)
	}
	w.mu.Unlock()
	n, err := w.Cluster.Node("node-0")
	w.Check(err)
	n.Stop()
}

// StartKubelet starts a new kubelet after KillKubelet.
func (w *World) StartKubelet() {
	n, err := w.Cluster.Node("node-0")
	w.Check(err)
	n.Start()
}

// KillContainerd ends containerd like kill -9. The node restarts it unless it is held.
func (w *World) KillContainerd() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.Context, 10*time.Second)
	defer cancel()
	w.Check(w.Node().Daemon().Kill(ctx))
}

// HoldContainerd keeps containerd from starting until release is called, or the test has ended.
func (w *World) HoldContainerd() (release func()) {
	w.t.Helper()
	w.Check(os.WriteFile(w.held, nil, 0o600))
	return func() {
		if err := os.Remove(w.held); err != nil && !errors.Is(err, os.ErrNotExist) {
			w.t.Error(err)
		}
	}
}

// ServerAway makes the API server unavailable to the node, or available again.
func (w *World) ServerAway(away bool) { w.outage.set(away) }

// gatedRuntime is the node's runtime for one life of its kubelet.
type gatedRuntime struct {
	*bundled.Runtime
	life *life
}

var (
	_ kubelet.Runtime = gatedRuntime{}
	_ cri.EventSource = gatedRuntime{}
)

func (g gatedRuntime) RunPodSandbox(ctx context.Context, config cri.SandboxConfig) (id string, err error) {
	err = g.life.do(ctx, "RunPodSandbox", func(ctx context.Context) error {
		id, err = g.Runtime.RunPodSandbox(ctx, config)
		return err
	})
	return id, err
}

func (g gatedRuntime) StopPodSandbox(ctx context.Context, id string) error {
	return g.life.do(ctx, "StopPodSandbox", func(ctx context.Context) error { return g.Runtime.StopPodSandbox(ctx, id) })
}

func (g gatedRuntime) RemovePodSandbox(ctx context.Context, id string) error {
	return g.life.do(ctx, "RemovePodSandbox", func(ctx context.Context) error { return g.Runtime.RemovePodSandbox(ctx, id) })
}

func (g gatedRuntime) CreateContainer(ctx context.Context, sandboxID string, config cri.ContainerConfig, sandbox cri.SandboxConfig) (id string, err error) {
	err = g.life.do(ctx, "CreateContainer "+config.Metadata.Name, func(ctx context.Context) error {
		id, err = g.Runtime.CreateContainer(ctx, sandboxID, config, sandbox)
		return err
	})
	return id, err
}

func (g gatedRuntime) StartContainer(ctx context.Context, id string) error {
	return g.life.do(ctx, "StartContainer", func(ctx context.Context) error { return g.Runtime.StartContainer(ctx, id) })
}

func (g gatedRuntime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	return g.life.do(ctx, "StopContainer", func(ctx context.Context) error { return g.Runtime.StopContainer(ctx, id, grace) })
}

func (g gatedRuntime) RemoveContainer(ctx context.Context, id string) error {
	return g.life.do(ctx, "RemoveContainer", func(ctx context.Context) error { return g.Runtime.RemoveContainer(ctx, id) })
}

func (g gatedRuntime) PullImage(ctx context.Context, image cri.ImageSpec, auth *cri.Auth) (ref string, err error) {
	err = g.life.do(ctx, "PullImage", func(ctx context.Context) error {
		ref, err = g.Runtime.PullImage(ctx, image, auth)
		return err
	})
	return ref, err
}

// gatedVolumes are the node's volumes for one life of its kubelet.
type gatedVolumes struct {
	kubelet.Volumes
	life *life
}

func (g gatedVolumes) Prepare(ctx context.Context, pod *corev1.Pod) error {
	return g.life.do(ctx, "Prepare", func(ctx context.Context) error { return g.Volumes.Prepare(ctx, pod) })
}

func (g gatedVolumes) Mounts(ctx context.Context, r kubelet.MountRequest) (mounts []cri.Mount, err error) {
	err = g.life.do(ctx, "Mounts "+r.Container.Name, func(ctx context.Context) error {
		mounts, err = g.Volumes.Mounts(ctx, r)
		return err
	})
	return mounts, err
}

func (g gatedVolumes) Release(ctx context.Context, uid types.UID) error {
	return g.life.do(ctx, "Release", func(ctx context.Context) error { return g.Volumes.Release(ctx, uid) })
}

// gatedCgroups are the node's cgroups for one life of its kubelet.
type gatedCgroups struct {
	kubelet.Cgroups
	life *life
}

func (g gatedCgroups) Ensure(ctx context.Context, pod *corev1.Pod) (parent string, err error) {
	err = g.life.do(ctx, "Ensure", func(ctx context.Context) error {
		parent, err = g.Cgroups.Ensure(ctx, pod)
		return err
	})
	return parent, err
}

func (g gatedCgroups) Remove(ctx context.Context, uid types.UID) error {
	return g.life.do(ctx, "Remove", func(ctx context.Context) error { return g.Cgroups.Remove(ctx, uid) })
}

// gatedClient is how one life of a node reaches the API server.
type gatedClient struct {
	client.Client
	life   *life
	outage *outage
}

func (g gatedClient) reach(ctx context.Context) error {
	if away, _ := g.outage.state(); away {
		return errAway
	}
	return g.life.alive(ctx)
}

func (g gatedClient) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	if err := g.reach(ctx); err != nil {
		return nil, err
	}
	return g.Client.Get(ctx, t)
}

func (g gatedClient) List(ctx context.Context, t client.Target, o metav1.ListOptions) (runtime.Object, error) {
	if err := g.reach(ctx); err != nil {
		return nil, err
	}
	return g.Client.List(ctx, t, o)
}

func (g gatedClient) Create(ctx context.Context, t client.Target, in runtime.Object, o metav1.CreateOptions) (runtime.Object, error) {
	if err := g.reach(ctx); err != nil {
		return nil, err
	}
	return g.Client.Create(ctx, t, in, o)
}

func (g gatedClient) Update(ctx context.Context, t client.Target, in runtime.Object, o metav1.UpdateOptions) (runtime.Object, error) {
	if err := g.reach(ctx); err != nil {
		return nil, err
	}
	return g.Client.Update(ctx, t, in, o)
}

func (g gatedClient) Patch(ctx context.Context, t client.Target, p client.Patch, o metav1.PatchOptions) (out runtime.Object, err error) {
	if err := g.reach(ctx); err != nil {
		return nil, err
	}
	if t.Resource.Resource != "pods" {
		return g.Client.Patch(ctx, t, p, o)
	}
	err = g.life.do(ctx, "Patch", func(ctx context.Context) error {
		out, err = g.Client.Patch(ctx, t, p, o)
		return err
	})
	return out, err
}

func (g gatedClient) Delete(ctx context.Context, t client.Target, o metav1.DeleteOptions) error {
	if err := g.reach(ctx); err != nil {
		return err
	}
	return g.life.do(ctx, "Delete", func(ctx context.Context) error { return g.Client.Delete(ctx, t, o) })
}
