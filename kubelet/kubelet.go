package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/podspec/origin"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/kubelet/decision"
	"github.com/keelson-dev/keelson/lifecycle"
)

// ErrStarted is returned by Run if it was called before.
var ErrStarted = errors.New("kubelet was already run")

// Upstream's timings, unless an option overrides them.
const (
	restartDelay    = 10 * time.Second
	maxRestartDelay = 300 * time.Second
	restartCalm     = 10 * time.Minute
	pullDelay       = 10 * time.Second
	maxPullDelay    = 300 * time.Second
	retryPeriod     = 10 * time.Second
	plegPeriod      = time.Second
	minimumGrace    = 2 // seconds, at least
)

// Timings of this implementation.
const (
	// provisionalDelay is how long to hold back a status that is about to be replaced.
	provisionalDelay = 20 * time.Millisecond
	// settledDelay is how long to hold back any other status, so that simultaneous ones are sent in a fixed order.
	settledDelay   = time.Millisecond
	sendDelay      = time.Second
	requestTimeout = 10 * time.Second
	runtimeTimeout = 2 * time.Minute
	relistPeriod   = 20 * time.Second
)

// Sources are what a kubelet reads.
type Sources struct {
	// Pods are the pods of this node (spec.nodeName); others are ignored.
	Pods *informer.Informer[*corev1.Pod]
	// Static, if set, are pods that run whatever the API says, such as those of package static. Their mirrors, which
	// represent them in the API, are among Pods; creating those is not the kubelet's concern.
	Static *informer.Informer[*corev1.Pod]
	// Nodes holds at least the kubelet's own node. If nil, the kubelet reads its node from the server every time it
	// needs it.
	Nodes *informer.Informer[*corev1.Node]
}

// Client is how a kubelet uses the API server, as the user system:node:NAME in the group system:nodes: to register its
// node and update its status, renew its lease, update the statuses of its pods, and delete pods that have ended. The
// node authorizer and the NodeRestriction admission plugin permit each of its requests.
//
//nolint:interfacebloat // composed of the narrow ones that it asks for
type Client interface {
	client.Getter
	client.Creator
	client.Updater
	client.Patcher
	client.Deleter
}

// Runtime is the container runtime of a kubelet. If it is also a cri.EventSource, the kubelet learns of changes at
// once; otherwise it polls every second.
type Runtime interface {
	cri.RuntimeService
	cri.ImageService
}

// Kubelet runs the pods of one node. Make one with New.
type Kubelet struct {
	name    string
	options Options
	sources Sources
	client  Client
	runtime cri.RuntimeService
	images  imageService
	optional
	recorder
	log     *slog.Logger
	sender  *sender
	hostIPs []string
	node    *nodeReporter

	parts   *parts // of the workers, set before any of them starts
	pods    podSet
	resizes resizes
}

// optional is what not every runtime has; its fields may be nil.
type optional struct {
	source  cri.EventSource
	resizer cri.Resizer
	stats   cri.StatsReader
}

// podSet holds the workers of a kubelet's pods, and the changes not yet handed to them.
type podSet struct {
	mu      sync.Mutex
	started bool
	known   bool // all pods in the API are known
	workers map[types.UID]*worker
	queue   []podChange
	taken   []podChange // from the queue, not all handed to workers yet
	// delayed holds, by name, static pods that wait for earlier ones of the same name to end.
	delayed map[types.NamespacedName]podChange
	wake    chan struct{}
}

