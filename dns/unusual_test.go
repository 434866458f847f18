package dns_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/dns"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// Objects that controllers do not make, and many of those that they do.
func TestUnusual(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, start func()) {
		w.namespace("default")
		w.service("default", "web", []string{"10.96.1.1", "10.96.1.1"}, "http/TCP/80")
		w.service("default", "bad", []string{"x"}, "http/TCP/80")
		w.service("default", "half", []string{"x", "10.96.1.2", "::ffff:10.96.1.3"}, "http/TCP/80")
		w.external("default", "nameless", "")
		w.external("default", "dotted", "example.com.")
		w.services.Put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}, Spec: corev1.ServiceSpec{ClusterIP: "None"}})
		w.slice("default", "old", "old-1", []string{"10.0.0.1"}, "http/TCP/80")
		w.services.Put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pending"}, Spec: corev1.ServiceSpec{ClusterIP: ""}})
		w.slice("default", "pending", "pending-1", []string{"10.0.0.1"}, "http/TCP/80")
		// Names by which somebody else resolves, and addresses that are none.
		w.service("default", "named", []string{"None"}, "http/TCP/80")
		w.slices.Put(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "named-1", Labels: map[string]string{discoveryv1.LabelServiceName: "named"}},
			AddressType: discoveryv1.AddressTypeFQDN, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.7"}}},
		})
		w.slice("default", "named", "named-2", []string{"example.com", "10.0.0.8"}, "http/TCP/80")
		// Ports of which nothing is said.
		w.service("default", "any", []string{"None"})
		w.slices.Put(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "any-1", Labels: map[string]string{discoveryv1.LabelServiceName: "any"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.9"}, Hostname: new("")}},
			Ports: []discoveryv1.EndpointPort{{}, {Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(80))}},
		})
		var addresses []string
		for i := range 150 {
			addresses = append(addresses, fmt.Sprint("10.1.0.", i+1))
		}
		w.service("default", "many", []string{"None"}, "http/TCP/80")
		w.slice("default", "many", "many-1", addresses, "http/TCP/80")
		w.slice("default", "many", "many-2", addresses, "http/TCP/80")
		w.service("default", "some", []string{"None"}, "http/TCP/80")
		w.slice("default", "some", "some-1", append(addresses[:16:16], addresses[0]), "http/TCP/80")
		w.external("default", "chain-12", "web.default.svc.cluster.local")
		for i := range 12 {
			w.external("default", fmt.Sprint("chain-", i), fmt.Sprintf("chain-%d.default.svc.cluster.local", i+1))
		}
		start()
		zone := w.zone(t, dns.Options{TTL: 3600})
		for question, want := range map[string]string{
			"web.default.svc A":                "web.default.svc.cluster.local. 3600 10.96.1.1",
			"web.default.svc SRV":              "web.default.svc.cluster.local. 3600 SRV 50 80 web.default.svc.cluster.local.; +web.default.svc.cluster.local. 3600 10.96.1.1",
			"bad.default.svc A":                "NXDOMAIN; soa cluster.local.",
			"half.default.svc A":               "half.default.svc.cluster.local. 3600 10.96.1.2; half.default.svc.cluster.local. 3600 10.96.1.3",
			"nameless.default.svc A":           "NXDOMAIN; soa cluster.local.",
			"dotted.default.svc CNAME":         "dotted.default.svc.cluster.local. 3600 5 example.com.",
			"_http.dotted.default.svc CNAME":   "NXDOMAIN; soa cluster.local.",
			"_._tcp.dotted.default.svc CNAME":  "NXDOMAIN; soa cluster.local.",
			"_http._.dotted.default.svc CNAME": "NXDOMAIN; soa cluster.local.",
			"old.default.svc A":                "old.default.svc.cluster.local. 3600 10.0.0.1",
			"pending.default.svc A":            "NXDOMAIN; soa cluster.local.",
			"named.default.svc A":              "named.default.svc.cluster.local. 3600 10.0.0.8",
			"named.default.svc SRV":            "named.default.svc.cluster.local. 3600 SRV 100 80 10-0-0-8.named.default.svc.cluster.local.; +10-0-0-8.named.default.svc.cluster.local. 3600 10.0.0.8",
			"any.default.svc A":                "any.default.svc.cluster.local. 3600 10.0.0.9",
			"any.default.svc SRV":              "any.default.svc.cluster.local. 3600 SRV 50 80 10-0-0-9.any.default.svc.cluster.local.; +10-0-0-9.any.default.svc.cluster.local. 3600 10.0.0.9",
			"_http._tcp.any.default.svc A":     "_http._tcp.any.default.svc.cluster.local. 3600 10.0.0.9",
			"_x._tcp.any.default.svc A":        "NXDOMAIN; soa cluster.local.",
			"chain-1.default.svc AAAA":         "soa cluster.local.",
			"chain-1.default.svc SRV":          "soa cluster.local.",
			"ns.dns CNAME":                     "soa cluster.local.",
		} {
			name, kind, _ := strings.Cut(question, " ")
			if got := ask(zone, name+".cluster.local. "+kind); got != want {
				t.Errorf("%s:\n got %s\nwant %s", question, got, want)
			}
		}
		for name, want := range map[string]struct {
			kind           dns.Type
			records, extra int
			weight         uint16
		}{
			"many":     {dns.TypeA, 150, 0, 0},
			"some":     {dns.TypeA, 16, 0, 0},
			"":         {dns.TypeSRV, 150, 150, 1},
			"chain-0":  {dns.TypeA, 0, 0, 0},
			"chain-1":  {dns.TypeA, 0, 0, 0},
			"chain-2":  {dns.TypeA, 12, 0, 0},
			"chain-12": {dns.TypeA, 2, 0, 0},
		} {
			if name == "" {
				name = "many"
			}
			a, ok := zone.Answer(dns.Question{Name: name + ".default.svc.cluster.local.", Type: want.kind})
			if !ok || len(a.Records) != want.records || len(a.Extra) != want.extra || want.weight > 0 && a.Records[0].Weight != want.weight {
				t.Errorf("%s: %d records, %d extra: %s", name, len(a.Records), len(a.Extra), show(a))
			}
		}
		const mapped = "3.0.1.0.0.6.a.0.f.f.f.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa."
		for question, want := range map[string]string{
			"1.1.96.10.in-addr.arpa. PTR": "1.1.96.10.in-addr.arpa. 3600 12 web.default.svc.cluster.local.",
			"7.0.0.10.in-addr.arpa. PTR":  "7.0.0.10.in-addr.arpa. 3600 12 10-0-0-7.named.default.svc.cluster.local.",
			mapped + " PTR":               "not ours",
			strings.Replace(mapped, "3.0.1.0.0.6.a.0.", "1.0.1.0.0.6.a.0.", 1) + " PTR": "1.0.1.0.0.6.a.0.f.f.f.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa. 3600 12 web.default.svc.cluster.local.",
			"0" + mapped + " PTR":                        "not ours",
			strings.Replace(mapped, ".", "x", 1) + "PTR": "not ours",
			"1.1.1.96.10.in-addr.arpa. PTR":              "not ours",
			"256.1.96.10.in-addr.arpa. PTR":              "not ours",
		} {
			if got := ask(zone, question); got != want {
				t.Errorf("%s:\n got %s\nwant %s", question, got, want)
			}
		}
	})
}

