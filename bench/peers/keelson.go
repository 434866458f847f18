package main

import (
	"context"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
)

// keelson runs examples/cluster with its defaults, but without nodes and audit log.
type keelson struct{ program clusterprocess.Program }

func (k keelson) start(ctx context.Context, dir string) (*plane, error) {
	// It is not stopped by Ctrl-C itself, to be able to stop gracefully.
	p, err := k.program.Start(context.WithoutCancel(ctx), dir, "--nodes", "0", "--audit-log", "")
	if err != nil {
		return nil, err
	}
	config, err := p.Config()
	return &plane{config: config, processes: func() ([]int, error) { return []int{p.PID()}, nil }, stop: p.Interrupt}, err
}
