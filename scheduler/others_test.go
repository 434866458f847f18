package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// permissions are objects that a plugin reads: a pod needs the config map of its name.
type permissions struct {
	synced chan struct{}
	tell   func(scheduler.Event)
	given  sync.Map
	asked  atomic.Int64 // how often MayHelp was
}

func (p *permissions) Watch(tell func(scheduler.Event)) { p.tell = tell }

func (p *permissions) WaitSynced(ctx context.Context) error {
	select {
	case <-p.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *permissions) give(kind scheduler.EventKind, pod string) {
	p.given.Store(pod, true)
	p.tell(scheduler.Event{Kind: kind, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: pod}}})
}

func (p *permissions) Name() string { return "Permissions" }

func (p *permissions) Check(pod *corev1.Pod, _ *scheduler.NodeInfo) *scheduler.Refusal {
	if _, ok := p.given.Load(pod.Name); !ok {
		return scheduler.Refuse("node(s) may not take it")
	}
	return nil
}

func (p *permissions) Events() scheduler.EventKind { return scheduler.ObjectAdded }

func (p *permissions) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	p.asked.Add(1)
	return e.Object.GetName() == pod.Name
}

// Events about other objects wake the pods that they may help, and none is tried before the objects are known.
func TestOtherObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &permissions{synced: make(chan struct{})}
		s := newServer(t, node("n", "4", "8Gi"))
		s.others = []scheduler.Objects{p}
		profile := also(p, plugins.DefaultBinder{Client: s})
		s.schedule(t, profile, scheduler.Options{}, func(*scheduler.Scheduler) {
			s.pods.Put(pod("web", "1", "1Gi"))
			s.pods.Put(pod("db", "1", "1Gi"))
			after(time.Minute)
			same(t, nil, s.said())
			close(p.synced)
			after(time.Minute)
			same(t, 4, len(s.said()))
			p.give(scheduler.ObjectUpdated, "web")
			after(time.Minute)
			same(t, "-", s.where()["web"])
			same(t, 0, p.asked.Load())
			p.give(scheduler.ObjectAdded, "web")
			after(time.Minute)
			same(t, map[string]string{"web": "n", "db": "-"}, s.where())
		})
	})
}

// choosy is a Reserver and a PreBinder for pods with a label.
type choosy struct {
	mu  sync.Mutex
	did []string
}

func (*choosy) Name() string { return "Choosy" }

func (c *choosy) note(pod *corev1.Pod, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did = append(c.did, pod.Name+" "+what)
}

func (c *choosy) SkipReserve(pod *corev1.Pod) bool           { return pod.Labels["slow"] == "" }
func (c *choosy) SkipPreBind(pod *corev1.Pod, _ string) bool { return pod.Labels["slow"] == "" }

func (c *choosy) Reserve(_ context.Context, pod *corev1.Pod, _ string) (func(), error) {
	c.note(pod, "reserved")
	return nil, nil
}

func (c *choosy) PreBind(_ context.Context, pod *corev1.Pod, _ string) error {
	c.note(pod, "prepared")
	return nil
}

// Pods for which a plugin has nothing to do keep their order, as with no such plugin.
func TestSkippingPlugins(t *testing.T) {
	c := &choosy{}
	var order []string
	var mu sync.Mutex
	bound := scheduler.PostBinderFunc("Order", func(_ context.Context, pod *corev1.Pod, _ string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, pod.Name)
	})
	runProfile(t, also(c, bound), scheduler.Options{Writes: 1}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprintf("pod-%02d", i))
			s.pods.Put(pod(names[i], "10m", ""))
			synctest.Wait()
		}
		slow := pod("slow", "10m", "")
		slow.Labels = map[string]string{"slow": "yes"}
		s.pods.Put(slow)
		after(time.Second)
		same(t, append(names, "slow"), order)
		same(t, []string{"slow:n"}, s.nominated())
	}, node("n", "4", "8Gi"))
	same(t, []string{"slow reserved", "slow prepared"}, c.did)
}

