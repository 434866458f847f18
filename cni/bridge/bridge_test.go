package bridge_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cni/plugins"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// host is what ip and nft answer, and notes what they are told.
type fakeHost struct {
	told    strings.Builder
	answers map[string]string // by command line
	fails   map[string]error
}

func (h *fakeHost) run(_ context.Context, stdin []byte, name string, args ...string) ([]byte, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	fmt.Fprintf(&h.told, "$ %s\n%s", line, stdin)
	return []byte(h.answers[line]), h.fails[line]
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the golden files")
	flag.Parse()
	os.Exit(m.Run())
}

func TestWhatIsWrittenAndRun(t *testing.T) {
	for name, test := range map[string]struct {
		subnets []netip.Prefix
		options bridge.Options
		answers map[string]string
	}{
		"default": {subnets: prefixes("10.64.3.0/24")},
		"dual": {prefixes("10.64.3.7/24", "fd00:64::/64"), bridge.Options{
			Network: "net", Bridge: "br-1.x", MTU: 1450, DataDir: "/d", Bandwidth: true, PortMapBackend: "iptables", CNIVersion: "1.1.0",
			Internal: prefixes("10.64.0.0/16", "10.96.0.0/12", "10.64.3.128/25", "fd00::/16"),
		}, nil},
		"bare": {prefixes("fd00:64::/64"), bridge.Options{NoMasquerade: true, NoHairpin: true, NoPortMap: true}, nil},
		"again": {prefixes("10.64.3.0/24"), bridge.Options{}, map[string]string{
			"ip -json -details address show": `[{"ifname": "lo"}, {}, {"ifname": "keelson0", "linkinfo": {"info_kind": "bridge"}, "addr_info": [
				{"local": "10.64.3.1", "prefixlen": 24, "scope": "global"}, {"local": "10.64.9.1", "prefixlen": 24, "scope": "global"},
				{"local": "fe80::1", "prefixlen": 64, "scope": "link"}]}]`,
			"cat /proc/sys/net/ipv4/ip_forward":              "1\n",
			"ip -json -details address show master keelson0": `[{"ifname": "veth1"}, {"ifname": "veth2"}]`,
			"nft -j list tables":                             `{"nftables": [{"metainfo": {}}, {"table": {"family": "ip", "name": "cni_hostport", "handle": 1}}, {"table": {"family": "inet", "name": "x"}}]}`,
			"nft -j list table ip cni_hostport": `{"nftables": [{"rule": {"chain": "hostports", "handle": 7, "comment": "one", "expr": [
				{"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 80}}, {"dnat": {"addr": "10.64.3.2", "port": 80}}]}},
				{"rule": {"chain": "hostports", "handle": 8, "comment": "other", "expr": [{"dnat": {"addr": "10.64.4.2", "port": 80}}]}},
				{"rule": {"chain": "masquerading", "handle": 9, "comment": "one", "expr": [{"match": {"right": "127.0.0.1"}}, {"match": {"right": "10.64.3.2"}}, {"masquerade": null}]}}]}`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			host := &fakeHost{answers: test.answers}
			test.options.Run = host.run
			if test.options.DataDir == "" {
				test.options.DataDir = "/does/not/exist"
			}
			test.options.CacheDir = "/does/not/exist"
			b, err := bridge.New(test.subnets, test.options)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := plugins.Parse("f", b.Config()); err != nil {
				t.Error(err)
			}
			fmt.Fprintf(&host.told, "== Config\n%s== Up\n", b.Config())
			if err := b.Up(t.Context()); err != nil {
				t.Error(err)
			}
			host.told.WriteString("== Down\n")
			if err := b.Down(t.Context()); err != nil {
				t.Error(err)
			}
			golden(t, name+".txt", host.told.String())
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, test := range []struct {
		subnets []netip.Prefix
		options bridge.Options
		want    string
	}{
		{nil, bridge.Options{}, "one is needed"},
		{prefixes("10.0.0.0/24", "10.0.1.0/24"), bridge.Options{}, "one of each family"},
		{prefixes("10.0.0.0/31"), bridge.Options{}, "no room"},
		{[]netip.Prefix{{}}, bridge.Options{}, "no room"},
		{prefixes("::ffff:10.0.0.0/120"), bridge.Options{}, "no room"},
		{prefixes("10.0.0.0/24"), bridge.Options{Bridge: "a b"}, "bridge"},
		{prefixes("10.0.0.0/24"), bridge.Options{Bridge: "a;flush"}, "bridge"},
		{prefixes("10.0.0.0/24"), bridge.Options{Bridge: "sixteencharacter"}, "bridge"},
		{prefixes("10.0.0.0/24"), bridge.Options{Network: "../x"}, "network"},
		{prefixes("10.0.0.0/24"), bridge.Options{PortMapBackend: "pf"}, "backend"},
		{prefixes("10.0.0.0/24"), bridge.Options{MTU: 10}, "MTU"},
		{prefixes("10.0.0.0/24"), bridge.Options{Internal: []netip.Prefix{{}}}, "internal"},
	} {
		if _, err := bridge.New(test.subnets, test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, %+v: %v, want %s", test.subnets, test.options, err, test.want)
		}
	}
}

func TestFailuresAreTold(t *testing.T) {
	failure := errors.New("it failed")
	for _, command := range []string{"ip -json -details address show", "ip -batch -", "tee /proc/sys/net/ipv4/ip_forward", "nft -f -"} {
		host := &fakeHost{fails: map[string]error{command: failure}}
		b, err := bridge.New(prefixes("10.0.0.0/24"), bridge.Options{Run: host.run})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Up(t.Context()); !errors.Is(err, failure) {
			t.Errorf("%s fails: Up says %v", command, err)
		}
	}
	// Down goes on: what comes after a failure is removed all the same.
	dir := t.TempDir()
	lease := filepath.Join(dir, "keelson", "10.0.0.2")
	if err := errors.Join(os.Mkdir(filepath.Dir(lease), 0o755), os.WriteFile(lease, []byte("one\r\neth0"), 0o600)); err != nil {
		t.Fatal(err)
	}
	host := &fakeHost{fails: map[string]error{"ip -json -details address show": failure, "nft -j list tables": failure}}
	b, err := bridge.New(prefixes("10.0.0.0/24"), bridge.Options{Run: host.run, DataDir: dir, CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	want := []bridge.Lease{{Address: netip.MustParseAddr("10.0.0.2"), ContainerID: "one", Interface: "eth0"}}
	if leases, err := b.Leases(); err != nil || !slices.Equal(leases, want) {
		t.Errorf("leases %v, %v", leases, err)
	}
	if err := b.Down(t.Context()); !errors.Is(err, failure) {
		t.Errorf("Down: %v", err)
	}
	if leases, err := b.Leases(); err != nil || len(leases) > 0 {
		t.Errorf("leases %v, %v", leases, err)
	}
}

func TestMissingCommand(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	b, err := bridge.New(prefixes("10.0.0.0/24"), bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Up(t.Context()); err == nil || !strings.Contains(err.Error(), "install it") {
		t.Errorf("Up: %v", err)
	}
}

func TestResultsOfOtherNetworksStay(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "results"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"keelson-one-eth0":     `{"networkName": "keelson", "containerId": "one"}`,
		"keelson-two-eth0":     `{"networkName": "keelson", "containerId": "two"}`,
		"keelson-2-one-eth0":   `{"networkName": "keelson-2", "containerId": "one"}`,
		"cni-loopback-one-lo":  `{"networkName": "cni-loopback", "containerId": "one"}`,
		"keelson-rubbish-eth0": `{`,
	} {
		if err := os.WriteFile(filepath.Join(dir, "results", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := bridge.New(prefixes("10.0.0.0/24"), bridge.Options{Run: (&fakeHost{}).run, DataDir: dir, CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Release(t.Context(), func(id string) bool { return id == "two" }); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "results"))
	var left []string
	for _, f := range files {
		left = append(left, f.Name())
	}
	if want := []string{"cni-loopback-one-lo", "keelson-2-one-eth0", "keelson-rubbish-eth0", "keelson-two-eth0"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left %v, %v; want %v", left, err, want)
	}
}

// TestEndpoints: of pods that have leases in this network.
func TestEndpoints(t *testing.T) {
	dir := t.TempDir()
	leases := filepath.Join(dir, "keelson")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "results"), 0o755), os.Mkdir(leases, 0o755)); err != nil {
		t.Fatal(err)
	}
	for address, id := range map[string]string{"10.0.0.2": "one", "10.0.0.3": "two", "fd00::2": "one"} {
		if err := os.WriteFile(filepath.Join(leases, address), []byte(id+"\r\neth0"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host := &fakeHost{}
	b, err := bridge.New(prefixes("10.0.0.0/24"), bridge.Options{Run: host.run, DataDir: dir, CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	result := func(network, ips string) string {
		return fmt.Sprintf(`{"networkName": %q, "containerId": "one", "result": {"interfaces": [
			{"name": "keelson0", "mac": "02:00:00:00:00:01"}, {"name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/ns"},
			{"name": "eth1", "mac": "02:00:00:00:00", "sandbox": "/ns"}], "ips": [%s]}}`, network, ips)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"keelson-one-eth0":    {result("keelson", `{"address": "10.0.0.2/24", "interface": 1}, {"address": "fd00::2/64", "interface": 1}`), "[{10.0.0.2 02:00:00:00:00:02} {fd00::2 02:00:00:00:00:02}] <nil>"},
		"keelson-gone-eth0":   {result("keelson", `{"address": "10.0.0.3/24", "interface": 1}, {"address": "10.0.0.4/24", "interface": 1}`), "[] <nil>"},
		"keelson-device-eth0": {result("keelson", `{"address": "10.0.0.2/24", "interface": 0}`), "[] <nil>"},
		"keelson-none-eth0":   {result("keelson", `{"address": "10.0.0.2/24"}`), "[] <nil>"},
		"keelson-many-eth0":   {result("keelson", `{"address": "10.0.0.2/24", "interface": 3}, {"address": "10.0.0.2/24", "interface": -1}`), "[] <nil>"},
		"keelson-short-eth0":  {result("keelson", `{"address": "10.0.0.2/24", "interface": 2}`), "[] <nil>"},
		"keelson-2-one-eth0":  {result("keelson-2", `{"address": "10.0.0.2/24", "interface": 1}`), "[] <nil>"},
		"other-one-eth0":      {`{`, "[] <nil>"},
		"keelson-half-eth0":   {`{"networkName":`, "unexpected end of JSON input"},
	} {
		file := filepath.Join(b.ResultDir(), name)
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Endpoints(file); !strings.Contains(fmt.Sprint(got, err), tt.want) {
			t.Errorf("%s: %v, %v; want %s", name, got, err, tt.want)
		}
	}
	if _, err := b.Endpoints(filepath.Join(b.ResultDir(), "keelson-not-there")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	ends, err := b.Endpoints(filepath.Join(b.ResultDir(), "keelson-one-eth0"))
	if err := errors.Join(err, b.Learn(t.Context(), ends)); err != nil {
		t.Error(err)
	}
	const want = "$ ip -batch -\nneighbor replace 10.0.0.2 lladdr 02:00:00:00:00:02 dev keelson0 nud stale\n" +
		"neighbor replace fd00::2 lladdr 02:00:00:00:00:02 dev keelson0 nud stale\n"
	if got := host.told.String(); got != want {
		t.Errorf("%s", got)
	}
	failure := errors.New("no such device")
	host.fails = map[string]error{"ip -batch -": failure}
	if err := b.Learn(t.Context(), ends); !errors.Is(err, failure) {
		t.Errorf("%v", err)
	}
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "10.conflist")
	write := func(text string, want bool) {
		t.Helper()
		if changed, err := bridge.WriteFile(path, []byte(text)); err != nil || changed != want {
			t.Errorf("%q: %v, %v; want %v", text, changed, err, want)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	write("one", true)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write("one", false)
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) || before.Mode().Perm() != 0o644 {
		t.Errorf("%v became %v, %v", before, after, err)
	}
	write("two", true)
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v", files, err)
	}
	if _, err := bridge.WriteFile(filepath.Join(path, "x"), nil); err == nil {
		t.Error("a file is no directory")
	}
}

// What writes the node's configuration needs no root; Up does.
func Example() {
	node, err := bridge.New([]netip.Prefix{netip.MustParsePrefix("10.64.0.0/24")}, bridge.Options{
		Internal: []netip.Prefix{netip.MustParsePrefix("10.64.0.0/16")}, // the pods of all nodes
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "net.d-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for range 2 {
		changed, err := bridge.WriteFile(filepath.Join(dir, "10-keelson.conflist"), node.Config())
		fmt.Println(changed, err)
	}
	config, _, err := plugins.Load(dir)
	fmt.Println(config.Name, config.Plugins, err)
	fmt.Println(node.Gateways())
	// Output:
	// true <nil>
	// false <nil>
	// keelson [{bridge host-local [ips mac]} {portmap  [portMappings]}] <nil>
	// [10.64.0.1/24]
}

// FuzzAnswers: whatever ip and nft say, nothing but rules of the plugin's table and ports of the
// bridge is removed.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`[{"ifname": "keelson0", "linkinfo": {"info_kind": "bridge"}}, {"ifname": "v"}]`), []byte(`{"nftables": [{"table": {"family": "ip", "name": "cni_hostport"}}]}`),
		[]byte(`{"nftables": [{"rule": {"chain": "hostports", "handle": 7, "expr": [{"dnat": {"addr": "10.0.0.2"}}]}}]}`))
	f.Add([]byte(`null`), []byte(`{"nftables": [null, {"table": null}]}`), []byte(`{"nftables": [{"rule": {"chain": "masquerading", "expr": 3}}]}`))
	f.Fuzz(func(t *testing.T, links, tables, table []byte) {
		host := &fakeHost{answers: map[string]string{
			"ip -json -details address show": string(links), "ip -json -details address show master keelson0": string(links),
			"nft -j list tables": string(tables), "nft -j list table ip cni_hostport": string(table),
		}}
		b, err := bridge.New(prefixes("10.0.0.0/24"), bridge.Options{Run: host.run, DataDir: "/does/not/exist", CacheDir: "/does/not/exist"})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = b.Up(t.Context()), b.Down(t.Context())
		for line := range strings.Lines(host.told.String()) {
			if fields := strings.Fields(line); len(fields) > 3 && fields[0] == "delete" && fields[1] == "rule" && (fields[2] != "ip" || fields[3] != "cni_hostport" || len(fields) != 7) {
				t.Errorf("told: %s", line)
			}
		}
	})
}
