package nftables_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/nettest"
	"github.com/keelson-dev/keelson/proxy"
)

// Clients of sticky services keep their endpoints when the tables are written anew: by the same program, by the next one
// and after somebody has changed them.
func TestAffinityOutlivesTables(t *testing.T) {
	n := newNetwork(t, 5)
	sticky := one(n, corev1.ProtocolTCP, time.Hour, 0, 1, 2)
	for s, ports := range oneOf6(n, time.Hour, 0, 1, 2) {
		sticky[s] = append(sticky[s], ports...)
	}
	tables := proxy.Tables{Settings: settings(), Services: sticky}
	w := n.writer(t)
	sync := func(w proxy.Writer) {
		t.Helper()
		if err := w.Sync(t.Context(), tables); err != nil {
			t.Fatal(err)
		}
	}
	sync(w)
	clients := []string{"pod-3", "pod-4", "outside", "host"}
	ask := func() (all string) {
		for _, from := range clients {
			all += n.send(from, corev1.ProtocolTCP, theOne(), 10*time.Second).server + " " + n.send(from, corev1.ProtocolTCP, theOne6(), 10*time.Second).server + "; "
		}
		return all
	}
	first := ask()
	same := func(after string) {
		t.Helper()
		if got := ask(); got != first {
			t.Errorf("after %s: %s, before: %s", after, got, first)
		}
	}
	sync(w)
	same("another sync")
	next := n.writer(t)
	sync(next)
	same("a restart")
	for _, harm := range []string{"flush chain inet keelson-proxy services-4", "flush map inet keelson-proxy numbered-4", "delete rule inet keelson-proxy nat-prerouting handle "} {
		if strings.HasSuffix(harm, " ") {
			harm += firstHandle(t, "nat-prerouting")
		}
		nettest.Run(t, "", append([]string{"nft"}, strings.Fields(harm)...)...)
		if intact, err := next.Intact(t.Context()); intact || err != nil {
			t.Errorf("after %q intact: %v, %v", harm, intact, err)
		}
		sync(next)
		same(harm)
	}
	list := func() string { return nettest.Run(t, "", "nft", "list", "map", "inet", "keelson-proxy", "affinity-4") }
	if got := strings.Count(list(), "expires"); got != len(clients) {
		t.Errorf("%d clients are remembered: %s", got, list())
	}
	tables.Services = one(n, corev1.ProtocolTCP, time.Minute, 0, 1, 2)
	sync(next)
	if got := list(); strings.Count(got, "timeout 1m") != len(clients) {
		t.Errorf("by a service that remembers for a minute: %s", got)
	}
	tables.Services = one(n, corev1.ProtocolTCP, 0, 0, 1, 2)
	sync(next)
	if got := list(); strings.Contains(got, "expires") {
		t.Errorf("by a service that is not sticky: %s", got)
	}
}

// oneOf6 is the same service as one is, of IPv6.
func oneOf6(n *network, affinity time.Duration, pods ...int) map[proxy.Service][]proxy.Port {
	to := n.both(true, pods...)
	return map[proxy.Service][]proxy.Port{name("a"): {{
		Protocol: corev1.ProtocolTCP, ClusterIP: theOne6().Addr(), Port: 80, Cluster: to, Serving: to, Affinity: affinity,
	}}}
}

func theOne6() netip.AddrPort { return netip.MustParseAddrPort("[fd96::1]:80") }

// firstHandle is that of a chain's first rule.
func firstHandle(t *testing.T, chain string) string {
	t.Helper()
	_, after, _ := strings.Cut(nettest.Run(t, "", "nft", "-a", "list", "chain", "inet", "keelson-proxy", chain), "jump")
	_, after, _ = strings.Cut(after, "# handle ")
	handle, _, _ := strings.Cut(after, "\n")
	return handle
}

// Writing the tables anew does not make the kernel remember clients for longer.
func TestAffinityEndsAllTheSame(t *testing.T) {
	n := newNetwork(t, 1)
	w := n.writer(t)
	tables := proxy.Tables{Settings: settings(), Services: one(n, corev1.ProtocolTCP, 2*time.Second, 0)}
	if err := w.Sync(t.Context(), tables); err != nil {
		t.Fatal(err)
	}
	n.send("outside", corev1.ProtocolTCP, theOne(), 10*time.Second)
	for deadline := time.Now().Add(30 * time.Second); ; {
		if err := w.Sync(t.Context(), tables); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(nettest.Run(t, "", "nft", "list", "map", "inet", "keelson-proxy", "affinity-4"), "expires") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("still remembered")
		}
	}
}