// The servers are the services of all their addresses, which may have several addresses themselves.
func TestNameServers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, start func()) {
		w.namespace("kube-system")
		w.service("kube-system", "kube-dns", []string{"10.96.0.10", "fd00::10"}, "dns/UDP/53")
		w.slice("kube-system", "kube-dns", "a", []string{"10.0.0.53", "10.0.0.54"}, "dns/UDP/53")
		start()
		zone := w.zone(t, dns.Options{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.53"), netip.MustParseAddr("10.0.0.54"), netip.MustParseAddr("10.0.0.55")}})
		const name = "kube-dns.kube-system.svc.cluster.local."
		for question, want := range map[string]string{
			"cluster.local. NS":          "cluster.local. 5 2 " + name + "; +" + name + " 5 10.96.0.10; +" + name + " 5 fd00::10",
			"ns.dns.cluster.local. A":    "ns.dns.cluster.local. 5 10.96.0.10",
			"ns.dns.cluster.local. AAAA": "ns.dns.cluster.local. 5 fd00::10",
			"in-addr.arpa. NS":           "in-addr.arpa. 5 2 kube-dns.kube-system.svc.in-addr.arpa.; +kube-dns.kube-system.svc.in-addr.arpa. 5 10.96.0.10; +kube-dns.kube-system.svc.in-addr.arpa. 5 fd00::10",
		} {
			if got := ask(zone, question); got != want {
				t.Errorf("%s:\n got %s\nwant %s", question, got, want)
			}
		}
		// A service that is gone does not make the server nameless.
		w.services.Delete("kube-system", "kube-dns")
		synctest.Wait()
		if got := ask(zone, "cluster.local. NS"); got != "soa cluster.local." {
			t.Errorf("without the service: %s", got)
		}
	})
}

