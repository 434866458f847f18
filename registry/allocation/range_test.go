package allocation_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/registry/allocation"
)

func TestRange(t *testing.T) {
	cases := []struct {
		network     string
		first, last string
		size        int    // 0: too many to enumerate here
		lower       string // the last address of the lower band
	}{
		{"192.168.1.0/24", "192.168.1.1", "192.168.1.254", 254, "192.168.1.16"},
		{"192.168.1.77/24", "192.168.1.1", "192.168.1.254", 254, "192.168.1.16"},
		{"10.0.0.0/29", "10.0.0.1", "10.0.0.6", 6, ""},
		{"10.0.0.0/28", "10.0.0.1", "10.0.0.14", 14, ""},
		{"10.0.0.0/27", "10.0.0.1", "10.0.0.30", 30, "10.0.0.16"},
		{"10.0.0.0/23", "10.0.0.1", "10.0.1.254", 510, "10.0.0.32"},
		{"10.96.0.0/16", "10.96.0.1", "10.96.255.254", 65534, "10.96.1.0"},
		{"10.0.0.0/31", "10.0.0.1", "", 0, ""},
		{"10.0.0.1/32", "10.0.0.2", "", 0, ""},
		{"2001:db8::ffff:ffff:ffff:ffff/128", "2001:db8:0:1::", "", 0, ""},
		{"2001:db8::/120", "2001:db8::1", "2001:db8::ff", 255, "2001:db8::10"},
		{"2001:db8::/124", "2001:db8::1", "2001:db8::f", 15, ""},
		{"2001:db8::/112", "2001:db8::1", "2001:db8::ffff", 65535, "2001:db8::100"},
		{"2001:db8::/64", "2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", -1, "2001:db8::100"},
	}
	for _, c := range cases {
		t.Run(c.network, func(t *testing.T) {
			r, err := allocation.NewRange(netip.MustParsePrefix(c.network))
			if err != nil {
				t.Fatal(err)
			}
			if r.First().String() != c.first {
				t.Errorf("first is %s, want %s", r.First(), c.first)
			}
			if c.last != "" {
				last := netip.MustParseAddr(c.last)
				for addr, want := range map[netip.Addr]bool{r.First(): true, last: true, r.First().Prev(): false, last.Next(): false, {}: false} {
					if r.Contains(addr) != want {
						t.Errorf("Contains(%s) is %v", addr, !want)
					}
				}
			}
			if c.size >= 0 {
				walk(t, r, c.size, c.lower)
				return
			}
			n := 0
			for addr := range r.All(1<<63 + 5) {
				if n++; !r.Contains(addr) || c.lower != "" && addr.Compare(netip.MustParseAddr(c.lower)) <= 0 {
					t.Fatalf("%s", addr)
				}
				if n == 1000 {
					break
				}
			}
		})
	}
}

// walk checks that every address comes once, the upper band first.
func walk(t *testing.T, r allocation.Range, size int, lower string) {
	t.Helper()
	for _, seed := range []uint64{0, 1, 12345678901} {
		seen := map[netip.Addr]bool{}
		below := false
		for addr := range r.All(seed) {
			if seen[addr] || !r.Contains(addr) {
				t.Fatalf("seed %d: %s again, or out of range", seed, addr)
			}
			seen[addr] = true
			isBelow := lower != "" && addr.Compare(netip.MustParseAddr(lower)) <= 0
			if below && !isBelow {
				t.Fatalf("seed %d: %s of the upper band after the lower one", seed, addr)
			}
			below = isBelow
		}
		if len(seen) != size {
			t.Errorf("seed %d: %d addresses, want %d", seed, len(seen), size)
		}
	}
}

func TestInvalidRange(t *testing.T) {
	if _, err := allocation.NewRange(netip.MustParsePrefix("2001:db8::/63")); err == nil || err.Error() != "shortest allowed prefix length for service CIDR is 64, got 63" {
		t.Error(err)
	}
	if _, err := allocation.NewRange(netip.Prefix{}); err == nil {
		t.Error("no network is a range")
	}
}

func TestPortRange(t *testing.T) {
	for text, want := range map[string]string{
		"30000-32767": "{30000 2768}", "1-65535": "{1 65535}", "80-80": "{80 1}",
		"0-80": "port range 0-80", "80-79": "port range 80-79", "1-65536": "port range 1-65536",
		"": "such as 30000-32767", "30000": "such as 30000-32767", "a-b": "such as 30000-32767",
	} {
		r, err := allocation.ParsePortRange(text)
		if got := fmt.Sprint([2]int{r.First, r.Size}); err == nil && strings.Trim(got, "[]") != strings.Trim(want, "{}") {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if got := allocation.NodePorts().String(); got != "30000-32767" {
		t.Errorf("the default is %s", got)
	}
}
