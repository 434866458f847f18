package scheduler

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// DefaultSchedulerName is the spec.schedulerName of pods that do not choose a scheduler.
const DefaultSchedulerName = corev1.DefaultSchedulerName

// ErrProfile means that the Profile is invalid.
var ErrProfile = errors.New("invalid scheduler profile")

// Profile is a list of plugins that choose nodes, in the order in which they are called. It must not be changed
// once it is in use, and may then be used by many goroutines.
type Profile struct {
	// SchedulerName is the spec.schedulerName of the profile's pods; empty means DefaultSchedulerName.
	SchedulerName string
	// Plugins are called in order. The first predicate that refuses a node counts.
	Plugins []Enabled
	// Seed chooses between nodes of equal total. Each pair of a pod's and a node's name has a rank that depends
	// on the seed and nothing else, and the highest rank wins: evenly spread like upstream's random choice, but
	// the same in each run.
	Seed uint64
}

// Validate fails with ErrProfile if a plugin has no name, a duplicate name or no role, or if a weight is
// negative.
func (p *Profile) Validate() error {
	names := map[string]bool{}
	for _, e := range p.Plugins {
		if e.Plugin == nil || e.Plugin.Name() == "" {
			return fmt.Errorf("%w: a plugin without name", ErrProfile)
		}
		name := e.Plugin.Name()
		if names[name] {
			return fmt.Errorf("%w: two plugins %q", ErrProfile, name)
		}
		names[name] = true
		if e.Weight < 0 {
			return fmt.Errorf("%w: plugin %q has weight %d", ErrProfile, name, e.Weight)
		}
		if !refuses(e) && !follows(e) && e.Weight == 0 {
			return fmt.Errorf("%w: plugin %q has nothing to do, or only scores and no weight", ErrProfile, name)
		}
		if _, scores := e.Plugin.(Priority); e.Weight > 0 && !scores {
			return fmt.Errorf("%w: plugin %q has weight %d and no scores", ErrProfile, name, e.Weight)
		}
	}
	return nil
}

// refuses reports whether a plugin can be the reason why a pod waits.
func refuses(e Enabled) bool {
	return plays[Predicate](e, RolePredicate) || plays[Winnower](e, RolePredicate) || plays[preparingPredicate](e, RolePreparer) ||
		plays[Gate](e, RoleGate) || plays[Reserver](e, RoleReserver) || plays[Permitter](e, RolePermitter)
}

// plays reports whether a plugin can have a role, and has it.
func plays[T any](e Enabled, role Roles) bool {
	_, can := e.Plugin.(T)
	return can && e.has(role)
}

// follows reports whether a plugin has a role after the decision that cannot refuse a pod.
func follows(e Enabled) bool {
	return plays[PreBinder](e, RolePreBinder) || plays[Binder](e, RoleBinder) || plays[PostBinder](e, RolePostBinder) ||
		plays[Preemptor](e, RolePreemptor)
}

// roles are the deciding plugins of a profile, by role.
type roles struct {
	seed       uint64
	predicates []Predicate
	winnowers  []Winnower
	priorities []weighted
	raters     []Rater // of the priorities
}

type weighted struct {
	Priority
	weight int64
}

func (p *Profile) roles() *roles {
	r := &roles{
		seed:       p.Seed,
		predicates: make([]Predicate, 0, len(p.Plugins)),
		priorities: make([]weighted, 0, len(p.Plugins)),
	}
	for _, e := range p.Plugins {
		predicate, ok := e.Plugin.(Predicate)
		preparing, prepares := e.Plugin.(preparingPredicate)
		switch {
		case ok && e.has(RolePredicate):
			r.predicates = append(r.predicates, predicate)
		case prepares && e.has(RolePreparer):
			r.predicates = append(r.predicates, preparingOnly{preparing})
		}
		if winnower, ok := e.Plugin.(Winnower); ok && e.has(RolePredicate) {
			r.winnowers = append(r.winnowers, winnower)
		}
		if priority, ok := e.Plugin.(Priority); ok && e.Weight > 0 {
			r.priorities = append(r.priorities, weighted{priority, e.Weight})
			if rater, ok := e.Plugin.(Rater); ok {
				r.raters = append(r.raters, rater)
			}
		}
	}
	return r
}

// followers are the plugins of a profile that run after the decision, by role.
type followers struct {
	reservers   []Reserver
	permitters  []Permitter
	preBinders  []PreBinder
	binders     []Binder
	postBinders []PostBinder
	preemptors  []Preemptor
	// events are the kinds of events that may help any pod.
	events EventKind
}