// A PreBinder ends with its pod, and what was reserved for the pod is free; for a pod that is bound by others, too.
func TestPreBinderEndsWithItsPod(t *testing.T) {
	for name, goes := range map[string]func(*server, *corev1.Pod){
		"deleted": func(s *server, p *corev1.Pod) { s.pods.Delete("default", p.Name) },
		"bound":   func(s *server, p *corev1.Pod) { s.pods.Put(on(p.DeepCopy(), "n")) },
		"over": func(s *server, p *corev1.Pod) {
			p = p.DeepCopy()
			p.Status.Phase = corev1.PodFailed
			s.pods.Put(p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var undone, ended atomic.Bool
			profile := also(
				scheduler.ReserverFunc("Reserves", func(context.Context, *corev1.Pod, string) (func(), error) {
					return func() { undone.Store(true) }, nil
				}),
				scheduler.PreBinderFunc("Waits", func(ctx context.Context, _ *corev1.Pod, _ string) error {
					<-ctx.Done()
					ended.Store(true)
					return ctx.Err()
				}),
			)
			runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				p := pod("web", "1", "1Gi")
				s.pods.Put(p)
				after(time.Second)
				same(t, false, ended.Load())
				goes(s, p)
				synctest.Wait()
				same(t, true, ended.Load() && undone.Load())
				same(t, false, slices.ContainsFunc(s.said(), func(line string) bool { return line != "" }))
			}, node("n", "4", "8Gi"))
		})
	}
}

// A pod that goes while it is reserved for is not prepared.
func TestPodGoesBeforeItsPreBinder(t *testing.T) {
	prepared := context.Canceled
	runProfile(t, also(
		scheduler.ReserverFunc("Slow", func(context.Context, *corev1.Pod, string) (func(), error) {
			time.Sleep(time.Second)
			return nil, nil
		}),
		scheduler.PreBinderFunc("Waits", func(ctx context.Context, _ *corev1.Pod, _ string) error {
			prepared = ctx.Err()
			return prepared
		}),
	), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(pod("web", "1", "1Gi"))
		synctest.Wait()
		s.pods.Delete("default", "web")
		after(time.Minute)
		if prepared == nil {
			t.Error("it was prepared")
		}
	}, node("n", "4", "8Gi"))
}

// The claims that pods name are counted with their nodes.
func TestClaimsOfNodes(t *testing.T) {
	with := func(name string, claims ...string) *corev1.Pod {
		p := on(pod(name, "1m", ""), "n")
		for _, c := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c},
			}}, corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
		}
		return p
	}
	var state scheduler.State
	state.SetNode(node("n", "4", "8Gi"))
	claims := func() (names []string) {
		for _, c := range state.Snapshot().Node("n").Claims {
			names = append(names, c.String())
		}
		return names
	}
	a, b := with("a", "x", "y"), with("b", "x")
	state.SetPod(a)
	state.SetPod(b)
	state.SetPod(with("c"))
	same(t, []string{"default/x", "default/y", "default/x"}, claims())
	state.SetPod(a.DeepCopy())
	state.RemovePod(b)
	same(t, []string{"default/x", "default/y"}, claims())
	state.RemovePod(a)
	same(t, nil, claims())
}

// late are objects that are not known in the end.
type late struct{ err error }

func (late) Watch(func(scheduler.Event)) {}

func (l late) WaitSynced(context.Context) error { return l.err }

// A source that fails ends Run, which waits a moment for the end of its own context, of which the source may know before.
func TestSourceThatFails(t *testing.T) {
	boom := errors.New("boom")
	for _, ends := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			in := scheduler.Sources{
				Pods: informer.New[*corev1.Pod](s.pods, informer.Options{}), Nodes: informer.New[*corev1.Node](s.nodes, informer.Options{}),
				Others: []scheduler.Objects{late{boom}},
			}
			sched, err := scheduler.New(in, binding(s), s, s, scheduler.Options{})
			if err != nil {
				t.Fatal(err)
			}
			sources, stop := context.WithCancel(t.Context())
			defer stop()
			for _, run := range []func(context.Context) error{in.Pods.Run, in.Nodes.Run} {
				go func() { _ = run(sources) }()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if ends {
				time.AfterFunc(500*time.Millisecond, cancel)
			}
			start := time.Now()
			if err := sched.Run(ctx); (err == nil) != ends || !ends && !errors.Is(err, boom) {
				t.Errorf("ends %t: %v", ends, err)
			}
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("ends %t: took %v", ends, took)
			}
			stop()
			synctest.Wait()
		})
	}
}