type podChange struct {
	pod  *corev1.Pod
	gone bool
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// New makes a kubelet for the node Options.NodeName. It does nothing until Run. A nil recorder
// drops events.
func New(in Sources, c Client, runtime Runtime, r events.Recorder, o Options) (*Kubelet, error) {
	if in.Pods == nil || c == nil || runtime == nil {
		return nil, errors.New("a kubelet needs pods, a client and a runtime")
	}
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if r == nil {
		r = events.Func(func(events.Event) {})
	}
	k := &Kubelet{
		name: o.NodeName, options: o, sources: in, client: c, recorder: recorder{r},
		log: o.Logger.With("node", o.NodeName),
		pods: podSet{
			workers: map[types.UID]*worker{}, delayed: map[types.NamespacedName]podChange{}, wake: make(chan struct{}, 1),
		},
	}
	limited := bounded{runtime: runtime, limit: runtimeTimeout}
	k.runtime, k.images = limited, limited
	k.source, _ = runtime.(cri.EventSource)
	k.resizer, _ = runtime.(cri.Resizer)
	k.stats, _ = runtime.(cri.StatsReader)
	k.sender = newSender(c, k.log)
	k.hostIPs = o.hostIPs()
	k.node = newNodeReporter(k)
	in.Pods.AddHandler(k.handler(fromAPI))
	if in.Static != nil {
		in.Static.AddHandler(k.handler(func(pod *corev1.Pod) *corev1.Pod { return pod }))
	}
	return k, nil
}

// handler queues the changes to a source's pods, each passed through of.
func (k *Kubelet) handler(of func(*corev1.Pod) *corev1.Pod) informer.Handler[*corev1.Pod] {
	return informer.Handler[*corev1.Pod]{
		Added:   func(pod *corev1.Pod) { k.enqueue(of(pod), false) },
		Updated: func(_, pod *corev1.Pod) { k.enqueue(of(pod), false) },
		Deleted: func(pod *corev1.Pod) { k.enqueue(of(pod), true) },
	}
}

// Run registers the node and runs its pods until the context ends, and then returns nil. The containers keep running: a
// kubelet that is started later on the same runtime picks them up. A second call of Run fails with ErrStarted.
func (k *Kubelet) Run(ctx context.Context) error {
	k.pods.mu.Lock()
	started := k.pods.started
	k.pods.started = true
	k.pods.mu.Unlock()
	if started {
		return ErrStarted
	}
	version, err := k.waitForRuntime(ctx)
	if err != nil {
		return nil // the context has ended
	}
	k.parts = k.partsOn(version.Name)
	k.resizes = newResizes()
	defer k.resizes.timer.Stop()
	k.nodeEvent("Starting", "Starting kubelet.")
	k.node.prepare(ctx)

	var group sync.WaitGroup
	defer group.Wait()
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	group.Go(func() { k.node.run(stop) })
	group.Go(func() { k.node.renewLease(stop) })
	group.Go(func() { k.sender.run(stop) })
	if err := k.waitForPods(stop, &group); err != nil || ctx.Err() != nil {
		return err
	}
	k.dispatch(stop, &group)
	group.Go(func() { k.relist(stop, &group) })
	if k.source != nil {
		group.Go(func() { k.follow(stop) })
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.pods.wake:
			k.dispatch(stop, &group)
		case <-k.resizes.timer.C:
			k.grantResizes()
		}
	}
}

// partsOn returns the workers' dependencies, for the runtime of that name.
func (k *Kubelet) partsOn(runtime string) *parts {
	p := &parts{
		runtime: k.runtime, images: k.images, host: &k.options.Host, statuses: k.sender, recorder: k.recorder,
		observer: k.options.Observer, log: k.log, network: k.node.networkProblem,
		node:        decision.Node{HostIPs: k.hostIPs, Runtime: runtime},
		allocatable: k.options.Allocatable, maxRestartDelay: k.options.MaxRestartDelay,
	}
	p.classes = newRuntimeClasses(k.client)
	p.resizer, p.stats = k.resizer, k.stats
	return p
}

// waitForPods waits until the pods in the API and the node are known, and runs static pods meanwhile, since they must
// run without an API. When the context ends it returns nil.
func (k *Kubelet) waitForPods(ctx context.Context, group *sync.WaitGroup) error {
	known := make(chan error, 1)
	group.Go(func() {
		err := k.sources.Pods.WaitSynced(ctx)
		if err == nil && k.sources.Static != nil {
			err = k.sources.Static.WaitSynced(ctx)
		}
		if err == nil {
			err = k.node.known(ctx)
		}
		known <- err
	})
	for {
		select {
		case err := <-known:
			if err != nil && !lifecycle.Ends(ctx) {
				return fmt.Errorf("reading the pods of node %s: %w", k.name, err)
			}
			k.pods.mu.Lock()
			k.pods.known = true
			k.pods.mu.Unlock()
			return nil
		case <-k.pods.wake:
			k.dispatch(ctx, group)
		}
	}
}