func (p *Profile) followers() followers {
	return followers{
		reservers: of[Reserver](p, RoleReserver), permitters: of[Permitter](p, RolePermitter),
		preBinders: of[PreBinder](p, RolePreBinder), binders: of[Binder](p, RoleBinder),
		postBinders: of[PostBinder](p, RolePostBinder), preemptors: of[Preemptor](p, RolePreemptor),
		events: p.events(),
	}
}

// running is a profile at work in a Scheduler.
type running struct {
	profile Profile
	plugins followers
	planner *Planner
}

func run(p Profile) (*running, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	r := &running{profile: p, plugins: p.followers()}
	if len(r.plugins.binders) == 0 {
		return nil, fmt.Errorf("%w: no plugin binds pods", ErrProfile)
	}
	r.planner = NewPlanner(&r.profile)
	return r, nil
}

// runAll prepares profiles; the first is the main one.
func runAll(some []Profile) (profiles, error) {
	all := profiles{of: map[string]*running{}}
	for _, p := range some {
		at, err := run(p)
		if err != nil {
			return profiles{}, err
		}
		if all.of[p.schedulerName()] != nil {
			return profiles{}, fmt.Errorf("%w: duplicate profile with scheduler name %q", ErrProfile, p.schedulerName())
		}
		all.of[p.schedulerName()] = at
		all.kinds |= at.plugins.events
	}
	all.first = all.of[some[0].schedulerName()]
	return all, nil
}

// reserving reports whether any Reserver or Permitter has something to do for the pod.
func (f *followers) reserving(pod *corev1.Pod) bool {
	return len(f.permitters) > 0 || slices.ContainsFunc(f.reservers, func(r Reserver) bool { return !skips(r, pod) })
}

func skips(r Reserver, pod *corev1.Pod) bool {
	skipper, ok := r.(ReserveSkipper)
	return ok && skipper.SkipReserve(pod)
}

// preparing returns the PreBinders that have something to do for the pod.
func (f *followers) preparing(pod *corev1.Pod, node string) []PreBinder {
	var some []PreBinder
	for _, p := range f.preBinders {
		if skipper, ok := p.(PreBindSkipper); !ok || !skipper.SkipPreBind(pod, node) {
			some = append(some, p)
		}
	}
	return some
}

// of returns the plugins with one role.
func of[Role Plugin](p *Profile, role Roles) (plugins []Role) {
	for _, e := range p.Plugins {
		if plugin, ok := e.Plugin.(Role); ok && e.has(role) {
			plugins = append(plugins, plugin)
		}
	}
	return plugins
}

// Schedule chooses a node for a pod. It is a pure function: the pod need not exist, nothing is changed, and
// equal arguments give equal decisions. It considers all nodes, where upstream samples large clusters.
//
// As upstream, a single feasible node is chosen without calling the priorities, and the node in the pod's
// status.nominatedNodeName without checking others if it passes. Only predicates and priorities are called.
func (p *Profile) Schedule(pod *corev1.Pod, s *Snapshot) Decision {
	var e evaluation
	e.run(p.roles(), nil, pod, s)
	return e.decision()
}

// Held returns the name of the first plugin whose Gate holds the pod back, and why; or "", nil.
func (p *Profile) Held(pod *corev1.Pod) (string, *Refusal) {
	for _, e := range p.Plugins {
		if g, ok := e.Plugin.(Gate); ok && e.has(RoleGate) {
			if r := g.Holds(pod); r != nil {
				return e.Plugin.Name(), r
			}
		}
	}
	return "", nil
}

// MayHelp reports whether an event is a reason to retry a pod that the named plugins refused. Every event helps
// a name that is not in the profile, and an event without a kind helps none.
func (p *Profile) MayHelp(pod *corev1.Pod, refusedBy []string, e Event) bool {
	if e.Kind == 0 {
		return false
	}
	for _, name := range refusedBy {
		i := slices.IndexFunc(p.Plugins, func(e Enabled) bool { return e.Plugin.Name() == name })
		if i < 0 {
			return true
		}
		h, ok := p.Plugins[i].Plugin.(Hinter)
		if !ok || h.Events()&e.Kind != 0 && h.MayHelp(pod, e) {
			return true
		}
	}
	return false
}

// events returns the kinds of events that may help any pod.
func (p *Profile) events() EventKind {
	var kinds EventKind
	for _, e := range p.Plugins {
		if !refuses(e) {
			continue
		}
		if h, ok := e.Plugin.(Hinter); ok {
			kinds |= h.Events()
		} else {
			kinds |= AllEvents
		}
	}
	return kinds
}

func (p *Profile) schedulerName() string {
	if p.SchedulerName == "" {
		return DefaultSchedulerName
	}
	return p.SchedulerName
}
