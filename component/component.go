package component

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/lifecycle"
)

// Component is one part of a control plane that uses the API server. It is a value and may be copied.
type Component struct {
	// Name identifies the component in errors, in logs and in Without: upstream's name, such as
	// "deployment-controller".
	Name string
	// Identity is the user it acts as where that can be chosen, as in process.
	Identity *authn.Identity
	// Program is its user agent, and therefore its field manager. Upstream's controllers all share the name of their
	// program. If empty, it is Name.
	Program string
	// Source is the source in its events. If empty, it is Name.
	Source string
	// Series is set if its events use events.k8s.io, where repetitions form series, like the scheduler's; other events
	// use the core API.
	Series bool
	// New makes the component. It starts nothing; the Runnable waits for the informers that it reads.
	New func(p *Parts) (lifecycle.Runnable, error)
}

// ProgramName returns Program, or Name if that is empty.
func (c Component) ProgramName() string {
	if c.Program != "" {
		return c.Program
	}
	return c.Name
}

// SourceName returns Source, or Name if that is empty.
func (c Component) SourceName() string {
	if c.Source != "" {
		return c.Source
	}
	return c.Name
}

// ErrUnknown means that there is no component of a given name.
var ErrUnknown = errors.New("unknown component")

// ErrInvalid means that a set of components cannot be run.
var ErrInvalid = errors.New("invalid components")

// Check fails with ErrInvalid if a component has no name or no constructor, or if two have the same name.
func Check(all []Component) error {
	for i, c := range all {
		switch {
		case c.Name == "":
			return fmt.Errorf("%w: number %d has no name", ErrInvalid, i)
		case c.New == nil:
			return fmt.Errorf("%w: %s has no New", ErrInvalid, c.Name)
		case Has(all[:i], c.Name):
			return fmt.Errorf("%w: two are called %s; With replaces one", ErrInvalid, c.Name)
		}
	}
	return nil
}

// Without returns the components except those with the given names. It fails with ErrUnknown for a name that none of
// them has.
func Without(all []Component, names ...string) ([]Component, error) {
	for _, name := range names {
		if !Has(all, name) {
			return nil, fmt.Errorf("%w %q: there are %s", ErrUnknown, name, strings.Join(Names(all), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(c Component) bool { return slices.Contains(names, c.Name) }), nil
}

// With returns the components followed by others. Each of the others replaces a component of the same name, if there is
// one.
func With(all []Component, others ...Component) []Component {
	out := slices.Clone(all)
	for _, c := range others {
		if i := slices.IndexFunc(out, func(o Component) bool { return o.Name == c.Name }); i >= 0 {
			out[i] = c
		} else {
			out = append(out, c)
		}
	}
	return out
}

// Has reports whether there is a component of that name.
func Has(all []Component, name string) bool {
	return slices.ContainsFunc(all, func(c Component) bool { return c.Name == name })
}

// Names returns the names of the components, in their order.
func Names(all []Component) []string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name
	}
	return names
}

// Parts are what a component is made from. All are set.
type Parts struct {
	// Client acts as the component.
	Client client.Client
	// Recorder publishes its events; it runs with the component.
	Recorder events.Recorder
	// Informers are shared with the other components of the process.
	Informers *Informers
	// Cluster is what is known about the cluster.
	Cluster Cluster
	// Pace controls when it acts.
	Pace   *Pace
	Logger *slog.Logger
}

// Loop returns the loop of a controller at the pace of the process.
func (p *Parts) Loop(c controllers.Controller) *controllers.Loop {
	return controllers.NewLoop(c, p.Pace.options(p.Logger))
}
