package cluster_test

import (
	"runtime"
	"testing"

	"github.com/keelson-dev/keelson/cluster"
)

// BenchmarkIdleNodes tells what each simulated node costs that nothing runs on.
func BenchmarkIdleNodes(b *testing.B) {
	const count = 1000
	for b.Loop() {
		before, routines := heap()
		c, err := cluster.Start(b.Context(), cluster.Options{Nodes: cluster.Nodes{Count: count}})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.WaitNodes(b.Context()); err != nil {
			b.Fatal(err)
		}
		after, running := heap()
		b.ReportMetric(float64(after-before)/count, "B/node")
		b.ReportMetric(float64(running-routines)/count, "goroutines/node")
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// heap returns what is allocated, stacks included, and how many goroutines there are.
func heap() (bytes uint64, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
}
