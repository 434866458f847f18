package cni_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/simulated"
)

func TestErrors(t *testing.T) {
	for _, test := range []struct {
		err  error
		text string
		is   error
	}{
		{&cni.PluginError{Plugin: "bridge", Command: "ADD", Message: "no"}, "network plugin bridge failed (ADD): no", nil},
		{&cni.PluginError{Plugin: "bridge", Command: "DEL", Code: 7, Message: "no", Details: "why"}, "network plugin bridge failed (DEL): no; why (code 7)", nil},
		{&cni.PluginError{Code: cni.CodeTryAgain}, "", cni.ErrTryAgain},
		{&cni.PluginError{Code: cni.CodeNotAvailable}, "", cni.ErrNotReady},
		{&cni.PluginError{Code: cni.CodeLimitedConnectivity}, "", cni.ErrNotReady},
		{&cni.TimeoutError{Plugin: "bridge", Command: "ADD", After: 1500 * time.Millisecond, Err: context.DeadlineExceeded},
			"network plugin bridge (ADD) was killed after 1.5s: context deadline exceeded", context.DeadlineExceeded},
		{&cni.ConfigError{File: "f", Field: "a.b", Reason: "no"}, "f: a.b: no", nil},
		{&cni.ConfigError{File: "f", Reason: "no"}, "f: no", nil},
		{cni.ErrNoConfig, "network not ready: no network configured", cni.ErrNotReady},
	} {
		if got := test.err.Error(); test.text != "" && got != test.text {
			t.Errorf("got %q, want %q", got, test.text)
		}
		if test.is != nil && !errors.Is(test.err, test.is) {
			t.Errorf("%v is not %v", test.err, test.is)
		}
	}
	if errors.Is(&cni.PluginError{Code: 7}, cni.ErrNotReady) || errors.Is(&cni.PluginError{}, cni.ErrTryAgain) {
		t.Error("codes that mean nothing to callers are sentinels")
	}
}

func TestValidate(t *testing.T) {
	valid := cni.Attachment{ContainerID: "a1_.-B", Interface: "eth0.7", PortMappings: []cni.PortMapping{{HostPort: 1, ContainerPort: 65535, Protocol: "Udp"}}, Args: map[string]string{"A": "b=c"}}
	if err := valid.Validate(); err != nil {
		t.Error(err)
	}
	for field, change := range map[string]func(*cni.Attachment){
		"container id":     func(a *cni.Attachment) { a.ContainerID = "" },
		"container id \"":  func(a *cni.Attachment) { a.ContainerID = strings.Repeat("a", 201) },
		"container id \"-": func(a *cni.Attachment) { a.ContainerID = "-a" },
		"interface":        func(a *cni.Attachment) { a.Interface = "a b" },
		"interface \".":    func(a *cni.Attachment) { a.Interface = ".." },
		"port mapping 1":   func(a *cni.Attachment) { a.PortMappings = append(a.PortMappings, cni.PortMapping{HostPort: 1}) },
		"argument \"B;":    func(a *cni.Attachment) { a.Args = map[string]string{"B;": "c"} },
		"argument \"name":  func(a *cni.Attachment) { a.Pod.Name = "x;K8S_POD_UID=other" },
	} {
		a := valid
		change(&a)
		if err := a.Validate(); !errors.Is(err, cni.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestPodIPs(t *testing.T) {
	ip := func(text string, i int) cni.IP { return cni.IP{Address: netip.MustParsePrefix(text), Interface: i} }
	r := cni.Result{
		Interfaces: []cni.Interface{{Name: "br0"}, {Name: "eth0", Sandbox: "/ns"}},
		IPs:        []cni.IP{ip("10.0.0.1/24", 0), ip("fd00::2/64", 1), ip("10.0.0.2/24", -1), ip("fd00::2/64", 9)},
	}
	if got, want := r.PodIPs(), []netip.Addr{netip.MustParseAddr("fd00::2"), netip.MustParseAddr("10.0.0.2")}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestReady(t *testing.T) {
	up := cni.ReporterFunc(func(context.Context) error { return nil })
	down := simulated.New(simulated.Options{Behave: func(context.Context, simulated.Operation, cni.Attachment) error { return cni.ErrNotReady }})
	never := cni.ReporterFunc(func(context.Context) error { t.Error("asked after one that is not ready"); return nil })
	if err := cni.Ready(up, up).Status(t.Context()); err != nil {
		t.Error(err)
	}
	if err := cni.Ready(up, down, never).Status(t.Context()); !errors.Is(err, cni.ErrNotReady) {
		t.Errorf("got %v", err)
	}
	failed := cni.CheckerFunc(func(context.Context, cni.Attachment) error { return cni.ErrNotFound })
	if err := failed.Check(t.Context(), cni.Attachment{}); !errors.Is(err, cni.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// attach needs no more of a network than that it attaches.
func attach(ctx context.Context, network cni.Attacher, pod cni.Pod) error {
	result, err := network.Add(ctx, cni.Attachment{ContainerID: pod.UID, NetNS: "/run/netns/" + pod.UID, Pod: pod})
	switch {
	case errors.Is(err, cni.ErrNotReady):
		return fmt.Errorf("%s waits for a network: %w", pod.Name, err)
	case err != nil:
		return err
	}
	fmt.Println(pod.Name, "has", result.PodIPs())
	return nil
}

// Consumers take the narrowest part of a network and tell errors apart by sentinels; what a crash
// has left is taken back by naming what is live.
func Example() {
	ctx, network := context.Background(), simulated.New(simulated.Options{})
	for _, name := range []string{"web-1", "web-2"} {
		if err := attach(ctx, network, cni.Pod{Namespace: "default", Name: name, UID: "uid-" + name}); err != nil {
			fmt.Println(err)
		}
	}
	if err := cni.Collect(ctx, network, []cni.Key{{ContainerID: "uid-web-2", Interface: cni.DefaultInterface}}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(network.Attachments(ctx))
	// Output:
	// web-1 has [10.88.0.2]
	// web-2 has [10.88.0.3]
	// [uid-web-2/eth0] <nil>
}
