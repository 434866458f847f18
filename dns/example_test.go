package dns_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/dns"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

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
	zone, err := dns.New(index, dns.Options{Domain: "cluster.local"})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = in.Services.Run(ctx) }()
	go func() { _ = in.EndpointSlices.Run(ctx) }()
	go func() { _ = in.Namespaces.Run(ctx) }()
	for _, synced := range []func(context.Context) error{in.Services.WaitSynced, in.EndpointSlices.WaitSynced, in.Namespaces.WaitSynced} {
		if err := synced(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, question := range []dns.Question{
		{Name: "cart.shop.svc.cluster.local.", Type: dns.TypeA},
		{Name: "1.7.96.10.in-addr.arpa.", Type: dns.TypePTR},
		{Name: "book.shop.svc.cluster.local.", Type: dns.TypeA},
	} {
		answer, _ := zone.Answer(question)
		for _, record := range answer.Records {
			switch record.Type {
			case dns.TypeA:
				fmt.Println(record.Name, record.TTL, "A", record.Address)
			case dns.TypePTR:
				fmt.Println(record.Name, record.TTL, "PTR", record.Target)
			}
		}
		if answer.Code == dns.NameError {
			fmt.Println(question.Name, "does not exist")
		}
	}
	// Output:
	// cart.shop.svc.cluster.local. 5 A 10.96.7.1
	// 1.7.96.10.in-addr.arpa. 5 PTR cart.shop.svc.cluster.local.
	// book.shop.svc.cluster.local. does not exist
}
