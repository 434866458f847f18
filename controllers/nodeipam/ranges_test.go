package nodeipam_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/keelson-dev/keelson/controllers/nodeipam"
)

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// play carries out steps: + takes the network after it, - frees it, and = expects the next one.
func play(t *testing.T, r *nodeipam.Range, steps string) {
	t.Helper()
	for step := range strings.FieldsSeq(steps) {
		var err error
		switch rest := step[1:]; step[0] {
		case '+':
			err = r.Occupy(prefix(rest))
		case '-':
			err = r.Release(prefix(rest))
		default:
			var got netip.Prefix
			if got, err = r.Next(); err == nil && got.String() != rest {
				t.Errorf("%s: %v comes next", step, got)
			}
			if rest == "none" && errors.Is(err, nodeipam.ErrExhausted) {
				err = nil
			}
		}
		if err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
}

func TestRange(t *testing.T) {
	for name, test := range map[string]struct {
		network string
		bits    int
		steps   string
	}{
		"in order":                {"10.64.0.0/22", 24, "=10.64.0.0/24 =10.64.1.0/24 =10.64.2.0/24 =10.64.3.0/24 =none"},
		"from within":             {"10.64.2.7/22", 24, "=10.64.0.0/24"},
		"one":                     {"10.64.3.0/24", 24, "=10.64.3.0/24 =none -10.64.3.0/24 =10.64.3.0/24"},
		"what is free comes last": {"10.64.0.0/22", 24, "=10.64.0.0/24 =10.64.1.0/24 -10.64.0.0/24 =10.64.2.0/24 =10.64.3.0/24 =10.64.0.0/24 =none"},
		"what is taken":           {"10.64.0.0/22", 24, "+10.64.0.0/24 +10.64.2.0/24 +10.64.2.0/24 =10.64.1.0/24 =10.64.3.0/24 =none"},
		"a part of one":           {"10.64.0.0/22", 24, "+10.64.0.128/26 =10.64.1.0/24"},
		"several":                 {"10.64.0.0/22", 24, "+10.64.0.0/23 =10.64.2.0/24 =10.64.3.0/24 =none -10.64.2.0/23 =10.64.2.0/24"},
		"all":                     {"10.64.0.0/22", 24, "+10.0.0.0/8 =none -10.64.0.0/22 =10.64.0.0/24"},
		"freed twice":             {"10.64.0.0/23", 24, "=10.64.0.0/24 -10.64.0.0/24 -10.64.0.0/24 =10.64.1.0/24 =10.64.0.0/24 =none"},
		"not at bytes":            {"10.64.0.0/19", 21, "=10.64.0.0/21 =10.64.8.0/21 +10.64.16.0/22 =10.64.24.0/21 =none"},
		"single addresses":        {"255.255.255.254/31", 32, "=255.255.255.254/32 =255.255.255.255/32 =none"},
		"many":                    {"10.0.0.0/8", 32, "+10.0.0.0/9 =10.128.0.0/32 +10.128.0.0/10 =10.192.0.0/32"},
		"IPv6":                    {"fd00:1::/62", 64, "=fd00:1::/64 +fd00:1:0:1::/64 =fd00:1:0:2::/64 =fd00:1:0:3::/64 =none"},
		"IPv6 over the middle":    {"fd00::ffff:0:0:0:0/60", 68, "=fd00:0:0:fff0::/68 =fd00:0:0:fff0:1000::/68 +fd00:0:0:fff0::/62 =fd00:0:0:fff4::/68"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := nodeipam.NewRange(prefix(test.network), test.bits)
			if err != nil {
				t.Fatal(err)
			}
			if r.Network() != prefix(test.network).Masked() {
				t.Errorf("of %v", r.Network())
			}
			play(t, r, test.steps)
		})
	}
}

