package dns_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/dns"
)

// fill puts objects of all kinds that have names.
func fill(w *world) {
	for _, name := range []string{"default", "kube-system", "empty"} {
		w.namespace(name)
	}
	w.service("kube-system", "kube-dns", []string{"10.96.0.10"}, "dns/UDP/53", "dns-tcp/TCP/53")
	w.slice("kube-system", "kube-dns", "kube-dns", []string{"10.0.0.53"}, "dns/UDP/53", "dns-tcp/TCP/53")
	w.service("default", "web", []string{"10.96.1.1"}, "http/TCP/80")
	w.slice("default", "web", "web-1", []string{"10.0.0.1", "!10.0.0.2", "first=10.0.0.3"}, "http/TCP/8080")
	w.service("default", "dual", []string{"10.96.1.2", "fd00::2"}, "http/TCP/80")
	w.service("default", "portless", []string{"10.96.1.3"})
	w.service("default", "two", []string{"10.96.1.4"}, "a/TCP/1", "b/UDP/2")
	w.service("default", "headless", []string{"None"}, "http/TCP/80")
	w.slice("default", "headless", "headless-1", []string{"10.0.1.1", "10.0.1.2", "!10.0.1.3", "db=10.0.1.4", "db=10.0.1.5"}, "http/TCP/80")
	w.slice("default", "headless", "headless-2", []string{"10.0.1.2", "fd00:1::1", "fd00:1::"}, "http/TCP/80")
	w.service("default", "bare", []string{"None"})
	w.slice("default", "bare", "bare-1", []string{"10.0.2.1"})
	w.service("default", "down", []string{"None"}, "http/TCP/80")
	w.slice("default", "down", "down-1", []string{"!10.0.3.1"}, "http/TCP/80")
	w.external("default", "out", "example.com")
	w.external("default", "numbered", "192.0.2.1")
	w.external("default", "in", "web.default.svc.cluster.local")
	w.external("default", "in2", "In.default.svc.cluster.local.")
	w.external("default", "in3", "in2.default.svc.cluster.local")
	w.external("default", "in3out", "out2.default.svc.cluster.local")
	w.external("default", "out2", "out.default.svc.cluster.local")
	w.external("default", "nowhere", "no.default.svc.cluster.local")
	w.external("default", "unmade", "default.svc.cluster.local")
	w.external("default", "self", "self.default.svc.cluster.local")
	w.external("default", "ping", "pong.default.svc.cluster.local")
	w.external("default", "pong", "ping.default.svc.cluster.local")
}

