package main

import (
	"context"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
)

// keelson runs examples/cluster as it comes, but for nodes and audit log.
type keelson struct{ program clusterprocess.Program }

func (k keelson) start(ctx context.Context, dir string) (*plane, error) {
	// It outlives Ctrl-C, to end in good order.
	p, err := k.program.Start(context.WithoutCancel(ctx), dir, "--nodes", "0", "--audit-log", "")
	if err != nil {
		return nil, err
	}
	config, err := p.Config()
	return &plane{config: config, processes: func() ([]int, error) { return []int{p.PID()}, nil }, stop: p.Interrupt}, err
}
