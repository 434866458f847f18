package main

import (
	"testing"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// The limits are upstream's recorded times; without a record there are none.
func TestLimitsAreUpstreams(t *testing.T) {
	rows := []evidence.Peer{
		{Name: "containers-3-ready", Upstream: 400}, {Name: "containers-3-gone", Upstream: 1500},
		{Name: "containers-30-ready", Upstream: 4000}, {Name: "containers-30-gone", LeftOut: "no kubelet"},
	}
	passed := evidence.Verdict{Passed: true}
	for name, c := range map[string]struct {
		of   evidence.Result
		want [2]size
	}{
		"recorded":       {evidence.Result{Verdict: passed, Peers: rows}, [2]size{{3, 400, 1500}, {30, 4000, 0}}},
		"a run failed":   {evidence.Result{Peers: rows}, [2]size{{replicas: 3}, {replicas: 30}}},
		"never measured": {evidence.Result{}, [2]size{{replicas: 3}, {replicas: 30}}},
	} {
		if got := [2]size(sizes(c.of)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
