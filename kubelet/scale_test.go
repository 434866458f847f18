package kubelet_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet"
)

// BenchmarkNodes runs 20 pods on each of 50 nodes, each with a kubelet and runtime of its own, in
// real time.
func BenchmarkNodes(b *testing.B) {
	const nodes, pods = 50, 20
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		var worlds []*world
		var runtimes []*simulated.Runtime
		for i := range nodes {
			w := newWorld(nil)
			rt := simulated.New(simulated.Options{})
			source := informer.New(w.pods, informer.Options{})
			k, err := kubelet.New(kubelet.Sources{Pods: source}, w, rt, nil, kubelet.Options{NodeName: fmt.Sprintf("n%d", i)})
			if err != nil {
				b.Fatal(err)
			}
			group.Go(func() { _ = source.Run(ctx) })
			group.Go(func() { _ = k.Run(ctx) })
			worlds, runtimes = append(worlds, w), append(runtimes, rt)
		}
		start := time.Now()
		for i, w := range worlds {
			for j := range pods {
				w.pods.Put(newPod(fmt.Sprintf("pod-%d", j), func(p *corev1.Pod) { p.Spec.NodeName = fmt.Sprintf("n%d", i) }))
			}
		}
		running := func() (n int) {
			for _, w := range worlds {
				for j := range pods {
					if p, ok := w.pods.Get("default", fmt.Sprintf("pod-%d", j)); ok && p.Status.Phase == corev1.PodRunning {
						n++
					}
				}
			}
			return n
		}
		for running() < nodes*pods {
			time.Sleep(time.Millisecond)
		}
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms-to-running")
		b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
		writes := 0
		for _, w := range worlds {
			writes += w.count("patch pods/status")
		}
		b.ReportMetric(float64(writes)/float64(nodes*pods), "writes/pod")
		cancel()
		group.Wait()
		for _, rt := range runtimes {
			rt.Close()
		}
	}
}
