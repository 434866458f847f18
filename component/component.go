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

// Component is one part of a control plane that works with the API server. It is a value and may be copied.
type Component struct {
	// Name tells components apart, in errors and logs and in Without: upstream's, such as "deployment-controller".
	Name string
	// Identity is whom it acts as where that can be chosen, as in process.
	Identity *authn.Identity
	// Program is what its requests call it: the user agent, and so the field manager. Upstream's controllers all
	// share the name of their program. Empty is Name.
	Program string
	// Source is what its events call it. Empty is Name.
	Source string
	// Series tells that its events are of events.k8s.io, where repetitions are series, as the scheduler's are; others
	// are of core.
	Series bool
	// New makes it. It starts nothing, and what it returns waits for the informers that it reads.
	New func(p *Parts) (lifecycle.Runnable, error)
}

// ProgramName is Program, or the name where that is empty.
func (c Component) ProgramName() string {
	if c.Program != "" {
		return c.Program
	}
	return c.Name
}

// SourceName is Source, or the name where that is empty.
func (c Component) SourceName() string {
	if c.Source != "" {
		return c.Source
	}
	return c.Name
}

// ErrUnknown: there is no component of a name.
var ErrUnknown = errors.New("unknown component")

// ErrInvalid: components cannot be run as they are.
var ErrInvalid = errors.New("invalid components")

// Check finds what is wrong with a set: a component without a name or a constructor, or two of one name. Its error is
// ErrInvalid.
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

// Without returns the components but for those of the names. It fails with ErrUnknown for a name that none of them has.
func Without(all []Component, names ...string) ([]Component, error) {
	for _, name := range names {
		if !Has(all, name) {
			return nil, fmt.Errorf("%w %q: there are %s", ErrUnknown, name, strings.Join(Names(all), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(c Component) bool { return slices.Contains(names, c.Name) }), nil
}

// With returns the components with others beside them. One takes the place of that of its name.
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

// Has tells whether there is a component of the name.
func Has(all []Component, name string) bool {
	return slices.ContainsFunc(all, func(c Component) bool { return c.Name == name })
}

// Names are those of the components, in their order.
func Names(all []Component) []string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name
	}
	return names
}

// Parts are what a component is made of. All are set.
type Parts struct {
	// Client acts as the component.
	Client client.Client
	// Recorder publishes its events; it is run with the component.
	Recorder events.Recorder
	// Informers are shared with the other components of the process.
	Informers *Informers
	// Cluster is what is known of the cluster.
	Cluster Cluster
	// Pace is when it acts.
	Pace   *Pace
	Logger *slog.Logger
}

// Loop is the loop of a controller at the pace of the process.
func (p *Parts) Loop(c controllers.Controller) *controllers.Loop {
	return controllers.NewLoop(c, p.Pace.options(p.Logger))
}
