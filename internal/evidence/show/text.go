package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// text describes a result in a sentence or two. Results without a text of their own only say where they are from.
func text(r evidence.Result) string {
	if r.Name == "peers" {
		return "\n" + beside(r) + "\n\n"
	}
	return "\n" + origin(r) + "\n\n"
}

// beside compares starts and memory with upstream's.
func beside(r evidence.Result) string {
	if !r.Passed {
		return "How upstream compares is not known: the last run of `make bench-peers` failed."
	}
	rows := map[string]evidence.Peer{}
	for _, p := range r.Peers {
		if p.LeftOut == "" {
			rows[p.Name] = p
		}
	}
	var said []string
	if p, ok := rows["start"]; ok {
		said = append(said, fmt.Sprintf("from the start of the processes to a user's first pod upstream's take %s, keelson's one %s", rounded(p.Upstream, p.Unit), rounded(p.Keelson, p.Unit)))
	}
	if p, ok := rows["memory"]; ok {
		said = append(said, fmt.Sprintf("a minute after a little use upstream's hold %s of memory, keelson's one %s", rounded(p.Upstream, p.Unit), rounded(p.Keelson, p.Unit)))
	}
	return fmt.Sprintf("For comparison, Kubernetes %s on etcd %s, both run side by side with `examples/cluster` (API server, controller manager, scheduler and etcd there, "+
		"one process here): %s. All of it is [below](#beside-upstream).", r.Versions["kubernetes"], r.Versions["etcd"], strings.Join(said, "; "))
}

// rounded is a value for people: three digits, with a thousands separator.
func rounded(v float64, unit string) string {
	if v <= 0 {
		return fmt.Sprintf("0 %s", unit)
	}
	scale := math.Pow(10, math.Floor(math.Log10(v))-2)
	v = math.Round(v/scale) * scale
	if v >= 1000 {
		return fmt.Sprintf("%d,%03d %s", int(v)/1000, int(v)%1000, unit)
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}
