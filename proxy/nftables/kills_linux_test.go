package nftables_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/internal/nettest"
	"github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/nftables"
)

var (
	kills  = flag.Int("kills", 6, "how often to kill a program while it writes")
	victim = flag.String("victim", "", "the network namespace in which this process is the program that is killed")
)

// stays is a service that every version of the tables has, with the same endpoint.
func stays(services map[proxy.Service][]proxy.Port) map[proxy.Service][]proxy.Port {
	to := []netip.AddrPort{netip.MustParseAddrPort("10.64.0.2:8080")}
	services[name("stays")] = []proxy.Port{{
		Protocol: corev1.ProtocolTCP, ClusterIP: netip.MustParseAddr("10.96.255.1"), Port: 80, Cluster: to, Serving: to, Affinity: time.Hour,
	}}
	return services
}

// TestVictim is not a test but the program to kill: it writes tables until then.
func TestVictim(t *testing.T) {
	if *victim == "" {
		t.Skip("TestRandomPackets runs it")
	}
	var w *nftables.Writer
	err := netns.Do(*victim, func() (err error) {
		w, err = nftables.New(nftables.Options{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for round := 0; ; round++ {
		tables := many(1 + rand.IntN(300))
		tables.Services = stays(tables.Services)
		if err := w.Sync(t.Context(), tables); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			fmt.Println("\nwritten")
		}
		for range rand.IntN(20) {
			changed := many(rand.IntN(100)).Services
			for _, ports := range changed {
				ports[0].Cluster = ports[0].Cluster[:rand.IntN(3)]
			}
			if err := w.Update(t.Context(), changed); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// killed kills a program at any moment while it writes. What it has written holds until another one repairs it; the tables
// of others remain as they are.
func (n *network) killed(t *testing.T, count int, done func()) {
	t.Helper()
	nettest.Run(t, "", "nft", "add table inet other; add chain inet other c { type filter hook input priority 5; }; add rule inet other c counter; "+
		"add map inet other m { type ipv4_addr : verdict; }; add element inet other m { 192.0.2.9 : drop }")
	list := func(table string) string {
		all := strings.FieldsFunc(nettest.Run(t, "", "nft", "-n", "list", "table", "inet", table), func(r rune) bool { return strings.ContainsRune(",{}\n", r) })
		for i := range all {
			all[i] = strings.TrimSpace(all[i])
		}
		all = slices.DeleteFunc(all, func(line string) bool {
			return line == "" || line == "elements =" || strings.Contains(line, "counter") || strings.Contains(line, "expires")
		})
		slices.Sort(all) // elements come in any order
		return strings.Join(all, "\n")
	}
	others := list("other")
	w := n.writer(t)
	wanted := many(50)
	wanted.Services = stays(wanted.Services)
	if err := w.Sync(t.Context(), wanted); err != nil {
		t.Fatal(err)
	}
	right := list("keelson-proxy")
	answers := func(when string) {
		t.Helper()
		if got := n.send("outside", corev1.ProtocolTCP, netip.MustParseAddrPort("10.96.255.1:80"), 10*time.Second); got.server != "pod-0" {
			t.Errorf("%s: %+v", when, got)
		}
	}
	for range count {
		kill(t, n.host.ns)
		answers("after the kill")
		if intact, err := w.Intact(t.Context()); intact || err != nil {
			t.Errorf("what another one wrote seems intact: %v, %v", intact, err)
		}
		if err := w.Sync(t.Context(), wanted); err != nil {
			t.Fatal(err)
		}
		answers("after the repair")
		if got := list("keelson-proxy"); got != right {
			t.Fatalf("after the repair the table has %v and lacks %v", without(got, right), without(right, got))
		}
		if got := list("other"); got != others {
			t.Fatalf("another program's table has %v and lacks %v", without(got, others), without(others, got))
		}
		done()
	}
}

// without are the lines of one text that another one lacks.
func without(text, other string) []string {
	has := strings.Split(other, "\n")
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return slices.Contains(has, line) })
}

// kill starts a program that writes, and kills it.
func kill(t *testing.T, ns string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$", "-victim="+ns) //nolint:gosec // this program
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines, said := bufio.NewScanner(out), ""
	for lines.Scan() && lines.Text() != "written" {
		said += lines.Text() + "\n"
	}
	time.Sleep(rand.N(40 * time.Millisecond)) // the moment
	if err := command.Process.Kill(); err != nil {
		t.Error(err)
	}
	rest, _ := io.ReadAll(out)
	if err := command.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("the program ended by itself: %v\n%s%s", err, said, rest)
	}
}
