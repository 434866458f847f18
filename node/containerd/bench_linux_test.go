package containerd_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/node/containerd/containerdtest"
)

// BenchmarkPod measures the life of a pod through CRI, one at a time and four at once, in median milliseconds of
// each step. Every pod has its sandbox, an address on a bridge and one container.
func BenchmarkPod(b *testing.B) {
	for name, side := range map[string]int{"alone": 1, "four": 4} {
		b.Run(name, func(b *testing.B) {
			c := connect(b, containerdtest.Start(b, containerdtest.Options{}))
			c.once(b, map[string][]time.Duration{}, &sync.Mutex{}) // caches
			var mu sync.Mutex
			steps := map[string][]time.Duration{}
			b.ResetTimer()
			var wg sync.WaitGroup
			turns := make(chan struct{}, side)
			for range b.N {
				turns <- struct{}{}
				wg.Go(func() {
					defer func() { <-turns }()
					c.once(b, steps, &mu)
				})
			}
			wg.Wait()
			for step, all := range steps {
				slices.Sort(all)
				b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, step+"-ms")
			}
		})
	}
}

// once lets a pod live and notes how long the steps took.
func (c client) once(b *testing.B, steps map[string][]time.Duration, mu *sync.Mutex) {
	ctx := b.Context()
	step := func(name string, do func()) {
		start := time.Now()
		do()
		took := time.Since(start)
		mu.Lock()
		defer mu.Unlock()
		steps[name] = append(steps[name], took)
	}
	var p *pod
	step("all", func() {
		step("sandbox", func() { p = c.sandbox(ctx, b, c.config(b)) })
		step("start", func() { c.start(ctx, b, p, &runtime.LinuxContainerSecurityContext{}) })
		step("exec", func() { c.exec(ctx, b, p, "true") })
		step("stop", func() { c.stop(ctx, b, p) })
		step("remove", func() { c.remove(ctx, b, p) })
	})
}