// waitForRuntime waits until the runtime answers.
func (k *Kubelet) waitForRuntime(ctx context.Context) (cri.Version, error) {
	for {
		version, err := k.runtime.Version(ctx)
		if err == nil || ctx.Err() != nil {
			return version, ctx.Err()
		}
		k.log.Warn("the container runtime does not answer", "error", err)
		if err := pause.For(ctx, plegPeriod); err != nil {
			return cri.Version{}, err
		}
	}
}

// enqueue is called by the informer and must be quick.
func (k *Kubelet) enqueue(pod *corev1.Pod, gone bool) {
	if pod.Spec.NodeName != k.name {
		return
	}
	if origin.Mirror(pod) {
		k.sender.mirror(pod, gone)
		return
	}
	k.pods.mu.Lock()
	k.pods.queue = append(k.pods.queue, podChange{pod, gone})
	k.pods.mu.Unlock()
	select {
	case k.pods.wake <- struct{}{}:
	default:
	}
}

// changes takes the queued changes that can be handled: those of pods in the API once all of these are known, those of
// static pods when no other of the same name is ending.
func (k *Kubelet) changes() []podChange {
	k.pods.mu.Lock()
	defer k.pods.mu.Unlock()
	var now, later []podChange
	going := map[types.UID]bool{}
	for _, c := range k.pods.queue {
		switch {
		case !origin.Static(c.pod) && !k.pods.known:
			later = append(later, c)
		case origin.Static(c.pod) && k.delay(c, going):
		default:
			now = append(now, c)
			going[c.pod.UID] = c.gone
		}
	}
	k.pods.queue, k.pods.taken = later, now
	return now
}

// delay holds back a new static pod while another of its name exists, or drops one held back before. The lock is held.
func (k *Kubelet) delay(c podChange, going map[types.UID]bool) bool {
	name := nameOf(c.pod)
	if c.gone {
		if k.pods.delayed[name].pod != nil && k.pods.delayed[name].pod.UID == c.pod.UID {
			delete(k.pods.delayed, name)
		}
		return false
	}
	if w, known := k.pods.workers[c.pod.UID]; known {
		if going[c.pod.UID] || w.inbox.isGone() { // it was removed, and came back before it had ended
			k.pods.delayed[name] = c
			return true
		}
		return false
	}
	for _, w := range k.pods.workers {
		if pod := w.inbox.newest(); nameOf(pod) == name && origin.Static(pod) {
			k.pods.delayed[name] = c
			return true
		}
	}
	return false
}

