package networkpolicy

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/informer"
)

// Sources are what an Enforcer follows.
type Sources struct {
	// Policies, Namespaces and Pods are all of the cluster.
	Policies   *informer.Informer[*networkingv1.NetworkPolicy]
	Namespaces *informer.Informer[*corev1.Namespace]
	Pods       *informer.Informer[*corev1.Pod]
}

// Options of an Enforcer. The zero value is ready to use.
type Options struct {
	// Nodes are the names of the nodes whose pods are policed; those of all nodes if it is nil.
	Nodes []string
	// Period is the shortest time between two writes; 0 means 10 ms. The first change after a pause is written at once,
	// others are collected meanwhile.
	Period time.Duration
	// CheckPeriod is how often to check that others have not changed what was written, and how long to wait after a
	// failure; 0 means 1 s.
	CheckPeriod time.Duration
	// Written, unless nil, is called after each write with everything that is in effect, which must not be changed or
	// kept.
	Written func(Tables)
	// Unreadable, unless nil, is called for a policy of which something cannot be read and therefore allows nothing, or
	// isolates nothing. The API refuses such policies.
	Unreadable func(policy *networkingv1.NetworkPolicy, err error)
	Logger     *slog.Logger
}

// Enforcer has a Writer write the tables that follow from a cluster's policies. Make one with New.
type Enforcer struct {
	in     Sources
	writer Writer
	o      Options

	mu    sync.Mutex
	dirty map[object]bool
	wake  chan struct{} // has an element if there is something to do

	// The rest belongs to Run.
	assembly *assembly
	synced   bool
}

// object is one that has changed.
type object struct {
	kind kind
	name types.NamespacedName
}

type kind int

const (
	namespaces kind = iota // they come first, as the others refer to them
	pods
	policies
)

// New makes an Enforcer. It adds handlers to the informers.
func New(in Sources, w Writer, o Options) *Enforcer {
	if o.Period <= 0 {
		o.Period = 10 * time.Millisecond
	}
	if o.CheckPeriod <= 0 {
		o.CheckPeriod = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Enforcer{in: in, writer: w, o: o, dirty: map[object]bool{}, wake: make(chan struct{}, 1)}
	var local func(string) bool
	if o.Nodes != nil {
		local = func(node string) bool { return slices.Contains(o.Nodes, node) }
	}
	e.assembly = newAssembly(local)
	follow(e, in.Namespaces, namespaces, func(n *corev1.Namespace) types.NamespacedName { return types.NamespacedName{Name: n.Name} })
	follow(e, in.Pods, pods, func(p *corev1.Pod) types.NamespacedName {
		return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	})
	follow(e, in.Policies, policies, nameOf)
	return e
}

func nameOf(p *networkingv1.NetworkPolicy) Name { return Name{Namespace: p.Namespace, Name: p.Name} }

// follow notes which objects change.
func follow[T informer.Object](e *Enforcer, in *informer.Informer[T], kind kind, name func(T) types.NamespacedName) {
	changed := func(obj T) {
		e.mu.Lock()
		e.dirty[object{kind, name(obj)}] = true
		e.mu.Unlock()
		e.poke()
	}
	in.AddHandler(informer.Handler[T]{Added: changed, Updated: func(_, obj T) { changed(obj) }, Deleted: changed})
}

func (e *Enforcer) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run follows the informers, which others run, until the context ends, and then returns nil. What was written stays. It
// serves an Enforcer once.
func (e *Enforcer) Run(ctx context.Context) error {
	if err := e.waitSynced(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	check := time.NewTicker(e.o.CheckPeriod)
	defer check.Stop()
	e.poke()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-check.C:
			e.check(ctx)
			continue
		case <-e.wake:
		}
		e.write(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(e.o.Period):
		}
	}
}

func (e *Enforcer) waitSynced(ctx context.Context) error {
	for _, wait := range []func(context.Context) error{e.in.Namespaces.WaitSynced, e.in.Pods.WaitSynced, e.in.Policies.WaitSynced} {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// check repairs what others have changed, or what failed.
func (e *Enforcer) check(ctx context.Context) {
	if e.synced {
		intact, err := e.writer.Intact(ctx)
		if err == nil && intact {
			return
		}
		e.o.Logger.Warn("the tables of network policies are not as written: writing them again", "error", err)
		e.synced = false
	}
	e.write(ctx)
}

// take returns what is to be looked at again.
func (e *Enforcer) take() (all []object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for o := range e.dirty {
		all = append(all, o)
	}
	clear(e.dirty)
	slices.SortFunc(all, func(a, b object) int { return int(a.kind - b.kind) })
	return all
}

// write takes in what has changed and writes what that changes: everything if there is no other way.
func (e *Enforcer) write(ctx context.Context) {
	for _, o := range e.take() {
		e.look(o)
	}
	changes := e.assembly.take()
	if !e.synced {
		e.sync(ctx)
		return
	}
	if changes.Empty() {
		return
	}
	if err := e.writer.Update(ctx, changes); err != nil {
		e.o.Logger.Warn("writing changes of network policies failed: writing all tables", "error", err)
		e.sync(ctx)
		return
	}
	e.written()
}

// look takes an object as it is now.
func (e *Enforcer) look(o object) {
	switch o.kind {
	case namespaces:
		var labels map[string]string
		if n, ok := e.in.Namespaces.Get("", o.name.Name); ok {
			labels = n.Labels
		}
		e.assembly.putNamespace(o.name.Name, labels)
	case pods:
		var pod *Pod
		if p, ok := e.in.Pods.Get(o.name.Namespace, o.name.Name); ok {
			if seen, ok := PodOf(p); ok {
				pod = &seen
			}
		}
		e.assembly.putPod(o.name, pod)
	case policies:
		policy, ok := e.in.Policies.Get(o.name.Namespace, o.name.Name)
		if !ok {
			e.assembly.putPolicy(o.name, nil)
			return
		}
		read, err := Of(policy)
		if err != nil {
			e.o.Logger.Warn("a network policy cannot be read in full", "policy", o.name, "error", err)
			if e.o.Unreadable != nil {
				e.o.Unreadable(policy, err)
			}
		}
		e.assembly.putPolicy(o.name, &read)
	}
}

func (e *Enforcer) sync(ctx context.Context) {
	if err := e.writer.Sync(ctx, e.assembly.tables); err != nil {
		e.synced = false
		if ctx.Err() == nil {
			e.o.Logger.Error("writing the tables of network policies failed", "error", err, "retryAfter", e.o.CheckPeriod)
		}
		return
	}
	e.synced = true
	e.written()
}

func (e *Enforcer) written() {
	if e.o.Written != nil {
		e.o.Written(e.assembly.tables)
	}
}
