package linear

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Options configures a Load; the zero value is a small one.
type Options struct {
	// Resource is configmaps, the default, or pods.
	Resource string
	// Namespace is the namespace of the load, which nothing else may use; empty is "linear".
	Namespace string
	// Seed determines what the clients do, but not how their requests interleave.
	Seed uint64
	// Clients, Keys and Watchers default to 6, 3 and 6. There are at most 5 keys.
	Clients, Keys, Watchers int
	// Timeout is how long a request may take; 0 is 10 seconds.
	Timeout time.Duration
	// Pause, if set, returns how long a client waits before an operation.
	Pause func(*rand.Rand) time.Duration
	// Steady makes each client use only one server.
	Steady bool
}

// Load is a set of clients and watchers of one namespace, with the record of all answers.
type Load struct {
	options  Options
	api      api
	record   recorder
	random   *rand.Rand
	begin    int64
	clients  []*client
	watchers []*watcher
	fences   int

	mu    sync.Mutex
	known map[string]Object // as last seen by any client
	at    []int64           // revisions that were seen
}

// New prepares a load.
func New(o Options) *Load {
	if o.Resource == "" {
		o.Resource = "configmaps"
	}
	if o.Namespace == "" {
		o.Namespace = "linear"
	}
	if o.Clients <= 0 {
		o.Clients = 6
	}
	if o.Keys <= 0 {
		o.Keys = 3
	}
	if o.Watchers <= 0 {
		o.Watchers = 6
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	o.Keys = min(o.Keys, maxKeys-len(fenceLabels()))
	l := &Load{options: o, random: rand.New(rand.NewPCG(o.Seed, 0)), known: map[string]Object{}}
	l.api = api{resource: o.Resource, namespace: o.Namespace, tick: l.record.tick}
	for i := range o.Clients {
		l.clients = append(l.clients, &client{load: l, number: i, random: rand.New(rand.NewPCG(o.Seed, uint64(1+i)))})
	}
	for i := range o.Watchers {
		w := newWatcher(i, selectionOf(i), l.api, &l.record, rand.New(rand.NewPCG(o.Seed, uint64(1000+i))))
		if i > 0 {
			w.patience = 20
		}
		l.watchers = append(l.watchers, w)
	}
	return l
}

// selectionOf returns what the nth watcher selects.
func selectionOf(i int) Selection {
	all := []Selection{{}, {}, {Label: "x"}, {Label: "!x"}, {Name: "k0"}, {Label: "y"}, {}, {Label: "x", Name: "k1"}}
	return all[i%len(all)]
}

// fenceLabels returns the labels of the objects written last: every selection sees one.
func fenceLabels() []string { return []string{"x", "y", ""} }

// Begin records the revision at which the namespace, which must be empty, begins. It is called once, before everything
// else.
func (l *Load) Begin(ctx context.Context, servers []http.RoundTripper) error {
	op, err := l.must(ctx, servers, Op{Verb: List})
	if err != nil {
		return err
	}
	if len(op.Items) > 0 {
		return fmt.Errorf("the namespace is not empty: %v", op.Items)
	}
	l.begin = op.Revision
	w := l.watchers[0]
	w.at, w.since, w.fresh = op.Revision, []int64{op.Revision}, false
	return nil
}

// Run makes every client perform the given number of operations at these servers, or until the context ends, while the
// watchers watch. If lost is set, a client stops early when it gets no answer: the server then counts as dead.
func (l *Load) Run(ctx context.Context, servers []http.RoundTripper, operations int, lost bool) {
	watching, stop := context.WithCancel(ctx)
	var watchers, clients sync.WaitGroup
	for _, w := range l.watchers {
		watchers.Go(func() { w.run(watching, servers) })
	}
	for _, c := range l.clients {
		clients.Go(func() { c.run(ctx, servers, operations, lost) })
	}
	clients.Wait()
	stop()
	watchers.Wait()
}

// Lost records that the servers are gone for good: unanswered operations will not happen any more.
func (l *Load) Lost() { l.record.barrier() }

// Look lists the namespace at every server.
func (l *Load) Look(ctx context.Context, servers []http.RoundTripper) error {
	for i := range servers {
		if _, err := l.must(ctx, servers[i:i+1], Op{Server: i, Verb: List}); err != nil {
			return err
		}
	}
	return nil
}

// Settle makes last writes, waits until every watcher has seen them, and lists at every server. All servers must be
// healthy again.
func (l *Load) Settle(ctx context.Context, servers []http.RoundTripper) error {
	watching, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, w := range l.watchers {
		running.Go(func() { w.run(watching, servers) })
	}
	err := l.fence(ctx, servers)
	stop()
	running.Wait()
	return errors.Join(err, l.Look(ctx, servers))
}

// fence makes a write that each watcher sees, and waits until all have.
func (l *Load) fence(ctx context.Context, servers []http.RoundTripper) error {
	last := map[Selection]int64{}
	write := func(key, label string) error {
		op, err := l.must(ctx, servers, Op{Verb: Create, Key: key, Change: Change{Label: label}})
		for err == nil && op.Outcome == Exists {
			// There are no other writers any more, but a write without an answer may still happen.
			op, err = l.must(ctx, servers, Op{Verb: Patch, Key: key, Change: Change{Label: cmp.Or(label, "-")}})
		}
		if err != nil {
			return err
		}
		for _, w := range l.watchers {
			if w.selection.matches(op.Object) {
				last[w.selection] = op.Object.Revision
			}
		}
		return nil
	}
	keys := map[string]string{"k0": "", "k1": "x"}
	for i, label := range fenceLabels() {
		keys["z"+strconv.Itoa(i)] = label
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := write(key, keys[key]); err != nil {
			return err
		}
	}
	for _, w := range l.watchers {
		if err := w.reach(ctx, last[w.selection]); err != nil {
			return err
		}
	}
	return nil
}

// must performs an operation again and again until it has an answer. Each attempt is an operation of its own.
func (l *Load) must(ctx context.Context, servers []http.RoundTripper, op Op) (*Op, error) {
	op.Client = l.options.Clients
	for {
		attempt := op
		if op.Verb != List {
			l.fences++
			attempt.Change.A = fmt.Sprintf("fence%d", l.fences)
			attempt.Change.B = attempt.Change.A
		}
		l.record.call(&attempt)
		within, cancel := context.WithTimeout(ctx, l.options.Timeout)
		l.record.answer(&attempt, l.api.do(within, servers[l.random.IntN(len(servers))], &attempt))
		cancel()
		if attempt.Outcome != Unknown {
			return &attempt, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("no answer, though all is well: %s", &attempt)
		}
		rest(ctx, l.random)
	}
}

// Check checks the whole record. Its error is a *Violation, unless the record cannot be checked.
func (l *Load) Check() (Report, error) {
	l.record.mu.Lock()
	defer l.record.mu.Unlock()
	r, err := check(l.begin, l.record.ops, l.record.sessions)
	var problems []string
	for _, w := range l.watchers {
		problems = append(problems, w.problems...)
	}
	if len(problems) == 0 {
		return r, err
	}
	v := &Violation{ops: l.record.ops, sessions: l.record.sessions}
	var other *Violation
	if errors.As(err, &other) {
		v = other
	} else if err != nil {
		return r, err
	}
	v.Problems = append(v.Problems, problems...)
	return r, v
}

// learn shares what one client has seen with all clients.
func (l *Load) learn(o Object, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.UID != "" && o.Revision >= l.known[o.Key].Revision {
		l.known[o.Key] = o
	}
	if revision = max(revision, o.Revision); revision > 0 {
		l.at = append(l.at, revision)
		if len(l.at) > 200 {
			l.at = l.at[100:]
		}
	}
}

// recall returns what is known about a key, and a revision that some client has seen.
func (l *Load) recall(key string, random *rand.Rand) (Object, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.begin
	if n := len(l.at); n > 0 {
		at = l.at[random.IntN(n)]
	}
	return l.known[key], at
}