// Endpoints of several services have one address, and any of them may go first.
func TestSharedAddress(t *testing.T) {
	for _, order := range []string{"a b c", "a c b", "b a c", "b c a", "c a b", "c b a"} {
		inWorld(t, func(t *testing.T, w *world, start func()) {
			namespaces := map[string]string{"a": "other", "b": "default", "c": "default"}
			for name, namespace := range namespaces {
				w.slice(namespace, name, name, []string{"10.0.0.1"}, "http/TCP/80")
			}
			start()
			zone := w.zone(t, dns.Options{})
			left := []string{"b.default", "c.default", "a.other"} // ordered by namespace
			for _, gone := range append([]string{""}, strings.Fields(order)...) {
				if gone != "" {
					w.slices.Delete(namespaces[gone], gone)
					synctest.Wait()
					left = slices.DeleteFunc(left, func(name string) bool { return strings.HasPrefix(name, gone) })
				}
				a, _ := zone.Answer(dns.Question{Name: "1.0.0.10.in-addr.arpa.", Type: dns.TypePTR})
				var got []string
				for _, r := range a.Records {
					got = append(got, strings.TrimSuffix(strings.TrimPrefix(r.Target, "10-0-0-1."), ".svc.cluster.local."))
				}
				if !slices.Equal(got, left) {
					t.Errorf("%s, without %q: %v, want %v", order, gone, got, left)
				}
			}
		})
	}
}

// What is not found may exist as long as any informer has not read all.
func TestSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := dns.Sources{
			Services:       informer.New(memory.New[*corev1.Service](), informer.Options{}),
			EndpointSlices: informer.New(memory.New[*discoveryv1.EndpointSlice](), informer.Options{}),
			Namespaces:     informer.New(memory.New[*corev1.Namespace](), informer.Options{}),
		}
		index := dns.NewIndex(in)
		defer index.Close()
		for i, run := range []func(){
			func() { _ = in.Namespaces.Run(t.Context()) }, func() { _ = in.EndpointSlices.Run(t.Context()) }, func() { _ = in.Services.Run(t.Context()) },
		} {
			if index.Synced() {
				t.Errorf("it knows all by %d informers", i)
			}
			go run()
			synctest.Wait()
		}
		if !index.Synced() {
			t.Error("it does not know all")
		}
	})
}

// The serial number does not grow by what is only read again.
func TestSerial(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, start func()) {
		w.service("default", "web", []string{"10.96.1.1"}, "http/TCP/80")
		start()
		zone := w.zone(t, dns.Options{})
		serial := func() uint32 {
			a, _ := zone.Answer(dns.Question{Name: "cluster.local.", Type: dns.TypeSOA})
			return a.Records[0].Authority.Serial
		}
		before := serial()
		time.Sleep(time.Minute)
		w.namespace("default")
		synctest.Wait()
		if after := serial(); after != before {
			t.Errorf("%d after %d", after, before)
		}
	})
}