// dispatch hands queued changes to the workers. New pods are admitted in the order of their creation.
func (k *Kubelet) dispatch(ctx context.Context, group *sync.WaitGroup) {
	changes := k.changes()
	defer k.handedOut()

	var added []*corev1.Pod
	var wishing []podChange
	for _, c := range changes {
		w, known := k.worker(c.pod.UID)
		switch {
		case known:
			k.sender.observe(c.pod)
			next := k.changed(c.pod, w)
			wishing = slices.DeleteFunc(wishing, func(older podChange) bool { return older.pod.UID == c.pod.UID })
			switch {
			case c.gone:
				k.resizes.forget(c.pod.UID)
				w.update(next, true)
			case next != c.pod:
				wishing = append(wishing, c)
			default:
				w.update(next, false)
			}
		case c.gone:
			added = slices.DeleteFunc(added, func(p *corev1.Pod) bool { return p.UID == c.pod.UID })
		default:
			added = slices.DeleteFunc(added, func(p *corev1.Pod) bool { return p.UID == c.pod.UID })
			added = append(added, c.pod)
		}
	}
	slices.SortStableFunc(added, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var admitted []*corev1.Pod
	for _, pod := range added {
		if k.add(ctx, group, pod) {
			admitted = append(admitted, pod)
		}
	}
	if len(admitted) > 0 {
		if err := k.options.Host.Memory.Admit(admitted...); err != nil {
			k.log.Warn("the checkpoint of admitted pods was not written", "error", err)
		}
	}
	if k.resizes.due && k.allKnown() {
		k.grantResizes()
	}
	for _, c := range wishing { // what became of the wish is reported together with the change
		if w, known := k.worker(c.pod.UID); known {
			w.update(decision.Hold(c.pod, w.inbox.newest()), false)
		}
	}
}

// allKnown reports whether all pods in the API are known: before, no resize is granted.
func (k *Kubelet) allKnown() bool {
	k.pods.mu.Lock()
	defer k.pods.mu.Unlock()
	return k.pods.known
}

// handedOut records that all taken changes have been handed to workers or dropped.
func (k *Kubelet) handedOut() {
	k.pods.mu.Lock()
	defer k.pods.mu.Unlock()
	k.pods.taken = nil
}

// add starts a worker for a pod that is new to this kubelet, or rejects the pod. It reports whether it admitted the
// pod.
func (k *Kubelet) add(ctx context.Context, group *sync.WaitGroup, pod *corev1.Pod) (admitted bool) {
	pod = k.recall(pod)
	w := newWorker(k.parts, pod)
	if wish := k.resizes.wishes[pod.UID]; wish != nil {
		w.inbox.wait(wish.pending)
	}
	before := k.options.Host.Memory.Admitted(pod.UID)
	switch {
	case decision.Terminal(pod.Status.Phase):
	case before:
		for _, a := range k.options.Host.Admitters {
			if a, ok := a.(Allocator); ok {
				a.Resume(pod)
			}
		}
	case pod.DeletionTimestamp == nil:
		admitted = true
		refusal := unsupported(pod, &k.options.Host)
		if refusal == nil {
			refusal = k.refusal(pod, nil)
		}
		if refusal != nil {
			w.reject(pod, *refusal)
			admitted = false
		}
	}
	k.pods.mu.Lock()
	k.pods.workers[pod.UID] = w
	k.pods.mu.Unlock()
	k.start(ctx, group, w)
	return admitted
}

// start runs a worker, and forgets it when it is done.
func (k *Kubelet) start(ctx context.Context, group *sync.WaitGroup, w *worker) {
	group.Go(func() {
		if w.run(ctx) {
			k.forget(w)
		}
	})
}

// active returns the pods that use the node's resources.
func (k *Kubelet) active() []*corev1.Pod {
	k.pods.mu.Lock()
	defer k.pods.mu.Unlock()
	list := make([]*corev1.Pod, 0, len(k.pods.workers))
	for _, w := range k.pods.workers {
		if pod, using := w.inbox.usesResources(); using {
			list = append(list, pod)
		}
	}
	return list
}

func (k *Kubelet) worker(uid types.UID) (*worker, bool) {
	k.pods.mu.Lock()
	defer k.pods.mu.Unlock()
	w, ok := k.pods.workers[uid]
	return w, ok
}

// Sync makes the kubelet sync a pod although it has not changed in the API, for example because a config map that it
// mounts has.
func (k *Kubelet) Sync(uid types.UID) {
	if w, ok := k.worker(uid); ok {
		w.inbox.touch()
		w.poke()
	}
}

// forget removes a worker that is done.
func (k *Kubelet) forget(w *worker) {
	k.pods.mu.Lock()
	defer k.pods.mu.Unlock()
	delete(k.pods.workers, w.uid)
	name := nameOf(w.inbox.newest())
	if next, waits := k.pods.delayed[name]; waits {
		delete(k.pods.delayed, name)
		k.pods.queue = append(k.pods.queue, next)
		select {
		case k.pods.wake <- struct{}{}:
		default:
		}
	}
}
