package server_test

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"

	wire "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/dns"
	"github.com/keelson-dev/keelson/dns/server"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// zone is a zone of a few services, whose informers run while the test does.
func zone(tb testing.TB, slices ...*discoveryv1.EndpointSlice) *dns.Zone {
	tb.Helper()
	services, endpoints, namespaces := memory.New[*corev1.Service](), memory.New[*discoveryv1.EndpointSlice](), memory.New[*corev1.Namespace]()
	namespaces.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	put := func(name string, spec corev1.ServiceSpec) {
		services.Put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec})
	}
	ports := []corev1.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}}
	put("web", corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1"}, Ports: ports})
	put("many", corev1.ServiceSpec{ClusterIPs: []string{"None"}, Ports: ports})
	put("out", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"})
	for _, s := range slices {
		endpoints.Put(s)
	}
	in := dns.Sources{
		Services: informer.New(services, informer.Options{}), EndpointSlices: informer.New(endpoints, informer.Options{}),
		Namespaces: informer.New(namespaces, informer.Options{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	tb.Cleanup(func() { cancel(); wg.Wait() })
	index := dns.NewIndex(in)
	wg.Go(func() { _ = in.Services.Run(ctx) })
	wg.Go(func() { _ = in.EndpointSlices.Run(ctx) })
	wg.Go(func() { _ = in.Namespaces.Run(ctx) })
	for _, wait := range []func(context.Context) error{in.Services.WaitSynced, in.EndpointSlices.WaitSynced, in.Namespaces.WaitSynced} {
		if err := wait(ctx); err != nil {
			tb.Fatal(err)
		}
	}
	z, err := dns.New(index, dns.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return z
}

// endpoints is a slice of n endpoints of the service many.
func endpoints(n int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "many", Labels: map[string]string{discoveryv1.LabelServiceName: "many"},
	}}
	s.Ports = []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(80))}}
	for i := range n {
		at := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{at.String()}})
	}
	return s
}

// serve runs a server on sockets of the loopback interface until the test ends, and returns their address.
func serve(tb testing.TB, z *dns.Zone, o server.Options) (*server.Server, string) {
	tb.Helper()
	packets, err := new(net.ListenConfig).ListenPacket(context.Background(), "udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", packets.LocalAddr().String())
	if err != nil {
		tb.Skip("another program has the port: ", err)
	}
	o.Packets, o.Listeners = append(o.Packets, packets), append(o.Listeners, listener)
	s, err := server.New(z, o)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			tb.Errorf("Run: %v", err)
		}
	})
	return s, packets.LocalAddr().String()
}

// question is a question as clients ask it.
func question(name string, kind uint16) *wire.Msg {
	return new(wire.Msg).SetQuestion(name, kind)
}

// exchange asks a server.
func exchange(tb testing.TB, network, at string, q *wire.Msg) *wire.Msg {
	tb.Helper()
	c := &wire.Client{Net: network, UDPSize: wire.MaxMsgSize}
	answer, _, err := c.Exchange(q, at)
	if err != nil {
		tb.Fatalf("%s %v: %v", network, q.Question, err)
	}
	return answer
}

// ask asks a server in process, as over TCP.
func ask(tb testing.TB, s *server.Server, q *wire.Msg) *wire.Msg {
	tb.Helper()
	conn := &wire.Conn{Conn: s.Connect()}
	defer func() { _ = conn.Close() }()
	if err := conn.WriteMsg(q); err != nil {
		tb.Fatal(err)
	}
	answer, err := conn.ReadMsg()
	if err != nil {
		tb.Fatal(err)
	}
	return answer
}
