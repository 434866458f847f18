package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/internal/nettest"
)

func TestThreePodsReachEachOtherAndTheHost(t *testing.T) {
	dir := host(t)
	n := startNode(t, 1, bridge.Options{})
	pods := []pod{n.attach(t, dir, "one"), n.attach(t, dir, "two"), n.attach(t, dir, "three")}
	for _, p := range pods {
		p.serve(t)
	}
	gateways := n.bridge.Gateways()
	nettest.Serve(t, "", ":9090", "host")
	for _, from := range pods {
		for _, to := range pods {
			nettest.Hears(t, from.NetNS, at(to.v4, 8080), nettest.Greeting(to.name, from.v4))
			nettest.Hears(t, from.NetNS, at(to.v6, 8080), nettest.Greeting(to.name, from.v6))
		}
		for i, own := range []netip.Addr{from.v4, from.v6} {
			gateway := gateways[i].Addr()
			nettest.Hears(t, from.NetNS, at(gateway, 9090), nettest.Greeting("host", own))
			nettest.Hears(t, "", at(own, 8080), nettest.Greeting(from.name, gateway))
		}
		loopback := netip.MustParseAddr("127.0.0.1")
		nettest.Hears(t, from.NetNS, at(loopback, 8080), nettest.Greeting(from.name, loopback))
		if err := n.network.Check(ctx(t), from.Attachment); err != nil {
			t.Errorf("Check: %v", err)
		}
	}
}

func TestPodsOfTwoNodesKeepTheirAddresses(t *testing.T) {
	dir := host(t)
	outside, hostIP, world := nettest.Outside(t, dir)
	nettest.Serve(t, outside, ":8080", "world")
	one := startNode(t, 1, bridge.Options{}).attach(t, dir, "one")
	two := startNode(t, 2, bridge.Options{}).attach(t, dir, "two")
	one.serve(t)
	two.serve(t)
	nettest.Hears(t, one.NetNS, at(two.v4, 8080), nettest.Greeting("two", one.v4))
	nettest.Hears(t, two.NetNS, at(one.v4, 8080), nettest.Greeting("one", two.v4))
	// The world knows no way to the pods: it can answer nobody but the host.
	nettest.Hears(t, one.NetNS, at(world, 8080), nettest.Greeting("world", hostIP))
	nettest.Hears(t, two.NetNS, at(world, 8080), nettest.Greeting("world", hostIP))
}

func TestNoMasqueradeKeepsAddressesEverywhere(t *testing.T) {
	dir := host(t)
	outside, hostIP, world := nettest.Outside(t, dir)
	nettest.Serve(t, outside, ":8080", "world")
	p := startNode(t, 1, bridge.Options{NoMasquerade: true}).attach(t, dir, "one")
	nettest.Run(t, outside, "ip", "route", "add", "10.199.0.0/16", "via", hostIP.String())
	nettest.Hears(t, p.NetNS, at(world, 8080), nettest.Greeting("world", p.v4))
}

func TestPortMappings(t *testing.T) {
	dir := host(t)
	outside, hostIP, world := nettest.Outside(t, dir)
	n := startNode(t, 1, bridge.Options{})
	mapped := n.attach(t, dir, "mapped", cni.PortMapping{HostPort: 28080, ContainerPort: 8080, Protocol: "TCP"})
	other := n.attach(t, dir, "other", cni.PortMapping{HostPort: 28081, ContainerPort: 8080, HostIP: hostIP})
	mapped.serve(t)
	other.serve(t)
	gateway := n.bridge.Gateways()[0].Addr()
	nettest.Hears(t, outside, at(hostIP, 28080), nettest.Greeting("mapped", world))
	nettest.Hears(t, outside, at(hostIP, 28081), nettest.Greeting("other", world))
	nettest.Hears(t, "", "127.0.0.1:28080", nettest.Greeting("mapped", gateway))
	nettest.Hears(t, other.NetNS, at(hostIP, 28080), nettest.Greeting("mapped", other.v4))
	nettest.Hears(t, mapped.NetNS, at(hostIP, 28080), nettest.Greeting("mapped", gateway)) // by a hairpin
	n.detach(t, mapped)
	if said, err := nettest.Fetch(t, outside, at(hostIP, 28080)); err == nil {
		t.Errorf("a mapping that is gone leads to %q", said)
	}
	nettest.Hears(t, outside, at(hostIP, 28081), nettest.Greeting("other", world))
}

