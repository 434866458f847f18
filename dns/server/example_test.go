package server_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/dns"
	"github.com/keelson-dev/keelson/dns/server"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// A server listens for pods, and its process resolves names by it.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	services, namespaces := memory.New[*corev1.Service](), memory.New[*corev1.Namespace]()
	namespaces.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	services.Put(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
		Spec:       corev1.ServiceSpec{ClusterIPs: []string{"10.96.7.1"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	})
	in := dns.Sources{
		Services:       informer.New(services, informer.Options{}),
		EndpointSlices: informer.New(memory.New[*discoveryv1.EndpointSlice](), informer.Options{}),
		Namespaces:     informer.New(namespaces, informer.Options{}),
	}
	index := dns.NewIndex(in)
	defer index.Close()
	go func() { _ = in.Services.Run(ctx) }()
	go func() { _ = in.EndpointSlices.Run(ctx) }()
	go func() { _ = in.Namespaces.Run(ctx) }()
	for _, synced := range []func(context.Context) error{in.Services.WaitSynced, in.EndpointSlices.WaitSynced, in.Namespaces.WaitSynced} {
		if err := synced(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	zone, err := dns.New(index, dns.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	socket, err := new(net.ListenConfig).ListenPacket(ctx, "udp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := server.New(zone, server.Options{
		Packets: []net.PacketConn{socket}, Upstreams: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()

	addresses, err := s.Resolver().LookupHost(ctx, "cart.shop.svc.cluster.local.")
	fmt.Println(addresses, err)
	cancel()
	fmt.Println(<-ran)
	// Output:
	// [10.96.7.1] <nil>
	// <nil>
}
