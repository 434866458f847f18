//go:build !linux

// Keeps the module compiling where containerd cannot run. New works there, everything else says why it does not.

package containerd

import (
	"context"

	"github.com/keelson-dev/keelson/node/nodetools"
)

type process struct{ PID int }

func (process) alive() bool                { return false }
func (process) otherBoot() bool            { return false }
func (process) kill() error                { return nil }
func (process) terminate() error           { return nil }
func (process) wait(context.Context) error { return nil }

func (d *Daemon) daemons() ([]process, error) { return nil, nil }

func mayLowerOOM() bool     { return false }
func mountRun(string) error { return nodetools.Supported(context.Background()) }

func (d *Daemon) launch() (process, error) { return process{}, mountRun("") }

// Destroy has nothing to remove.
func (d *Daemon) Destroy(context.Context) error { return nil }

// Leftovers finds nothing.
func (d *Daemon) Leftovers(context.Context) ([]string, error) { return nil, nil }

// Strays finds nothing.
func (d *Daemon) Strays(func(id string) bool) ([]string, error) { return nil, nil }

// Tasks finds nothing.
func (d *Daemon) Tasks() (map[string]bool, error) { return nil, nil }

// EndTasks has nothing to end.
func (d *Daemon) EndTasks(context.Context, string) error { return nil }

// Clear has nothing to remove.
func (d *Daemon) Clear(context.Context, string) error { return nil }