func TestBandwidth(t *testing.T) {
	dir := host(t)
	n := startNode(t, 1, bridge.Options{Bandwidth: true})
	a := cni.Attachment{ContainerID: "one", NetNS: nettest.Namespace(t, dir, "one"), Bandwidth: cni.Bandwidth{IngressRate: 8e6, EgressRate: 16e6}}
	t.Cleanup(func() { n.detach(t, pod{Attachment: a}) })
	if _, err := n.network.Add(ctx(t), a); err != nil {
		t.Fatal(err)
	}
	limits := nettest.Run(t, "", "tc", "qdisc", "show")
	for _, want := range []string{"tbf", "rate 8Mbit", "rate 16Mbit"} {
		if !strings.Contains(limits, want) {
			t.Errorf("no %s in\n%s", want, limits)
		}
	}
}

func TestDeleteFreesAddresses(t *testing.T) {
	dir := host(t)
	n := startNode(t, 1, bridge.Options{})
	one, two, three := n.attach(t, dir, "one"), n.attach(t, dir, "two"), n.attach(t, dir, "three")
	if got, want := n.leased(t), []string{"one", "two", "three", "one", "two", "three"}; !slices.Equal(got, want) {
		t.Errorf("leases of %v, want %v", got, want)
	}
	n.detach(t, one)
	n.detach(t, one) // again
	if err := netns.Remove(two.NetNS); err != nil {
		t.Fatal(err)
	}
	n.detach(t, two)
	// A namespace that was unmounted, but whose file stayed.
	if err := netns.Remove(three.NetNS); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(three.NetNS, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n.detach(t, three)
	if got := n.leased(t); len(got) > 0 {
		t.Errorf("addresses of %v are still on record", got)
	}
	if keys, err := n.network.Attachments(ctx(t)); len(keys) > 0 || err != nil {
		t.Errorf("attachments %v, %v", keys, err)
	}
	var files []string
	err := filepath.WalkDir(filepath.Join(n.dir, "state"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if len(files) > 0 || err != nil {
		t.Errorf("state left: %v, %v", files, err)
	}
}

func TestManyAtOnce(t *testing.T) {
	dir := host(t)
	n := startNode(t, 1, bridge.Options{})
	hostNS := nettest.HostPath()
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[netip.Addr]int{}
	for i := range 8 {
		a := cni.Attachment{ContainerID: fmt.Sprintf("pod%d", i), NetNS: nettest.Namespace(t, dir, fmt.Sprint(i))}
		all.Go(func() {
			err := netns.Do(hostNS, func() error {
				for range 2 {
					result, err := n.network.Add(ctx(t), a)
					if err != nil {
						return err
					}
					mu.Lock()
					for _, ip := range result.PodIPs() {
						seen[ip]++
					}
					mu.Unlock()
					if err := n.network.Delete(ctx(t), a); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(seen) != 8*2*2 { // host-local goes round before it hands out an address again
		t.Errorf("%d different addresses: %v", len(seen), seen)
	}
	if got := n.leased(t); len(got) > 0 {
		t.Errorf("addresses of %v are still on record", got)
	}
}

func TestReleaseAfterTheRuntimeIsGone(t *testing.T) {
	dir := host(t)
	n := startNode(t, 1, bridge.Options{})
	other := startNode(t, 2, bridge.Options{}).attach(t, dir, "other", cni.PortMapping{HostPort: 28082, ContainerPort: 8080})
	live := n.attach(t, dir, "live", cni.PortMapping{HostPort: 28080, ContainerPort: 8080})
	dead := n.attach(t, dir, "dead", cni.PortMapping{HostPort: 28081, ContainerPort: 8080})
	live.serve(t)
	other.serve(t)
	freed, err := n.bridge.Release(ctx(t), func(id string) bool { return id == "live" })
	want := []bridge.Lease{
		{Address: dead.v4, ContainerID: "dead", Interface: "eth0"}, {Address: dead.v6, ContainerID: "dead", Interface: "eth0"},
	}
	if err != nil || !slices.Equal(freed, want) {
		t.Errorf("freed %v, %v; want %v", freed, err, want)
	}
	if got := n.leased(t); !slices.Equal(got, []string{"live", "live"}) {
		t.Errorf("leases of %v", got)
	}
	rules := nettest.Run(t, "", "nft", "list", "ruleset")
	if strings.Contains(rules, "28081") || strings.Contains(rules, dead.v4.String()+" ") {
		t.Errorf("the mapping of the dead pod is still there:\n%s", rules)
	}
	gateway := n.bridge.Gateways()[0].Addr()
	nettest.Hears(t, "", at(gateway, 28080), nettest.Greeting("live", gateway))
	nettest.Hears(t, live.NetNS, at(gateway, 28082), nettest.Greeting("other", live.v4))
}

func TestReleaseWaitsForHostLocal(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keelson", "lock")
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	b, err := bridge.New(prefixes("10.0.0.0/24"), bridge.Options{Run: (&fakeHost{}).run, DataDir: dir, CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	none := func(string) bool { return false }
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Release(over, none); !errors.Is(err, context.Canceled) {
		t.Errorf("Release while host-local is at it: %v", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Release(t.Context(), none); err != nil {
		t.Errorf("Release: %v", err)
	}
}

func TestDownWithPodsLeavesNothing(t *testing.T) {
	dir := host(t)
	n := startNode(t, 1, bridge.Options{})
	n.attach(t, dir, "one", cni.PortMapping{HostPort: 28080, ContainerPort: 8080})
	n.attach(t, dir, "two")
	for range 2 {
		if err := n.bridge.Down(ctx(t)); err != nil {
			t.Fatal(err)
		}
		if links := nettest.Run(t, "", "ip", "-br", "link"); strings.Contains(links, "veth") || strings.Contains(links, "kltest") {
			t.Errorf("links left:\n%s", links)
		}
		if rules := nettest.Run(t, "", "nft", "list", "ruleset"); rules != "" {
			t.Errorf("rules left:\n%s", rules)
		}
	}
	if _, err := os.Stat(filepath.Join(n.dir, "ipam", "kltest1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("leases left: %v", err)
	}
	if cached, _ := os.ReadDir(filepath.Join(n.dir, "state", "results")); len(cached) > 0 {
		t.Errorf("cached results left: %v", cached)
	}
}

func TestUpAgain(t *testing.T) {
	dir := host(t)
	n := startNode(t, 1, bridge.Options{})
	p := n.attach(t, dir, "one")
	p.serve(t)
	device, rules := nettest.Run(t, "", "ip", "-d", "link", "show", "kltest1"), nettest.Run(t, "", "nft", "list", "ruleset")
	nettest.Run(t, "", "ip", "address", "add", "10.198.0.1/24", "dev", "kltest1")
	nettest.Run(t, "", "ip", "link", "set", "dev", "kltest1", "down")
	nettest.Run(t, "", "nft", "flush", "ruleset")
	if err := n.bridge.Up(ctx(t)); err != nil {
		t.Fatal(err)
	}
	nettest.Hears(t, "", at(p.v4, 8080), nettest.Greeting("one", n.bridge.Gateways()[0].Addr()))
	if again := nettest.Run(t, "", "nft", "list", "ruleset"); again != rules {
		t.Errorf("rules were\n%sand are\n%s", rules, again)
	}
	mac := func(text string) string {
		_, text, _ = strings.Cut(text, "link/ether ")
		return strings.Fields(text)[0]
	}
	if again := nettest.Run(t, "", "ip", "-d", "link", "show", "kltest1"); mac(again) != mac(device) || mac(device)[:5] != "0a:58" {
		t.Errorf("the device was\n%sand is\n%s", device, again)
	}
	if addresses := nettest.Run(t, "", "ip", "address", "show", "kltest1"); strings.Contains(addresses, "10.198") {
		t.Errorf("an address that is not the node's stays:\n%s", addresses)
	}
}

func TestUpRefusesWhatIsNoBridge(t *testing.T) {
	host(t)
	nettest.Run(t, "", "ip", "link", "add", "kltest3", "type", "veth", "peer", "name", "kltest3p")
	t.Cleanup(func() { nettest.Run(t, "", "ip", "link", "delete", "kltest3") })
	b := describe(t, 3, t.TempDir(), bridge.Options{})
	if err := b.Up(ctx(t)); err == nil || !strings.Contains(err.Error(), "no bridge") {
		t.Errorf("Up: %v", err)
	}
	if err := b.Down(ctx(t)); err == nil || !strings.Contains(err.Error(), "no bridge") {
		t.Errorf("Down: %v", err)
	}
}
