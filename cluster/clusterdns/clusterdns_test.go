package clusterdns_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/clusterdns"
	"github.com/keelson-dev/keelson/dns/server"
	"github.com/keelson-dev/keelson/storage/memory"
)

func start(t *testing.T, d *clusterdns.DNS, o cluster.Options) kubernetes.Interface {
	t.Helper()
	o.Extensions = []cluster.Extension{d.Extension()}
	o.OnMutation = func(err error) { t.Error(err) }
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	cs, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// In a simulated cluster programs of the process resolve the names of services and pods.
func TestInProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := clusterdns.New(clusterdns.Options{})
		if _, err := d.Resolver(); !errors.Is(err, clusterdns.ErrNotMade) {
			t.Errorf("without a cluster: %v", err)
		}
		cs := start(t, d, cluster.Options{})
		service, err := cs.CoreV1().Services(clusterdns.Namespace).Get(t.Context(), clusterdns.Service, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if service.Spec.ClusterIP != "10.96.0.10" || d.Address().String() != "10.96.0.10" || d.Domain() != "cluster.local" || service.Labels["k8s-app"] != "kube-dns" ||
			service.Labels["kubernetes.io/name"] != "CoreDNS" || len(service.Spec.Selector) != 0 || len(service.Spec.Ports) != 2 {
			t.Errorf("the service: %v", service)
		}
		web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.7.7", Ports: []corev1.ServicePort{{Port: 80}}}}
		if _, err := cs.CoreV1().Services("default").Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s, err := d.Server(server.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for host, want := range map[string]string{
			"web.default.svc.cluster.local":          "10.96.7.7",
			"kube-dns.kube-system.svc.cluster.local": "10.96.0.10", "ns.dns.cluster.local": "10.96.0.10",
		} {
			got, err := s.LookupNetIP(t.Context(), host)
			if err != nil || !slices.Equal(got, []netip.Addr{netip.MustParseAddr(want)}) {
				t.Errorf("%s: %v, %v", host, got, err)
			}
		}
	})
}

// A server of a node is an endpoint of the service while it runs.
func TestServe(t *testing.T) {
	d := clusterdns.New(clusterdns.Options{Port: freePort(t), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	cs := start(t, d, cluster.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	sockets, err := d.Listen(ctx, netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Listen(ctx, netip.MustParseAddr("127.0.0.1")); err == nil {
		t.Error("two servers at one address")
	}
	at := sockets.Packets.LocalAddr().String()
	go func() { ran <- d.Serve(ctx, "node-0", netip.MustParseAddr("192.0.2.1"), sockets) }()
	want := func(endpoints int) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; {
			slice, err := cs.DiscoveryV1().EndpointSlices(clusterdns.Namespace).Get(t.Context(), clusterdns.Service, metav1.GetOptions{})
			if err == nil && len(slice.Endpoints) == endpoints {
				if endpoints == 1 && (slice.Endpoints[0].Addresses[0] != "192.0.2.1" || *slice.Endpoints[0].NodeName != "node-0" || *slice.Ports[0].Name != "dns" || *slice.Ports[1].Name != "dns-tcp") {
					t.Errorf("the slice: %v", slice)
				}
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%v, %v", slice, err)
			}
			time.Sleep(time.Millisecond)
		}
	}
	want(1)
	slice, err := cs.DiscoveryV1().EndpointSlices(clusterdns.Namespace).Get(t.Context(), clusterdns.Service, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if sockets.Listener.Addr().String() != at || int(*slice.Ports[0].Port) != sockets.Listener.Addr().(*net.TCPAddr).Port || *slice.Ports[1].Port != *slice.Ports[0].Port {
		t.Errorf("listening at %s and %s, listed %v", at, sockets.Listener.Addr(), slice.Ports)
	}
	for _, network := range []string{"udp", "tcp"} {
		q := new(wire.Msg).SetQuestion("kube-dns.kube-system.svc.cluster.local.", wire.TypeA)
		a, _, err := (&wire.Client{Net: network}).Exchange(q, at)
		if err != nil || len(a.Answer) != 1 || a.Answer[0].String() != "kube-dns.kube-system.svc.cluster.local.\t30\tIN\tA\t10.96.0.10" {
			t.Errorf("%s: %v, %v", network, a, err)
		}
	}
	q := new(wire.Msg).SetQuestion("cluster.local.", wire.TypeNS)
	for end := time.Now().Add(20 * time.Second); ; { // its index may not know the slice yet
		a, _, err := (&wire.Client{}).Exchange(q, at)
		if err == nil && len(a.Answer) == 1 && a.Answer[0].(*wire.NS).Ns == "kube-dns.kube-system.svc.cluster.local." {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the zone's server: %v, %v", a, err)
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	want(0)
}

// A cluster that starts again has the service already.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		for range 2 {
			d := clusterdns.New(clusterdns.Options{Address: netip.MustParseAddr("10.96.0.77"), Domain: "example.org"})
			c, err := cluster.Start(t.Context(), cluster.Options{Store: store, Extensions: []cluster.Extension{d.Extension()}})
			if err != nil {
				t.Fatal(err)
			}
			s, err := d.Server(server.Options{})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			got, err := s.LookupNetIP(t.Context(), "kube-dns.kube-system.svc.example.org")
			if err != nil || got[0].String() != "10.96.0.77" {
				t.Errorf("%v, %v", got, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestBadOptions(t *testing.T) {
	for _, o := range []clusterdns.Options{{Domain: "-"}, {TTL: 4000}} {
		if _, err := cluster.New(cluster.Options{Extensions: []cluster.Extension{clusterdns.New(o).Extension()}}); err == nil {
			t.Errorf("%v", o)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		d := clusterdns.New(clusterdns.Options{Address: netip.MustParseAddr("192.0.2.1")})
		if c, err := cluster.Start(t.Context(), cluster.Options{Extensions: []cluster.Extension{d.Extension()}}); err == nil {
			t.Error("an address outside of the network of services")
			_ = c.Close()
		}
	})
}

// freePort is a port that UDP and TCP have free.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).AddrPort().Port()
}
