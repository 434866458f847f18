package admit_test

import (
	"syscall"
	"testing"

	"github.com/keelson-dev/keelson/cluster/admit"
)

// BenchmarkPod is a pod through the plugins that are on by default. The CPU time is that of all cores, and includes the garbage
// collector's: other programs on the machine do not change it much.
func BenchmarkPod(b *testing.B) {
	w := start(b, admit.Options{}, "")
	web := pod("web")
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if r, err := w.Ask(b.Context(), admit.Request{Object: web}); err != nil || r.Refusal != nil || len(r.Steps) != 5 {
				b.Errorf("%+v %v", r, err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cases/s")
	b.ReportMetric((cpu(b)-before)/float64(b.N), "cpu-us/case")
}

// cpu returns the CPU time that this process has used, in microseconds.
func cpu(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
}
