package auditconfig

import (
	"context"
	"sync"

	"github.com/keelson-dev/keelson/apiserver/metrics"
	"github.com/keelson-dev/keelson/cluster"
)

// extended is an Audit as a part of a cluster.
type extended struct{ audit *Audit }

var _ cluster.Measured = extended{}

// Prepare implements cluster.Extended.
func (extended) Prepare(context.Context) error { return nil }

// Collectors implements cluster.Measured.
func (e extended) Collectors() []metrics.Collector {
	var all []metrics.Collector
	for _, f := range e.audit.files {
		all = append(all, f.File)
	}
	return all
}

// Run reads the files again when they change, until ctx ends.
func (e extended) Run(ctx context.Context) error {
	var files sync.WaitGroup
	for _, f := range e.audit.files {
		files.Go(func() { f.Run(ctx, func(_ context.Context, text []byte) error { return f.use(text) }) })
	}
	<-ctx.Done()
	files.Wait()
	return nil
}
