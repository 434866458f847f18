package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/nftables"
)

// tables are so many services of so many endpoints each.
func tables(services, endpoints int) proxy.Tables {
	t := proxy.Tables{
		Settings: proxy.Settings{Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}}, Services: make(map[proxy.Service][]proxy.Port, services),
	}
	for i := range services {
		var to []netip.AddrPort
		for n := range endpoints {
			to = append(to, netip.AddrPortFrom(endpoint(i*endpoints+n), 8080))
		}
		t.Services[proxy.Service{Namespace: namespace, Name: serviceName(i)}] = []proxy.Port{{
			Protocol: corev1.ProtocolTCP, ClusterIP: netip.AddrFrom4([4]byte{10, byte(96 + i>>16), byte(i >> 8), byte(i)}), Port: 80, //nolint:gosec // on purpose
			Cluster: to, Serving: to,
		}}
	}
	return t
}

// alone measures the writer of keelson at sizes at which upstream's proxy takes a quarter of an hour.
func alone(ctx context.Context) (figures []evidence.Figure, err error) {
	w, err := nftables.New(nftables.Options{Table: "keelson-alone"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Remove(context.WithoutCancel(ctx)), w.Close()) }()
	for _, size := range []struct {
		services, endpoints int
		limit               float64
	}{{10_000, 2, 2}, {44_000, 2, 10}, {5_000, 50, 20}} {
		all := tables(size.services, size.endpoints)
		var took []float64
		for range 3 {
			began := time.Now()
			if err := w.Sync(ctx, all); err != nil {
				return figures, err
			}
			took = append(took, time.Since(began).Seconds())
		}
		what := fmt.Sprintf("%d services of %d endpoints", size.services, size.endpoints)
		figures = append(figures, evidence.Figure{What: "first sync of the kernel, " + what, Of: "median", Value: median(took), Unit: "s", Limit: size.limit, Runs: len(took)})
		p50, p99, err := changes(ctx, w, all)
		if err != nil {
			return figures, err
		}
		figures = append(figures, evidence.Figure{What: "one endpoint changes until the kernel has it, p50, at " + what, Value: p50, Unit: "ms", Limit: 5},
			evidence.Figure{What: "the same, p99", Value: p99, Unit: "ms"})
		runtime.GC()
	}
	return figures, nil
}

// changes returns percentiles in ms.
func changes(ctx context.Context, w *nftables.Writer, all proxy.Tables) (p50, p99 float64, err error) {
	var took []time.Duration
	for i := range 1000 {
		name := proxy.Service{Namespace: namespace, Name: serviceName(i * 7919 % len(all.Services))}
		ports := slices.Clone(all.Services[name])
		ports[0].Cluster = append([]netip.AddrPort{netip.AddrPortFrom(endpoint(1<<20+i), 8080)}, ports[0].Cluster[1:]...)
		slices.SortFunc(ports[0].Cluster, netip.AddrPort.Compare)
		ports[0].Serving = ports[0].Cluster
		began := time.Now()
		if err := w.Update(ctx, map[proxy.Service][]proxy.Port{name: ports}); err != nil {
			return 0, 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	at := func(q int) float64 { return float64(took[len(took)*q/100].Microseconds()) / 1000 }
	return at(50), at(99), nil
}