func TestAnswers(t *testing.T) {
	const (
		none    = "soa cluster.local."
		missing = "NXDOMAIN; soa cluster.local."
		notOurs = "not ours"
	)
	tests := []struct{ question, want string }{
		// Services with cluster IPs.
		{"web.default.svc A", "@ 5 10.96.1.1"},
		{"WEB.Default.sVc A", "@ 5 10.96.1.1"},
		{"web.default.svc AAAA", none},
		{"web.default.svc SRV", "@ 5 SRV 100 80 @; +@ 5 10.96.1.1"},
		{"web.default.svc TXT", none},
		{"web.default.svc CNAME", none},
		{"web.default.svc MX", none},
		{"web.default.svc NS", none},
		{"web.default.svc SOA", none},
		{"web.default.svc PTR", none},
		{"web.default.svc CAA", none},
		{"_http._tcp.web.default.svc SRV", "@ 5 SRV 100 80 web.default.svc.cluster.local.; +web.default.svc.cluster.local. 5 10.96.1.1"},
		{"http.tcp.web.default.svc A", "@ 5 10.96.1.1"},
		{"_HTTP._TCP.web.default.svc A", "@ 5 10.96.1.1"},
		{"_http._udp.web.default.svc SRV", missing},
		{"_https._tcp.web.default.svc SRV", missing},
		{"__http._tcp.web.default.svc SRV", missing},
		{"a._http._tcp.web.default.svc SRV", missing},
		{"dual.default.svc A", "@ 5 10.96.1.2"},
		{"dual.default.svc AAAA", "@ 5 fd00::2"},
		{"dual.default.svc SRV", "@ 5 SRV 50 80 @; +@ 5 10.96.1.2; +@ 5 fd00::2"},
		{"two.default.svc SRV", "@ 5 SRV 50 1 @; @ 5 SRV 50 2 @; +@ 5 10.96.1.4"},
		{"_b._udp.two.default.svc SRV", "@ 5 SRV 100 2 two.default.svc.cluster.local.; +two.default.svc.cluster.local. 5 10.96.1.4"},
		{"portless.default.svc A", "@ 5 10.96.1.3"},
		{"portless.default.svc SRV", none},
		{"no.default.svc A", missing},
		{"no.default.svc TXT", missing},
		{"no.default.svc SRV", missing},
		{"no.default.svc MX", missing},
		{"no.default.svc CNAME", missing},
		{"no.default.svc CAA", missing},
		{"no.default.svc SOA", none},
		{"web.empty.svc A", missing},
		{"web.no.svc A", missing},
		{"*.default.svc A", missing},
		{"web.*.svc A", missing},
		{"any.default.svc A", missing},

		// Endpoints of services with cluster IPs.
		{"10-0-0-1.web.default.svc A", "@ 5 10.0.0.1"},
		{"10-0-0-2.web.default.svc A", missing},
		{"10-0-0-3.web.default.svc A", missing},
		{"first.web.default.svc A", "@ 5 10.0.0.3"},
		{"First.web.default.svc AAAA", none},
		{"first.web.default.svc SRV", "@ 5 SRV 100 8080 @; +@ 5 10.0.0.3"},
		{"first.no.default.svc A", missing},

		// Headless services.
		{"headless.default.svc A", "@ 5 10.0.1.1; @ 5 10.0.1.2; @ 5 10.0.1.4; @ 5 10.0.1.5"},
		{"headless.default.svc AAAA", "@ 5 fd00:1::; @ 5 fd00:1::1"},
		{"_http._tcp.headless.default.svc SRV", "@ 5 SRV 14 80 10-0-1-1.#; @ 5 SRV 14 80 10-0-1-2.#; @ 5 SRV 14 80 db.#; " +
			"@ 5 SRV 14 80 fd00-1--0.#; @ 5 SRV 14 80 fd00-1--1.#; " +
			"+10-0-1-1.# 5 10.0.1.1; +10-0-1-2.# 5 10.0.1.2; +db.# 5 10.0.1.4; +db.# 5 10.0.1.5; +fd00-1--0.# 5 fd00:1::; +fd00-1--1.# 5 fd00:1::1"},
		{"_http._udp.headless.default.svc SRV", missing},
		{"db.headless.default.svc A", "@ 5 10.0.1.4; @ 5 10.0.1.5"},
		{"10-0-1-4.headless.default.svc A", missing},
		{"fd00-1--0.headless.default.svc AAAA", "@ 5 fd00:1::"},
		{"fd00-1--1.headless.default.svc A", none},
		{"no.headless.default.svc A", missing},
		{"bare.default.svc A", "@ 5 10.0.2.1"},
		{"bare.default.svc SRV", none},
		{"10-0-2-1.bare.default.svc A", "@ 5 10.0.2.1"},
		{"down.default.svc A", missing},

		// ExternalName.
		{"out.default.svc A", "@ 5 5 example.com.; follow example.com."},
		{"out.default.svc AAAA", "@ 5 5 example.com.; follow example.com."},
		{"out.default.svc CNAME", "@ 5 5 example.com."},
		{"out.default.svc SRV", none},
		{"out.default.svc TXT", none},
		{"_http._tcp.out.default.svc SRV", missing},
		{"x.out.default.svc CNAME", missing},
		{"numbered.default.svc A", missing},
		{"in.default.svc A", "@ 5 5 web.default.svc.cluster.local.; web.default.svc.cluster.local. 5 10.96.1.1"},
		{"in.default.svc AAAA", none},
		{"in3.default.svc A", "In.default.svc.cluster.local. 5 5 web.default.svc.cluster.local.; " +
			"in2.default.svc.cluster.local. 5 5 In.default.svc.cluster.local.; @ 5 5 in2.default.svc.cluster.local.; web.default.svc.cluster.local. 5 10.96.1.1"},
		{"in3out.default.svc A", "@ 5 5 out2.default.svc.cluster.local.; out.default.svc.cluster.local. 5 5 example.com.; " +
			"out2.default.svc.cluster.local. 5 5 out.default.svc.cluster.local.; follow example.com."},
		{"nowhere.default.svc A", none},
		{"self.default.svc A", none},
		{"unmade.default.svc A", none},
		{"ping.default.svc A", none},

		// Pods.
		{"10-1-2-3.default.pod A", "@ 5 10.1.2.3"},
		{"10-1-2-3.default.pod AAAA", none},
		{"fd00--1.default.pod AAAA", "@ 5 fd00::1"},
		{"--1.default.pod AAAA", "@ 5 ::1"},
		{"1-2-3-4-5-6-7-8.default.pod AAAA", "@ 5 1:2:3:4:5:6:7:8"},
		{"10-1-2-3.no.pod A", missing},
		{"10-1-2-300.default.pod A", missing},
		{"10-1-2.default.pod A", missing},
		{"web.default.pod A", missing},
		{"default.pod A", none},
		{"no.pod A", missing},
		{"x.10-1-2-3.default.pod A", "@ 5 10.1.2.3"},
		{`10-1-2-3\.default.pod A`, missing},
		{`x\.10-1-2-3.default.pod A`, missing},

		// The zone itself.
		{" A", none},
		{" AAAA", none},
		{" SRV", none},
		{" MX", none},
		{" CNAME", none},
		{" TXT", missing},
		{" SOA", "cluster.local. 5 SOA ns.dns.cluster.local. hostmaster.cluster.local. 7200 1800 86400 5"},
		{" NS", "@ 5 2 kube-dns.kube-system.svc.cluster.local.; +kube-dns.kube-system.svc.cluster.local. 5 10.96.0.10"},
		{" AXFR", "REFUSED"},
		{" IXFR", "REFUSED"},
		{"web.default.svc AXFR", "REFUSED"},
		{"svc A", none},
		{"svc NS", none},
		{"pod A", none},
		{"default.svc A", none},
		{"default.svc NS", none},
		{"no.svc A", missing},
		{"no.svc NS", missing},
		{"x A", missing},
		{"svcs A", missing},
		{"x.y.z.default.web.svc A", missing},
		{"dns-version TXT", "@ 28800 TXT 1.1.0"},
		{"DNS-Version TXT", "@ 28800 TXT 1.1.0"},
		{"dns-version A", missing},
		{"x.dns-version TXT", missing},
		{"ns.dns A", "@ 5 10.96.0.10"},
		{"ns.dns AAAA", none},
		{"ns.dns SRV", none},
		{"ns.dns TXT", missing},
		{"ns.dns PTR", missing},
		{"dns A", missing},
		{`a\.svc A`, missing},

		// Reverse zones.
		{"1.1.96.10.in-addr.arpa. PTR", "@ 5 12 web.default.svc.cluster.local."},
		{"1.1.96.10.IN-ADDR.arpa. PTR", "@ 5 12 web.default.svc.cluster.local."},
		{"2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. PTR", "@ 5 12 dual.default.svc.cluster.local."},
		{"1.0.0.10.in-addr.arpa. PTR", "@ 5 12 10-0-0-1.web.default.svc.cluster.local."},
		{"3.0.0.10.in-addr.arpa. PTR", "@ 5 12 first.web.default.svc.cluster.local."},
		{"2.0.0.10.in-addr.arpa. PTR", notOurs}, // not ready
		{"2.1.0.10.in-addr.arpa. PTR", "@ 5 12 10-0-1-2.headless.default.svc.cluster.local."},
		{"9.9.9.9.in-addr.arpa. PTR", notOurs},
		{"1.1.96.10.in-addr.arpa. A", notOurs},
		{"1.96.10.in-addr.arpa. PTR", notOurs},
		{"01.1.96.10.in-addr.arpa. PTR", notOurs},
		{"0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. PTR", notOurs},
		{"20.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.ip6.arpa. PTR", notOurs},
		{"d.f.ip6.arpa. PTR", notOurs},
		{"web.default.svc.in-addr.arpa. A", notOurs},
		{"in-addr.arpa. PTR", "soa in-addr.arpa."},
		{"svc.in-addr.arpa. PTR", "soa in-addr.arpa."}, // as CoreDNS
		{"svc.ip6.arpa. PTR", "soa ip6.arpa."},
		{"1.1.96.::ffff:10.in-addr.arpa. PTR", notOurs},

		// Others.
		{"example.com. A", notOurs},
		{". NS", notOurs},
		{"local. A", notOurs},
		{"xcluster.local. A", notOurs},
		{`x\.cluster.local. A`, notOurs},
		{`x\\.cluster.local. A`, missing},
	}
	inWorld(t, func(t *testing.T, w *world, start func()) {
		fill(w)
		start()
		zone := w.zone(t, dns.Options{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.53")}})
		for _, test := range tests {
			name, kind, _ := strings.Cut(test.question, " ")
			if !strings.HasSuffix(name, ".") {
				name = strings.TrimPrefix(name+".cluster.local.", ".")
			}
			want := strings.ReplaceAll(strings.ReplaceAll(test.want, "@", name), "#", "headless.default.svc.cluster.local.")
			if got := ask(zone, name+" "+kind); got != sortAnswers(want) {
				t.Errorf("%s %s:\n got %s\nwant %s", name, kind, got, sortAnswers(want))
			}
		}
	})
}

// sortAnswers sorts what a table wants, as show does.
func sortAnswers(want string) string {
	rank := func(part string) int {
		switch {
		case strings.HasPrefix(part, "NXDOMAIN"), strings.HasPrefix(part, "REFUSED"):
			return 0
		case strings.HasPrefix(part, "+"):
			return 2
		case strings.HasPrefix(part, "follow "):
			return 3
		case strings.HasPrefix(part, "soa "):
			return 4
		}
		return 1
	}
	parts := strings.Split(want, "; ")
	for i := range parts {
		for j := i + 1; j < len(parts); j++ {
			if ri, rj := rank(parts[i]), rank(parts[j]); rj < ri || rj == ri && parts[j] < parts[i] {
				parts[i], parts[j] = parts[j], parts[i]
			}
		}
	}
	return strings.Join(parts, "; ")
}

func TestOptions(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, start func()) {
		fill(w)
		start()
		zone := w.zone(t, dns.Options{Domain: "Example.org.", TTL: 600, Reverse: []string{"10.in-addr.arpa"}, Addresses: []netip.Addr{
			netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("::ffff:192.0.2.54"),
		}})
		if zone.Domain() != "example.org." {
			t.Errorf("domain %s", zone.Domain())
		}
		for question, want := range map[string]string{
			"web.default.svc.example.org. A":   "web.default.svc.example.org. 600 10.96.1.1",
			"web.default.svc.cluster.local. A": "not ours",
			"1.1.96.10.in-addr.arpa. PTR":      "1.1.96.10.in-addr.arpa. 600 12 web.default.svc.example.org.",
			"1.1.96.11.in-addr.arpa. PTR":      "not ours",
			"d.f.ip6.arpa. SOA":                "not ours",
			"10.in-addr.arpa. SOA":             "10.in-addr.arpa. 300 SOA ns.dns.10.in-addr.arpa. hostmaster.10.in-addr.arpa. 7200 1800 86400 600",
			"example.org. NS":                  "example.org. 600 2 ns.dns.example.org.; +ns.dns.example.org. 600 192.0.2.53; +ns.dns.example.org. 600 192.0.2.54",
		} {
			if got := ask(zone, question); got != want {
				t.Errorf("%s:\n got %s\nwant %s", question, got, want)
			}
		}
		for _, o := range []dns.Options{{Domain: "a..b"}, {Domain: "-"}, {Reverse: []string{""}}} {
			if _, err := dns.New(w.index, o); !errors.Is(err, dns.ErrDomain) {
				t.Errorf("%v: %v", o, err)
			}
		}
		if _, err := dns.New(w.index, dns.Options{TTL: 3601}); err == nil {
			t.Error("a TTL of more than an hour")
		}
		if zone := w.zone(t, dns.Options{}); ask(zone, "cluster.local. NS") != "soa cluster.local." {
			t.Error("a server without addresses has a name")
		}
	})
}

