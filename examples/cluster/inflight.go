package main

import (
	"cmp"
	"flag"
	"fmt"

	"github.com/keelson-dev/keelson/cluster"
)

// inflight holds the flags that limit concurrent requests. They are kube-apiserver's, where only their sum counts.
type inflight struct{ reading, writing int }

const (
	maxReading = 400
	maxWriting = 200
)

func (i *inflight) define(f *flag.FlagSet) {
	f.IntVar(&i.reading, "max-requests-inflight", maxReading, "")
	f.IntVar(&i.writing, "max-mutating-requests-inflight", maxWriting, "")
}

func (i *inflight) check() error {
	for _, c := range []struct {
		name  string
		value int
	}{{"--max-requests-inflight", i.reading}, {"--max-mutating-requests-inflight", i.writing}} {
		if c.value < 0 {
			return fmt.Errorf("%s %d: choose how many, or 0 in both for no limit", c.name, c.value)
		}
	}
	return nil
}

func (i *inflight) apply(o *cluster.Server) {
	o.Seats = cmp.Or(i.reading+i.writing, -1)
}
