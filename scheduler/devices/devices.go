package devices

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured/schedulerapi"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/scheduler"
)

// Sources are the informers that a Devices reads. All are required; the caller runs them.
type Sources struct {
	Nodes  *informer.Informer[*corev1.Node]
	Claims *informer.Informer[*resourcev1.ResourceClaim]
	// Slices are the devices that drivers publish.
	Slices  *informer.Informer[*resourcev1.ResourceSlice]
	Classes *informer.Informer[*resourcev1.DeviceClass]
	// TaintRules taint devices beyond what their slices say.
	TaintRules *informer.Informer[*resourcev1.DeviceTaintRule]
}

// Client is what a Devices needs of the server.
type Client interface {
	client.Getter
	client.Updater
}

// State is what an Allocator chooses from. It must not be changed.
type State struct {
	// Allocated are the devices, and parts of devices, that other claims have.
	Allocated schedulerapi.AllocatedState
	// Slices are all that exist, with the taints of rules.
	Slices []*resourcev1.ResourceSlice
	// Class returns a device class, or an error of apimachinery's kind NotFound.
	Class func(name string) (*resourcev1.DeviceClass, error)
}

// Allocator prepares to choose devices in a state of the cluster. It is called by any goroutine.
type Allocator func(State) (Allocate, error)

// Allocate chooses devices of a node for claims that have none: one result for each claim, in their order, or none if not
// all claims can have what they ask for. A *scheduler.Refusal as the error is about the node; after any other, no
// node is tried. It is called by many goroutines at once, must be deterministic, and returns soon after the context ends.
type Allocate func(ctx context.Context, node *corev1.Node, claims []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error)

// Unlimited is a FindTimeout without end.
const Unlimited time.Duration = -1

// Options are the options of a Devices. The zero value is valid.
type Options struct {
	// FindTimeout is how long Find may take for one node; 0 means upstream's 10 seconds, and Unlimited as long as it takes.
	FindTimeout time.Duration
	// BindTimeout is how long devices may take until they are ready; 0 means upstream's 10 minutes.
	BindTimeout time.Duration
	// Waiting, if set, is called before Bind waits for a pod's devices.
	Waiting func(pod *corev1.Pod, node string)
}

// Devices knows the cluster's devices. It implements scheduler.Objects. Make one with New.
type Devices struct {
	in       Sources
	write    Client
	allocate Allocator
	o        Options

	mu       sync.Mutex // guards the rest
	ledger   ledger
	written  map[types.UID]*resourcev1.ResourceClaim // newer than what the informer has
	tainted  []*resourcev1.ResourceSlice             // the slices with the taints of rules; nil: to be found again
	reserved map[types.UID]*reservation              // by pod, from Reserve to the end of Bind
	waiting  map[chan struct{}]struct{}              // a channel per Bind that waits, with room for one token
}

// New returns a Devices that follows its sources and writes through c. It starts nothing.
func New(in Sources, c Client, a Allocator, o Options) *Devices {
	if o.FindTimeout == 0 {
		o.FindTimeout = 10 * time.Second
	}
	if o.BindTimeout <= 0 {
		o.BindTimeout = 10 * time.Minute
	}
	d := &Devices{
		in: in, write: c, allocate: a, o: o,
		ledger: newLedger(), written: map[types.UID]*resourcev1.ResourceClaim{},
		reserved: map[types.UID]*reservation{}, waiting: map[chan struct{}]struct{}{},
	}
	in.Claims.AddHandler(informer.Handler[*resourcev1.ResourceClaim]{
		Added: d.claimChanged, Updated: func(_, c *resourcev1.ResourceClaim) { d.claimChanged(c) }, Deleted: d.claimDeleted,
	})
	follow(in.Slices, d.devicesChanged)
	follow(in.TaintRules, d.devicesChanged)
	return d
}

func follow[T informer.Object](in *informer.Informer[T], changed func()) {
	in.AddHandler(informer.Handler[T]{
		Added: func(T) { changed() }, Updated: func(_, _ T) { changed() }, Deleted: func(T) { changed() },
	})
}

func (d *Devices) devicesChanged() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tainted = nil
}

func (d *Devices) claimChanged(c *resourcev1.ResourceClaim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ledger.observe(c)
	if w := d.written[c.UID]; w != nil && version(c) >= version(w) {
		delete(d.written, c.UID)
	}
	d.wake()
}

func (d *Devices) claimDeleted(c *resourcev1.ResourceClaim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ledger.remove(c.UID)
	delete(d.written, c.UID)
	d.wake()
}

// wake has every waiting Bind look again. The caller holds the lock.
func (d *Devices) wake() {
	for w := range d.waiting {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// Watch implements scheduler.Objects: it tells of the events for which upstream's plugin asks.
func (d *Devices) Watch(tell func(scheduler.Event)) {
	watch(d.in.Claims, tell, true)
	watch(d.in.Classes, tell, false)
	watch(d.in.Slices, tell, false)
	watch(d.in.TaintRules, tell, true)
}

func watch[T informer.Object](in *informer.Informer[T], tell func(scheduler.Event), deleted bool) {
	h := informer.Handler[T]{
		Added:   func(obj T) { tell(scheduler.Event{Kind: scheduler.ObjectAdded, Object: obj}) },
		Updated: func(old, obj T) { tell(scheduler.Event{Kind: scheduler.ObjectUpdated, OldObject: old, Object: obj}) },
	}
	if deleted {
		h.Deleted = func(obj T) { tell(scheduler.Event{Kind: scheduler.ObjectDeleted, OldObject: obj}) }
	}
	in.AddHandler(h)
}

// WaitSynced implements scheduler.Objects.
func (d *Devices) WaitSynced(ctx context.Context) error {
	for _, synced := range []func(context.Context) error{
		d.in.Nodes.WaitSynced, d.in.Claims.WaitSynced, d.in.Slices.WaitSynced, d.in.Classes.WaitSynced, d.in.TaintRules.WaitSynced,
	} {
		if err := synced(ctx); err != nil {
			return err
		}
	}
	return nil
}

// claim returns a claim in the newest state that is known.
func (d *Devices) claim(namespace, name string) (*resourcev1.ResourceClaim, error) {
	c, ok := d.in.Claims.Get(namespace, name)
	if !ok {
		return nil, fmt.Errorf("could not find ResourceClaim %q", namespace+"/"+name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.written[c.UID]; w != nil && version(w) > version(c) {
		return w, nil
	}
	return c, nil
}

// class returns a device class.
func (d *Devices) class(name string) (*resourcev1.DeviceClass, error) {
	if c, ok := d.in.Classes.Get("", name); ok {
		return c, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclass"), name)
}

// state returns what there is to choose from.
func (d *Devices) state() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tainted == nil {
		d.tainted = withTaints(d.in.Slices.List(""), d.in.TaintRules.List(""))
	}
	return State{Allocated: d.ledger.state(), Slices: d.tainted, Class: d.class}
}

func version(obj metav1.Object) uint64 {
	n, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