// The server of a headless service is named by its endpoint.
func TestNameServersOfHeadlessService(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, start func()) {
		w.service("kube-system", "kube-dns", []string{"None"}, "dns/UDP/53", "dns-tcp/TCP/53")
		w.slice("kube-system", "kube-dns", "a", []string{"10.0.0.53", "10.0.0.54"}, "dns/UDP/53", "dns-tcp/TCP/53")
		w.slice("kube-system", "gone", "b", []string{"10.0.0.53"}, "dns/UDP/53")
		start()
		zone := w.zone(t, dns.Options{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.53")}})
		want := "cluster.local. 5 2 10-0-0-53.kube-dns.kube-system.svc.cluster.local.; cluster.local. 5 2 10-0-0-54.kube-dns.kube-system.svc.cluster.local.; " +
			"+10-0-0-53.kube-dns.kube-system.svc.cluster.local. 5 10.0.0.53; +10-0-0-54.kube-dns.kube-system.svc.cluster.local. 5 10.0.0.54"
		if got := ask(zone, "cluster.local. NS"); got != want {
			t.Errorf("got %s", got)
		}
	})
}

// What changes is answered at once, and the serial number says when it did.
func TestChanges(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, start func()) {
		zone := w.zone(t, dns.Options{})
		const web, missing = "web.default.svc.cluster.local. A", "NXDOMAIN; soa cluster.local."
		if got := ask(zone, web); got != "SERVFAIL; soa cluster.local." || w.index.Synced() {
			t.Errorf("before the informers run: %s", got)
		}
		if got := ask(zone, "svc.cluster.local. A"); got != "soa cluster.local." {
			t.Errorf("before the informers run, of what is always there: %s", got)
		}
		start()
		if got := ask(zone, web); got != missing || !w.index.Synced() {
			t.Errorf("an empty cluster: %s", got)
		}
		step := func(name string, change func(), wants map[string]string) {
			t.Helper()
			time.Sleep(time.Second)
			change()
			synctest.Wait()
			for question, want := range wants {
				if got := ask(zone, question); got != want {
					t.Errorf("%s: %s:\n got %s\nwant %s", name, question, got, want)
				}
			}
			a, _ := zone.Answer(dns.Question{Name: "cluster.local.", Type: dns.TypeSOA})
			if got := int64(a.Records[0].Authority.Serial); got != time.Now().Unix() {
				t.Errorf("%s: serial %d at %d", name, got, time.Now().Unix())
			}
		}
		w.namespace("default")
		ptr := func(last int) string { return fmt.Sprintf("%d.0.0.10.in-addr.arpa. PTR", last) }
		step("a service", func() { w.service("default", "web", []string{"10.0.0.1"}, "http/TCP/80") }, map[string]string{
			web: "web.default.svc.cluster.local. 5 10.0.0.1", ptr(1): "1.0.0.10.in-addr.arpa. 5 12 web.default.svc.cluster.local.",
		})
		step("another address", func() { w.service("default", "web", []string{"10.0.0.2"}, "http/TCP/80") }, map[string]string{
			web: "web.default.svc.cluster.local. 5 10.0.0.2", ptr(1): "not ours", ptr(2): "2.0.0.10.in-addr.arpa. 5 12 web.default.svc.cluster.local.",
		})
		step("headless", func() { w.service("default", "web", []string{"None"}, "http/TCP/80") }, map[string]string{web: missing, ptr(2): "not ours"})
		step("endpoints", func() { w.slice("default", "web", "x", []string{"10.0.0.3", "a=10.0.0.3", "10.0.0.4"}, "http/TCP/80") }, map[string]string{
			web:    "web.default.svc.cluster.local. 5 10.0.0.3; web.default.svc.cluster.local. 5 10.0.0.4",
			ptr(3): "3.0.0.10.in-addr.arpa. 5 12 10-0-0-3.web.default.svc.cluster.local.; 3.0.0.10.in-addr.arpa. 5 12 a.web.default.svc.cluster.local.",
			ptr(4): "4.0.0.10.in-addr.arpa. 5 12 10-0-0-4.web.default.svc.cluster.local.",
		})
		step("more endpoints", func() { w.slice("default", "web", "y", []string{"10.0.0.4"}, "http/TCP/80") }, map[string]string{
			web: "web.default.svc.cluster.local. 5 10.0.0.3; web.default.svc.cluster.local. 5 10.0.0.4",
		})
		step("fewer endpoints", func() { w.slice("default", "web", "x", []string{"!10.0.0.3", "!10.0.0.4"}, "http/TCP/80") }, map[string]string{
			web: "web.default.svc.cluster.local. 5 10.0.0.4", ptr(3): "not ours", ptr(4): "4.0.0.10.in-addr.arpa. 5 12 10-0-0-4.web.default.svc.cluster.local.",
		})
		step("of another service", func() { w.slice("default", "other", "y", []string{"10.0.0.4"}, "http/TCP/80") }, map[string]string{
			web: missing, ptr(4): "4.0.0.10.in-addr.arpa. 5 12 10-0-0-4.other.default.svc.cluster.local.",
		})
		step("no endpoints", func() { w.slices.Delete("default", "x"); w.slices.Delete("default", "y") }, map[string]string{ptr(4): "not ours"})
		step("no service", func() { w.services.Delete("default", "web") }, map[string]string{web: missing})
		w.index.Close()
		w.slice("default", "web", "z", []string{"10.0.0.9"}, "http/TCP/80")
		synctest.Wait()
		if got := ask(zone, ptr(9)); got != "not ours" {
			t.Errorf("after Close: %s", got)
		}
	})
}
