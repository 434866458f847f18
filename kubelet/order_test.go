package kubelet_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// backwards is a runtime that lists what is oldest first. The order is up to the runtime.
type backwards struct{ *simulated.Runtime }

func (b backwards) ListSandboxes(ctx context.Context, filter cri.Filter) ([]cri.Sandbox, error) {
	list, err := b.Runtime.ListSandboxes(ctx, filter)
	slices.Reverse(list)
	return list, err
}

func (b backwards) ListContainers(ctx context.Context, filter cri.Filter) ([]cri.Container, error) {
	list, err := b.Runtime.ListContainers(ctx, filter)
	slices.Reverse(list)
	return list, err
}

// TestOrderOfLists: a kubelet finds the newest sandbox and the newest instance of a container in whatever order the
// runtime lists them.
func TestOrderOfLists(t *testing.T) {
	for name, of := range map[string]func(*simulated.Runtime) kubelet.Runtime{
		"newest first": func(rt *simulated.Runtime) kubelet.Runtime { return rt },
		"oldest first": func(rt *simulated.Runtime) kubelet.Runtime { return backwards{rt} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				rt := simulated.New(simulated.Options{})
				defer rt.Close()
				n := w.runOn(of(rt), rt, kubelet.Options{})
				n.pods.Put(newPod("web"))
				n.after(time.Second)
				for range 2 {
					if err := rt.Exit(n.container("main").ID, 1); err != nil {
						t.Fatal(err)
					}
					n.after(time.Minute)
				}
				n.remake(t)
				n.expectStatuses("0s web Running Ready main=running", "1s web Running Ready main=running#1",
					"61s web Running main=CrashLoopBackOff#1", "71s web Running Ready main=running#2",
					"121s web Running main=CrashLoopBackOff#2", "141s web Running Ready main=running#3")
				sandboxes, err := rt.ListSandboxes(t.Context(), cri.Filter{})
				if err != nil || len(sandboxes) != 2 {
					t.Fatalf("%d sandboxes, %v", len(sandboxes), err)
				}
				status, err := rt.SandboxStatus(t.Context(), sandboxes[0].ID)
				if got := n.podIPs("web"); err != nil || !slices.Equal(got, status.IPs) {
					t.Errorf("the pod has %v, its newest sandbox %v, %v", got, status.IPs, err)
				}
				n.stop()
			})
		})
	}
}
