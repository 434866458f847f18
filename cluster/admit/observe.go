package admit

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/eventratelimit"
	"github.com/keelson-dev/keelson/admission/namespaceautoprovision"
	"github.com/keelson-dev/keelson/admission/policy/cel"
	"github.com/keelson-dev/keelson/admission/resourcequota"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/cluster"
)

// recording is what is seen of one request. It belongs to the goroutine that serves the request.
type recording struct {
	// keep tells that the request is stored; dry that plugins are told that it is not.
	keep, dry bool
	// allowed tells that the question whether the user may make the request is still to come, and is answered with yes.
	allowed bool
	plain   runtime.Object // the options without dryRun, once a plugin has seen them

	at     Phase
	plugin string // that refused
	err    error  // its refusal
	steps  []Step
	last   snapshot
	// scratch is what objects are encoded into to compare them.
	scratch []byte
	costs   []cel.Cost
}

type recordingKey struct{}

func recorded(ctx context.Context) *recording {
	r, _ := ctx.Value(recordingKey{}).(*recording)
	return r
}

// begin notes the object as the first plugin gets it.
func (r *recording) begin(q *admission.Request) {
	r.steps, r.last, r.at = make([]Step, 0, 6), take(q.Object), PhaseMutate
	r.steps = append(r.steps, Step{Phase: PhaseDefaults, after: r.last})
}

// mutating is called before each mutating plugin. An update that starts again is recorded again.
func (r *recording) mutating(q *admission.Request) {
	if r.at != PhaseMutate {
		r.begin(q)
	}
}

// mutated is called after each.
func (r *recording) mutated(q *admission.Request, plugin string, err error) {
	if err != nil {
		r.plugin, r.err = plugin, err
		return
	}
	if r.last.same(q.Object, &r.scratch) {
		return
	}
	now := take(q.Object)
	r.steps = append(r.steps, Step{Phase: PhaseMutate, Plugin: plugin, before: r.last, after: now})
	r.last = now
}

// validating is called before each validating plugin.
func (r *recording) validating(q *admission.Request) {
	if r.at == PhaseAdmit {
		return
	}
	if r.at < PhaseMutate {
		r.begin(q)
	}
	r.at = PhaseAdmit
	if !r.last.same(q.Object, &r.scratch) {
		now := take(q.Object)
		r.steps = append(r.steps, Step{Phase: PhasePrepare, before: r.last, after: now})
		r.last = now
	}
}

// pretend runs f with a request that does not look like a dry run, unless the plugin would change the state.
func (r *recording) pretend(q *admission.Request, plugin string, f func() error) error {
	if r.keep || r.dry || writes(plugin) {
		return f()
	}
	if r.plain == nil {
		r.plain = withoutDryRun(q.Options)
	}
	dry, options := q.DryRun, q.Options
	q.DryRun, q.Options = false, r.plain
	defer func() { q.DryRun, q.Options = dry, options }()
	return f()
}

// writes reports whether a plugin changes the state, unless it sees a dry run.
func writes(plugin string) bool {
	return plugin == resourcequota.Name || plugin == namespaceautoprovision.Name || plugin == eventratelimit.Name
}

func withoutDryRun(options runtime.Object) runtime.Object {
	switch o := options.(type) {
	case *metav1.CreateOptions:
		c := *o
		c.DryRun = nil
		return &c
	case *metav1.UpdateOptions:
		c := *o
		c.DryRun = nil
		return &c
	case *metav1.DeleteOptions:
		c := *o
		c.DryRun = nil
		return &c
	}
	return options
}

// observed is a plugin that records what it does. Requests that are not recorded, such as those of the world's own
// controllers, pass it.
type observed struct{ admission.Plugin }

// Handles implements admission.Plugin: what precedes and follows a plugin is recorded whether it acts or not.
func (observed) Handles(admission.Operation) bool { return true }

// Admit implements admission.Mutator.
func (o observed) Admit(ctx context.Context, q *admission.Request) error {
	m, ok := o.Plugin.(admission.Mutator)
	return o.mutate(ctx, q, ok, func() error { return m.Admit(ctx, q) })
}

func (o observed) mutate(ctx context.Context, q *admission.Request, mutates bool, admit func() error) error {
	r := recorded(ctx)
	if r == nil {
		return nil
	}
	r.mutating(q)
	if !mutates || !o.Plugin.Handles(q.Operation) {
		return nil
	}
	err := r.pretend(q, o.Name(), admit)
	r.mutated(q, o.Name(), err)
	return err
}

// Validate implements admission.Validator.
func (o observed) Validate(ctx context.Context, q *admission.Request) error {
	r := recorded(ctx)
	if r == nil {
		return nil
	}
	r.validating(q)
	v, ok := o.Plugin.(admission.Validator)
	if !ok || !o.Plugin.Handles(q.Operation) {
		return nil
	}
	err := r.pretend(q, o.Name(), func() error { return v.Validate(ctx, q) })
	if err != nil {
		r.plugin, r.err = o.Name(), err
	}
	return err
}

// reinvoker is an observed plugin after whose changes the others may run again.
type reinvoker struct {
	observed
	plugin admission.Reinvoker
}

// AdmitFirst implements admission.Reinvoker.
func (o reinvoker) AdmitFirst(ctx context.Context, q *admission.Request) (admission.Reinvocation, error) {
	var again admission.Reinvocation
	err := o.mutate(ctx, q, true, func() (err error) {
		again, err = o.plugin.AdmitFirst(ctx, q)
		return err
	})
	if second := again.Again; second != nil {
		again.Again = func(ctx context.Context, q *admission.Request) error {
			return o.mutate(ctx, q, true, func() error { return second(ctx, q) })
		}
	}
	return again, err
}

// observe makes a stage whose plugin is observed.
func observe(s cluster.AdmissionStage) cluster.AdmissionStage {
	return cluster.AdmissionStage{Name: s.Name, New: func(p cluster.ServerParts) (admission.Plugin, error) {
		plugin, err := s.New(p)
		if err != nil {
			return nil, err
		}
		if r, ok := plugin.(admission.Reinvoker); ok {
			return reinvoker{observed{plugin}, r}, nil
		}
		return observed{plugin}, nil
	}}
}

// leave is the authorizer that lets recorded requests be made: it answers the first question about each.
func leave() cluster.AuthorizerStage {
	return cluster.Ready("admit", authz.Authorizer(authz.Func(func(ctx context.Context, _ authz.Attributes) (authz.Decision, error) {
		if r := recorded(ctx); r != nil && r.allowed {
			r.allowed = false
			return authz.Decision{Verdict: authz.Allow}, nil
		}
		return authz.Decision{}, nil
	})))
}