func TestNoRange(t *testing.T) {
	for _, test := range []struct {
		network netip.Prefix
		bits    int
	}{
		{netip.Prefix{}, 24}, {prefix("10.0.0.0/24"), 23}, {prefix("10.0.0.0/24"), 33}, {prefix("10.0.0.0/7"), 32},
		{prefix("fd00::/48"), 65}, {prefix("fd00::/126"), 129}, {prefix("::ffff:10.0.0.0/120"), 124}, {prefix("10.0.0.0/24"), -1},
	} {
		if _, err := nodeipam.NewRange(test.network, test.bits); !errors.Is(err, nodeipam.ErrRange) {
			t.Errorf("%v in networks of %d bits: %v", test.network, test.bits, err)
		}
	}
	for text, test := range map[string]struct {
		network netip.Prefix
		bits    int
	}{
		"invalid Prefix is none of IPv4 or IPv6":                                  {netip.Prefix{}, 24},
		"::ffff:10.0.0.0/120 is none of IPv4 or IPv6":                             {prefix("::ffff:10.0.0.0/120"), 124},
		"nodes of 10.0.0.0/24 are to have 33 bits, which must be from 24 to 32":   {prefix("10.0.0.0/24"), 33},
		"nodes of 10.0.0.0/7 are to have 6 bits, which must be from 7 to 31":      {prefix("10.0.0.0/7"), 6},
		"nodes of fd00::/48 are to have 65 bits, which must be from 48 to 64":     {prefix("fd00::/48"), 65},
		"nodes of fd00::/126 are to have 129 bits, which must be from 126 to 128": {prefix("fd00::/126"), 129},
	} {
		if _, err := nodeipam.NewRange(test.network, test.bits); err == nil || err.Error() != nodeipam.ErrRange.Error()+": "+text {
			t.Errorf("told %v, want %s", err, text)
		}
	}
	r, err := nodeipam.NewRange(prefix("10.0.0.0/16"), 24)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []netip.Prefix{{}, prefix("10.1.0.0/24"), prefix("fd00::/64"), prefix("::ffff:10.0.0.0/120")} {
		if err := errors.Join(r.Occupy(other)); !errors.Is(err, nodeipam.ErrOutside) {
			t.Errorf("taking %v: %v", other, err)
		}
		if err := r.Release(other); !errors.Is(err, nodeipam.ErrOutside) {
			t.Errorf("freeing %v: %v", other, err)
		}
	}
}

// TestRangeModel: whatever is taken and freed, Next gives what overlaps with nothing taken, and fails only when all is taken.
func TestRangeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom([]string{"10.64.0.0/21", "0.0.0.0/3", "fd00:0:0:ffff:f000::/68", "fd00::/60"}).Draw(t, "network")
		network := prefix(base)
		split := rapid.IntRange(0, 4).Draw(t, "split")
		r, err := nodeipam.NewRange(network, network.Bits()+split)
		if err != nil {
			t.Fatal(err)
		}
		all, err := nodeipam.NewRange(network, network.Bits()+split)
		if err != nil {
			t.Fatal(err)
		}
		taken := map[netip.Prefix]bool{}
		for range 1 << split {
			one, err := all.Next()
			if err != nil || one.Bits() != network.Bits()+split || !network.Contains(one.Addr()) {
				t.Fatalf("%v, %v", one, err)
			}
			taken[one] = false
		}
		if len(taken) != 1<<split {
			t.Fatalf("%d different networks", len(taken))
		}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			of := rapid.IntRange(0, len(taken)-1).Draw(t, "which")
			some := networkNumber(taken, of)
			some = netip.PrefixFrom(some.Addr(), rapid.IntRange(network.Bits()-1, network.Bits()+split+1).Draw(t, "bits")).Masked()
			step := rapid.SampledFrom([]string{"take", "free", "next"}).Draw(t, "step")
			switch step {
			case "take", "free":
				for one := range taken {
					if one.Overlaps(some) {
						taken[one] = step == "take"
					}
				}
				do := map[string]func(netip.Prefix) error{"take": r.Occupy, "free": r.Release}[step]
				if err := do(some); err != nil {
					t.Fatal(err)
				}
			default:
				one, err := r.Next()
				free := 0
				for _, is := range taken {
					if !is {
						free++
					}
				}
				if was, known := taken[one]; (err == nil) != (free > 0) || err == nil && (was || !known) {
					t.Fatalf("next is %v, %v with %d free of %v", one, err, free, taken)
				}
				if err == nil {
					taken[one] = true
				}
			}
		}
	})
}

func networkNumber(all map[netip.Prefix]bool, i int) netip.Prefix {
	var least netip.Prefix
	done := map[netip.Prefix]bool{}
	for range i + 1 {
		least = netip.Prefix{}
		for one := range all {
			if !done[one] && (!least.IsValid() || one.Addr().Less(least.Addr())) {
				least = one
			}
		}
		done[least] = true
	}
	return least
}

// The networks of two nodes, and what the services have.
func ExampleRange() {
	r, err := nodeipam.NewRange(netip.MustParsePrefix("10.64.0.0/10"), 24)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Occupy(netip.MustParsePrefix("10.64.1.0/24")))
	fmt.Println(r.Next())
	fmt.Println(r.Next())
	// Output:
	// <nil>
	// 10.64.0.0/24 <nil>
	// 10.64.2.0/24 <nil>
}
