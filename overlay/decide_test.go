package overlay_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/overlay"
)

// node makes a node of words: networks, addresses, and first its name.
func node(words string) *corev1.Node {
	all := strings.Fields(words)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: all[0]}}
	for _, word := range all[1:] {
		switch {
		case strings.HasPrefix(word, "created="):
			at, err := time.Parse(time.RFC3339, strings.TrimPrefix(word, "created="))
			if err != nil {
				panic(err)
			}
			n.CreationTimestamp = metav1.NewTime(at)
		case strings.HasPrefix(word, "external="):
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: strings.TrimPrefix(word, "external=")})
		case strings.Contains(word, "/"):
			n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, word)
		default:
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: word})
		}
	}
	return n
}

func prefixes(texts string) (all []netip.Prefix) {
	for text := range strings.FieldsSeq(texts) {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// underlay is that of the host 192.0.2.1.
func underlay(segments string) overlay.Underlay {
	return overlay.Underlay{Device: "eth0", MTU: 1500, Address: netip.MustParseAddr("192.0.2.1"), Segments: prefixes(segments)}
}

func show(t overlay.Table, refusals []overlay.Refusal) string {
	var all []string
	for _, r := range t.Routes {
		way := "via " + r.Address.String()
		if r.Encapsulated {
			way = "in VXLAN to " + r.Address.String() + " " + r.Device.String()
		}
		all = append(all, r.Network.String()+" "+way)
	}
	for _, r := range refusals {
		all = append(all, r.Node+" "+r.What+": "+r.Reason)
	}
	return strings.Join(all, "\n")
}

func TestDecide(t *testing.T) {
	for name, test := range map[string]struct {
		nodes       string // separated by ;
		segments    string // 192.0.2.0/24
		networks    string // 10.64.0.0/10 fd00:64::/48
		encapsulate bool
		want        string // separated by ;
	}{
		"one segment": {nodes: "b 10.64.1.0/24 192.0.2.2; c 10.64.2.0/24 192.0.2.3", want: "10.64.1.0/24 via 192.0.2.2; 10.64.2.0/24 via 192.0.2.3"},
		"another segment": {
			nodes: "b 10.64.1.0/24 192.0.2.2; c 10.64.2.0/24 198.51.100.3",
			want:  "10.64.1.0/24 via 192.0.2.2; 10.64.2.0/24 in VXLAN to 198.51.100.3 0a:58:0a:40:02:00",
		},
		"always VXLAN":           {nodes: "b 10.64.1.0/24 192.0.2.2", encapsulate: true, want: "10.64.1.0/24 in VXLAN to 192.0.2.2 0a:58:0a:40:01:00"},
		"sorted":                 {nodes: "b 10.64.9.0/24 192.0.2.2; c 10.64.2.0/24 192.0.2.3", want: "10.64.2.0/24 via 192.0.2.3; 10.64.9.0/24 via 192.0.2.2"},
		"no network yet":         {nodes: "b 192.0.2.2"},
		"no address yet":         {nodes: "b 10.64.1.0/24"},
		"only an external one":   {nodes: "b 10.64.1.0/24 external=192.0.2.2"},
		"the first that is near": {nodes: "b 10.64.1.0/24 198.51.100.3 192.0.2.2", want: "10.64.1.0/24 via 192.0.2.2"},
		"two families": {
			nodes: "b 10.64.1.0/24 fd00:64:0:1::/64 192.0.2.2 2001:db8::2",
			want:  "10.64.1.0/24 via 192.0.2.2; fd00:64:0:1::/64 in VXLAN to 192.0.2.2 0a:58:0a:40:01:00",
		},
		"two families of one segment": {
			nodes: "b 10.64.1.0/24 fd00:64:0:1::/64 192.0.2.2 2001:db8::2", segments: "192.0.2.0/24 2001:db8::/64",
			want: "10.64.1.0/24 via 192.0.2.2; fd00:64:0:1::/64 via 2001:db8::2",
		},
		"IPv6 first":       {nodes: "b fd00:64:0:1::/64 198.51.100.3", want: "fd00:64:0:1::/64 in VXLAN to 198.51.100.3 0e:ce:3b:c5:ab:f4"},
		"only IPv6 at all": {nodes: "b fd00:64:0:1::/64 2001:db8::2"},

		"not a network":           {nodes: "b x/24 ::ffff:10.64.1.0/120 10.64.1.0/33 192.0.2.2", want: "b 10.64.1.0/33: it is not a network; b ::ffff:10.64.1.0/120: it is not a network; b x/24: it is not a network"},
		"everything":              {nodes: "b 0.0.0.0/0 192.0.2.2", want: "b 0.0.0.0/0: it is not one of the cluster's networks"},
		"more than the cluster's": {nodes: "b fd00:64::/47 192.0.2.2", want: "b fd00:64::/47: it is not one of the cluster's networks"},
		"all that one node has": {
			nodes: "b fd00:64::/48 192.0.2.2; c fd00:64:0:1::/64 192.0.2.3",
			want:  "fd00:64::/48 in VXLAN to 192.0.2.2 0e:e4:58:b7:b1:9a; c fd00:64:0:1::/64: it overlaps with that of node b",
		},
		"elsewhere":                {nodes: "b 203.0.113.0/24 192.0.2.2", want: "b 203.0.113.0/24: it is not one of the cluster's networks"},
		"all networks of pods":     {nodes: "b 10.64.0.0/10 192.0.2.2", want: "b 10.64.0.0/10: it overlaps with that of node a"},
		"that of this node":        {nodes: "b 10.64.0.0/24 192.0.2.2", want: "b 10.64.0.0/24: it overlaps with that of node a"},
		"a part of that":           {nodes: "b 10.64.0.128/25 192.0.2.2", want: "b 10.64.0.128/25: it overlaps with that of node a"},
		"that of another":          {nodes: "b 10.64.1.0/24 192.0.2.2; c 10.64.0.0/23 192.0.2.3", want: "10.64.1.0/24 via 192.0.2.2; c 10.64.0.0/23: it overlaps with that of node a"},
		"that of an older one":     {nodes: "b created=2026-01-02T00:00:00Z 10.64.1.0/24 192.0.2.2; c created=2026-01-01T00:00:00Z 10.64.1.0/25 192.0.2.3", want: "10.64.1.0/25 via 192.0.2.3; b 10.64.1.0/24: it overlaps with that of node c"},
		"the hosts' own":           {nodes: "b 10.70.1.0/25 192.0.2.2", segments: "192.0.2.0/24 10.70.1.0/24", want: "b 10.70.1.0/25: it overlaps with the network of the hosts"},
		"a second one":             {nodes: "b 10.64.1.0/24 10.64.2.0/24 192.0.2.2", want: "10.64.1.0/24 via 192.0.2.2; b 10.64.2.0/24: the node has another network of that family"},
		"an address in a network":  {nodes: "b 10.64.1.7/24 192.0.2.2", want: "10.64.1.0/24 via 192.0.2.2"},
		"the address of this host": {nodes: "b 10.64.1.0/24 192.0.2.1", want: "b 192.0.2.1: it is the address of this host"},
		"a pod's address":          {nodes: "b 10.64.1.0/24 10.64.1.1", want: "b 10.64.1.1: it is in a network of pods"},
		"no host's address": {
			nodes: "b 10.64.1.0/24 127.0.0.1 0.0.0.0 224.0.0.1 169.254.0.1 255.255.255.255 fe80::1%eth0 x ::ffff:192.0.2.9",
			want: "b 0.0.0.0: a host cannot have it; b 127.0.0.1: a host cannot have it; b 169.254.0.1: a host cannot have it; b 224.0.0.1: a host cannot have it; " +
				"b 255.255.255.255: a host cannot have it; b ::ffff:192.0.2.9: it is not an address; b fe80::1%eth0: it is not an address; b x: it is not an address",
		},
		"a bad one beside a good one": {nodes: "b 10.64.1.0/24 127.0.0.1 192.0.2.2", want: "10.64.1.0/24 via 192.0.2.2; b 127.0.0.1: a host cannot have it"},
		"two with one address":        {nodes: "b 10.64.1.0/24 192.0.2.2; c 10.64.2.0/24 192.0.2.2", want: "10.64.1.0/24 via 192.0.2.2; 10.64.2.0/24 via 192.0.2.2"},
		"no networks of the cluster":  {nodes: "b 10.64.1.0/24 192.0.2.2", networks: "-", want: "a 10.64.0.0/24: it is not one of the cluster's networks; b 10.64.1.0/24: it is not one of the cluster's networks"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := []*corev1.Node{}
			for words := range strings.SplitSeq(test.nodes, ";") {
				nodes = append(nodes, node(words))
			}
			nodes = append(nodes, node("a 10.64.0.0/24 192.0.2.1"))
			if test.segments == "" {
				test.segments = "192.0.2.0/24"
			}
			s := overlay.Settings{Networks: prefixes("10.64.0.0/10 fd00:64::/48"), Encapsulate: test.encapsulate}
			if test.networks == "-" {
				s.Networks = nil
			}
			table, refusals := overlay.Decide("a", nodes, underlay(test.segments), s)
			if got := show(table, refusals); got != strings.ReplaceAll(test.want, "; ", "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.ReplaceAll(test.want, "; ", "\n"))
			}
			for _, r := range table.Routes {
				if r.Encapsulated != (r.Device != overlay.MAC{}) {
					t.Errorf("the device of %v", r)
				}
			}
			slices.Reverse(nodes)
			again, _ := overlay.Decide("a", nodes, underlay(test.segments), s)
			if show(again, nil) != show(table, nil) {
				t.Errorf("in another order\n%s\nis\n%s", show(table, nil), show(again, nil))
			}
		})
	}
}

// TestOwn: what the host itself has, and that there is nothing without it.
func TestOwn(t *testing.T) {
	others := []*corev1.Node{node("b 10.64.1.0/24 192.0.2.2")}
	s := overlay.Settings{Networks: prefixes("10.64.0.0/10 fd00:64::/48")}
	for words, want := range map[string]string{
		"a 10.64.0.0/24 fd00:64::/64 192.0.2.1": "[10.64.0.0/24 fd00:64::/64] 0a:58:0a:40:00:00 1",
		"a 192.0.2.1":                           "[] 00:00:00:00:00:00 0",
		"x 10.64.3.0/24":                        "[] 00:00:00:00:00:00 0",
		"a 10.64.0.0/24 10.0.0.1":               "[10.64.0.0/24] 0a:58:0a:40:00:00 1", // whatever it says of its address
	} {
		table, _ := overlay.Decide("a", append(others, node(words)), underlay("192.0.2.0/24"), s)
		if got := fmt.Sprint(table.Own, table.Device, len(table.Routes)); got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
	old := node("a 192.0.2.1")
	old.Spec.PodCIDR = "10.64.0.0/24" // of before there were two families
	if table, _ := overlay.Decide("a", append(others, old), underlay("192.0.2.0/24"), s); len(table.Own) != 1 {
		t.Errorf("own networks %v", table.Own)
	}
}

func TestMTU(t *testing.T) {
	u := underlay("192.0.2.0/24")
	if got := overlay.MTU(u); got != 1450 {
		t.Errorf("%d", got)
	}
	u.Address = netip.MustParseAddr("2001:db8::1")
	if got := overlay.MTU(u); got != 1430 {
		t.Errorf("over IPv6 %d", got)
	}
}

// FuzzDecide: whatever nodes say, routes lead only to parts of the cluster's networks that nobody else has, by addresses that hosts
// can have.
func FuzzDecide(f *testing.F) {
	for _, seed := range []string{
		"b 10.64.1.0/24 192.0.2.2;c 10.64.2.0/24 198.51.100.3", "b 10.64.0.0/10 fd00:64::/48 10.64.0.1", "b 0.0.0.0/0 ::/0 0.0.0.0",
		"a 10.64.1.0/24 192.0.2.9;b 10.64.1.0/24 192.0.2.9", "b 10.64.1.0/32 10.64.1.1/32 ::ffff:1.2.3.4", "b fd00:64:0:1::/64 fe80::1%x 192.0.2.2",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var nodes []*corev1.Node
		for words := range strings.SplitSeq(text, ";") {
			if strings.TrimSpace(words) != "" && !strings.Contains(words, "created=") {
				nodes = append(nodes, node(words))
			}
		}
		u, s := underlay("192.0.2.0/24"), overlay.Settings{Networks: prefixes("10.64.0.0/10 fd00:64::/48")}
		table, _ := overlay.Decide("a", nodes, u, s)
		var all []netip.Prefix
		check := func(network netip.Prefix) {
			inside := slices.ContainsFunc(s.Networks, func(n netip.Prefix) bool { return n.Bits() <= network.Bits() && n.Contains(network.Addr()) })
			if !inside || network != network.Masked() || slices.ContainsFunc(all, network.Overlaps) {
				t.Errorf("network %v beside %v", network, all)
			}
			all = append(all, network)
		}
		for _, own := range table.Own {
			check(own)
		}
		for _, r := range table.Routes {
			check(r.Network)
			switch {
			case !r.Address.IsGlobalUnicast(), r.Address == u.Address, r.Address.Zone() != "", r.Address.Is4In6(),
				slices.ContainsFunc(s.Networks, func(n netip.Prefix) bool { return n.Contains(r.Address) }),
				r.Encapsulated != (r.Device != overlay.MAC{}), r.Encapsulated && !r.Address.Is4(),
				!r.Encapsulated && !u.Segments[0].Contains(r.Address), r.Device[0]&1 != 0:
				t.Errorf("route %+v", r)
			}
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	var nodes []*corev1.Node
	for i := range 5000 {
		nodes = append(nodes, node(fmt.Sprintf("node-%d 10.%d.%d.0/24 198.51.%d.%d", i, 64+i>>8, i&255, i>>8, i&255)))
	}
	for b.Loop() {
		overlay.Decide("node-0", nodes, underlay("192.0.2.0/24"), overlay.Settings{Networks: prefixes("10.64.0.0/10")})
	}
}
