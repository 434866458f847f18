package dns_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/dns"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// large is a synced index of n services with one endpoint each, as in a cluster of n pods, and the bytes that it takes
// beside the informers' caches.
func large(tb testing.TB, n int) (*dns.Index, uint64) {
	tb.Helper()
	services, slices, namespaces := memory.New[*corev1.Service](), memory.New[*discoveryv1.EndpointSlice](), memory.New[*corev1.Namespace]()
	for i := range 50 {
		namespaces.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("ns", i)}})
	}
	for i := range n {
		meta := metav1.ObjectMeta{Namespace: fmt.Sprint("ns", i%50), Name: fmt.Sprint("service", i)}
		services.Put(&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			ClusterIPs: []string{fmt.Sprintf("10.96.%d.%d", i>>8, i&255)}, Ports: []corev1.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}},
		}})
		meta.Labels = map[string]string{discoveryv1.LabelServiceName: meta.Name}
		slices.Put(&discoveryv1.EndpointSlice{ObjectMeta: meta, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{fmt.Sprintf("10.0.%d.%d", i>>8, i&255)}}}})
	}
	in := dns.Sources{
		Services: informer.New(services, informer.Options{}), EndpointSlices: informer.New(slices, informer.Options{}),
		Namespaces: informer.New(namespaces, informer.Options{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 3)
	tb.Cleanup(func() {
		cancel()
		for range 3 {
			<-ended
		}
	})
	wait := func() {
		for _, synced := range []func(context.Context) error{in.Services.WaitSynced, in.EndpointSlices.WaitSynced, in.Namespaces.WaitSynced} {
			if err := synced(ctx); err != nil {
				tb.Fatal(err)
			}
		}
	}
	go func() { ended <- in.Services.Run(ctx) }()
	go func() { ended <- in.EndpointSlices.Run(ctx) }()
	go func() { ended <- in.Namespaces.Run(ctx) }()
	wait()
	before := heap()
	index := dns.NewIndex(in)
	wait()
	return index, heap() - before
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// An index is small beside the caches that it reads.
func TestMemory(t *testing.T) {
	const n = 10_000
	index, bytes := large(t, n)
	per := float64(bytes) / (3 * n) // services, slices and pods
	t.Logf("%.0f bytes for each object", per)
	if per > 100 {
		t.Errorf("%.0f bytes for each object", per)
	}
	runtime.KeepAlive(index)
}

func BenchmarkAnswer(b *testing.B) {
	index, _ := large(b, 10_000)
	zone, err := dns.New(index, dns.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for name, q := range map[string]dns.Question{
		"service": {Name: "service5000.ns0.svc.cluster.local.", Type: dns.TypeA},
		"missing": {Name: "example.com.ns0.svc.cluster.local.", Type: dns.TypeA},
		"address": {Name: "1.1.0.10.in-addr.arpa.", Type: dns.TypePTR},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := zone.Answer(q); !ok {
					b.Fatal("no answer")
				}
			}
		})
	}
}
