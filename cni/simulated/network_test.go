package simulated_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/cnitest"
	"github.com/keelson-dev/keelson/cni/simulated"
)

func TestConformance(t *testing.T) {
	cnitest.Run(t, func(*testing.T) cnitest.Subject {
		n := simulated.New(simulated.Options{})
		return cnitest.Subject{
			Network:   n,
			Namespace: func(t testing.TB) string { return "/run/netns/" + t.Name() },
			Unmake:    func(testing.TB, string) {},
			Leased: func(t testing.TB) int {
				all, err := n.Attachments(context.Background())
				if err != nil {
					t.Error(err)
				}
				return len(all)
			},
		}
	})
}

func attachment(i int) cni.Attachment {
	return cni.Attachment{ContainerID: fmt.Sprint("pod", i), NetNS: "/run/netns/pod"}
}

func TestAddressesRunOutAndGoRound(t *testing.T) {
	for subnet, room := range map[string]int{"10.0.0.0/29": 5, "10.0.0.0/30": 1, "fd00::/125": 6, "fd00::/126": 2} {
		n := simulated.New(simulated.Options{Subnets: []netip.Prefix{netip.MustParsePrefix(subnet)}})
		var first netip.Addr
		for i := range room {
			r, err := n.Add(t.Context(), attachment(i))
			if err != nil {
				t.Fatalf("%s: address %d: %v", subnet, i, err)
			}
			if i == 0 {
				first = r.PodIPs()[0]
			}
		}
		_, err := n.Add(t.Context(), attachment(room))
		if plugin := new(cni.PluginError); !errors.As(err, &plugin) {
			t.Errorf("%s: more than there is: %v", subnet, err)
		}
		if err := n.Delete(t.Context(), attachment(0)); err != nil {
			t.Fatal(err)
		}
		if r, err := n.Add(t.Context(), attachment(room)); err != nil || r.PodIPs()[0] != first {
			t.Errorf("%s: the address that was given back: %v, %v", subnet, r, err)
		}
	}
	n := simulated.New(simulated.Options{})
	one, err := n.Add(t.Context(), attachment(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Delete(t.Context(), attachment(1)); err != nil {
		t.Fatal(err)
	}
	if two, err := n.Add(t.Context(), attachment(2)); err != nil || two.PodIPs()[0] == one.PodIPs()[0] {
		t.Errorf("an address is handed out again at once: %v, %v", two, err)
	}
}

func TestBehave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simulated.New(simulated.Options{Behave: func(ctx context.Context, op simulated.Operation, a cni.Attachment) error {
			switch {
			case op == simulated.Status:
				return fmt.Errorf("%w: still coming up", cni.ErrNotReady)
			case op == simulated.Add && a.ContainerID == "pod1":
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}})
		if err := n.Status(t.Context()); !errors.Is(err, cni.ErrNotReady) {
			t.Errorf("Status: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := n.Add(ctx, attachment(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Add: %v", err)
		}
		if all, err := n.Attachments(ctx); len(all) > 0 || err != nil {
			t.Errorf("left: %v, %v", all, err)
		}
	})
}

// A controller's test gives it a network that fails, and looks at what it does about it.
func Example() {
	network := simulated.New(simulated.Options{Behave: func(_ context.Context, op simulated.Operation, a cni.Attachment) error {
		if op == simulated.Add && a.Pod.Name == "unlucky" {
			return &cni.PluginError{Plugin: "bridge", Command: "ADD", Code: cni.CodeTryAgain, Message: "busy"}
		}
		return nil
	}})
	for _, name := range []string{"web", "unlucky"} {
		result, err := network.Add(context.Background(), cni.Attachment{ContainerID: name, NetNS: "/run/netns/" + name, Pod: cni.Pod{Name: name}})
		fmt.Println(name, result.PodIPs(), err, errors.Is(err, cni.ErrTryAgain))
	}
	// Output:
	// web [10.88.0.2] <nil> false
	// unlucky [] network plugin bridge failed (ADD): busy (code 11) true
}
