package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet"
)

// classed is a server with runtime classes, whose handlers are by their names, and which can be away.
type classed struct {
	*world
	mu       sync.Mutex
	handlers map[string]string
	away     bool
	hangs    string // the class that is waited for in vain
}

func (c *classed) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *classed) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	if t.Resource != nodev1.SchemeGroupVersion.WithResource("runtimeclasses") {
		return c.world.Get(ctx, t)
	}
	if t.Name == c.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return nil, errors.New("no answer")
	}
	handler, ok := c.handlers[t.Name]
	if !ok {
		return nil, notFound(t)
	}
	return &nodev1.RuntimeClass{Handler: handler}, nil
}

// TestRuntimeClass: a sandbox is made by the handler of the pod's class; without the class, or the handler, events say
// so and the pod waits.
func TestRuntimeClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := &classed{world: w, hangs: "slow", handlers: map[string]string{"fast": "quick", "plain": "", "odd": "strange"}}
		rt := simulated.New(simulated.Options{Handlers: []string{"quick"}})
		ctx, cancel := context.WithCancel(t.Context())
		pods, nodes := informer.New(w.pods, informer.Options{}), informer.New(w.nodes, informer.Options{})
		k, err := kubelet.New(kubelet.Sources{Pods: pods, Nodes: nodes}, c, rt, w, kubelet.Options{NodeName: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for _, run := range []func(context.Context) error{pods.Run, nodes.Run, k.Run} {
			group.Go(func() { _ = run(ctx) })
		}
		n := &node{world: w, runtime: rt}
		of := func(name, class string) {
			w.pods.Put(newPod(name, func(p *corev1.Pod) { p.Spec.RuntimeClassName = &class }))
			n.after(time.Second)
		}
		handler := func(name string) string {
			list, err := rt.ListSandboxes(ctx, cri.Filter{Labels: map[string]string{cri.LabelPodName: name}})
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 {
				return "none"
			}
			return fmt.Sprintf("%q", list[0].RuntimeHandler)
		}
		expect := func(name, want string, events ...string) {
			t.Helper()
			if got := handler(name); got != want {
				t.Errorf("%s has the handler %s, not %s", name, got, want)
			}
			w.expectEventsAbout("FailedCreatePodSandBox", events...)
		}
		const failed = "Warning FailedCreatePodSandBox: Failed to create pod sandbox: "
		n.after(time.Second)
		of("a", "fast")
		expect("a", `"quick"`)
		of("b", "plain")
		expect("b", `""`)
		of("c", "odd")
		expect("c", "none", `3s c `+failed+`failed to get sandbox runtime: no runtime for "strange" is configured`,
			`4s c `+failed+`failed to get sandbox runtime: no runtime for "strange" is configured`)
		c.set(func() { c.handlers["odd"] = "quick" })
		n.after(20 * time.Second)
		if got := handler("c"); got != `"quick"` {
			t.Errorf("c has the handler %s", got)
		}
		w.expectEventsAbout("no events at all")
		of("d", "new")
		expect("d", "none", `24s d `+failed+`runtimeclass.node.k8s.io "new" not found`)
		c.set(func() { c.away = true })
		of("e", "fast")
		expect("e", `"quick"`) // as before
		of("f", "later")
		expect("f", "none", `26s f `+failed+`failed to lookup RuntimeClass later: no answer`)
		c.set(func() { c.away, c.handlers["later"] = false, "quick" })
		n.after(20 * time.Second)
		expect("f", `"quick"`, `34s d `+failed+`runtimeclass.node.k8s.io "new" not found`, `44s d `+failed+`runtimeclass.node.k8s.io "new" not found`)
		c.set(func() { delete(c.handlers, "later") })
		of("g", "later") // whose handler is forgotten
		c.set(func() { c.away = true })
		n.after(10 * time.Second)
		w.expectEventsAbout(" g Warning", `47s g `+failed+`runtimeclass.node.k8s.io "later" not found`, `57s g `+failed+`failed to lookup RuntimeClass later: no answer`)
		of("h", "slow")
		n.after(15 * time.Second)
		w.expectEventsAbout(" h Warning", `68s h `+failed+`failed to lookup RuntimeClass slow: context deadline exceeded`)
		cancel()
		group.Wait()
		rt.Close()
	})
}

// TestAbilities: the node's status has what its runtime's handlers can do.
func TestAbilities(t *testing.T) {
	status := cri.RuntimeStatus{Runtime: cri.Condition{Ready: true}, Network: cri.Condition{Ready: true},
		Handlers: []cri.RuntimeHandler{{Name: "z", UserNamespaces: true}, {RecursiveReadOnlyMounts: true}}, Features: cri.RuntimeFeatures{SupplementalGroupsPolicy: true}}
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.after(time.Second)
		of := func() corev1.NodeStatus {
			node, _ := n.nodes.Get("", "n1")
			return node.Status
		}
		if s := of(); s.RuntimeHandlers != nil || s.Features != nil {
			t.Errorf("a runtime that says nothing: %v, %v", s.RuntimeHandlers, s.Features)
		}
		n.runtime.SetStatus(status)
		n.after(time.Minute)
		s := of()
		if len(s.RuntimeHandlers) != 2 || s.RuntimeHandlers[0].Name != "" || s.RuntimeHandlers[1].Name != "z" ||
			!ptr.Deref(s.RuntimeHandlers[0].Features.RecursiveReadOnlyMounts, false) || ptr.Deref(s.RuntimeHandlers[0].Features.UserNamespaces, true) ||
			!ptr.Deref(s.RuntimeHandlers[1].Features.UserNamespaces, false) || s.Features == nil || !ptr.Deref(s.Features.SupplementalGroupsPolicy, false) {
			t.Errorf("got %+v, %+v", s.RuntimeHandlers, s.Features)
		}
		if want := []string{"InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"}; fmt.Sprint(s.DeclaredFeatures) != fmt.Sprint(want) {
			t.Errorf("declared are %v", s.DeclaredFeatures)
		}
	})
}
