package core_test

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/wal"
)

// BenchmarkServiceCreate creates services without addresses, with a cluster IP, and with a node port, too, from
// one client and from many, in memory and on disk.
func BenchmarkServiceCreate(b *testing.B) {
	stores := map[string]func(b *testing.B) storage.Store{
		"memory": func(*testing.B) storage.Store { return memory.New(memory.Options{}) },
		"wal": func(b *testing.B) storage.Store {
			s, err := wal.Open(b.TempDir(), wal.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() })
			return s
		},
	}
	for _, where := range []string{"memory", "wal"} {
		for _, what := range []string{"nothing", "ClusterIP", "NodePort"} {
			for _, clients := range []int{1, 64} {
				b.Run(fmt.Sprintf("%s/%s/clients=%d", where, what, clients), func(b *testing.B) {
					benchmarkServiceCreate(b, stores[where](b), what, clients)
				})
			}
		}
	}
}

func benchmarkServiceCreate(b *testing.B, store storage.Store, what string, clients int) {
	networks := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}
	ports, err := allocation.NewPorts(store, allocation.PortRange{First: 1, Size: 65535})
	if err != nil {
		b.Fatal(err)
	}
	var o core.Options
	if what != "nothing" {
		o.Services = core.Services{Networks: networks, NodePorts: ports}
	}
	r, err := registry.New(store, slices.Concat(core.Kinds(o), networking.Kinds()), registry.Options{})
	if err != nil {
		b.Fatal(err)
	}
	run(b, r)
	if _, err := r.Access().Create(b.Context(), cidrs(), networking.Default(networks)); err != nil {
		b.Fatal(err)
	}
	services, _ := r.Resource(schema.GroupResource{Resource: "services"})
	kind := corev1.ServiceTypeClusterIP
	if what == "NodePort" {
		kind = corev1.ServiceTypeNodePort
	}
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(clients)
	create := func() {
		i := n.Add(1)
		if kind == corev1.ServiceTypeNodePort && i > 60000 {
			return // no ports are left
		}
		svc := withType(fmt.Sprintf("s%d", i), kind)
		svc.Spec.Ports = svc.Spec.Ports[:1]
		services.Rules.Default(svc)
		if _, err := services.Create(b.Context(), svc, registry.CreateOptions{}); err != nil {
			b.Error(err)
		}
	}
	if clients == 1 {
		for b.Loop() {
			create()
		}
		return
	}
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			create()
		}
	})
}
