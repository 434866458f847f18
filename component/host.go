package component

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events/publish"
	"github.com/keelson-dev/keelson/lifecycle"
)

// Host is the environment of components: a process and its connection to an API server.
type Host struct {
	// Connect makes a client that acts as the identity, if that can be chosen, with the program's name as its user
	// agent.
	Connect   func(id *authn.Identity, program string) (client.Client, error)
	Informers *Informers
	Cluster   Cluster
	Pace      *Pace
	// Grace is how long to continue publishing events after the end, as in publish.Options.
	Grace  time.Duration
	Logger *slog.Logger
}

// Make makes a component, with a client and a recorder of its own. The Runnable runs it and publishes its events; the
// caller runs the host's Informers.
func (h *Host) Make(c Component) (lifecycle.Runnable, error) {
	api, err := h.Connect(c.Identity, c.ProgramName())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	publisher := publish.New
	if c.Series {
		publisher = publish.NewSeries
	}
	recorder := publisher(api, publish.Options{Component: c.SourceName(), Logger: h.Logger, Grace: h.Grace})
	run, err := c.New(&Parts{Client: api, Recorder: recorder, Informers: h.Informers, Cluster: h.Cluster, Pace: h.Pace, Logger: h.Logger})
	if err == nil {
		err = h.Informers.Err() // constructors may leave the check to us
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return lifecycle.Group(recorder, run), nil
}
