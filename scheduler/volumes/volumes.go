package volumes

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/scheduler"
)

// Sources are the informers that a Volumes reads. All are required; the caller runs them.
type Sources struct {
	Nodes   *informer.Informer[*corev1.Node]
	Claims  *informer.Informer[*corev1.PersistentVolumeClaim]
	Volumes *informer.Informer[*corev1.PersistentVolume]
	// Classes say when and by whom volumes are made.
	Classes    *informer.Informer[*storagev1.StorageClass]
	CSINodes   *informer.Informer[*storagev1.CSINode]
	CSIDrivers *informer.Informer[*storagev1.CSIDriver]
	// Capacities are how much room there is for volumes, where drivers publish that.
	Capacities *informer.Informer[*storagev1.CSIStorageCapacity]
	// Attachments are where which volumes are attached.
	Attachments *informer.Informer[*storagev1.VolumeAttachment]
}

// Options are the options of a Volumes. The zero value is valid.
type Options struct {
	// BindTimeout is how long Bind waits for a pod's volumes; 0 means upstream's 10 minutes.
	BindTimeout time.Duration
}

// Volumes knows the cluster's volumes. It implements scheduler.Objects. Make one with New.
type Volumes struct {
	in      Sources
	write   client.Updater
	o       Options
	claims  ahead[*corev1.PersistentVolumeClaim]
	volumes ahead[*corev1.PersistentVolume]

	mu       sync.Mutex                 // guards the rest
	reserved map[types.UID]*Placement   // by pod, from Reserve to Bind
	waiting  map[chan struct{}]struct{} // a channel per Bind that waits, with room for one token
}

// The names of indexes.
const (
	byClass = "scheduler/volumes: class"
	byNode  = "scheduler/volumes: node"
)

// New returns a Volumes that follows its sources and writes through w. It starts nothing.
func New(in Sources, w client.Updater, o Options) *Volumes {
	if o.BindTimeout <= 0 {
		o.BindTimeout = 10 * time.Minute
	}
	v := &Volumes{
		in: in, write: w, o: o,
		claims:   newAhead(in.Claims, corev1.Resource("persistentvolumeclaims")),
		volumes:  newAhead(in.Volumes, corev1.Resource("persistentvolumes")),
		reserved: map[types.UID]*Placement{}, waiting: map[chan struct{}]struct{}{},
	}
	in.Volumes.AddIndex(byClass, func(pv *corev1.PersistentVolume) []string { return []string{classOfVolume(pv)} })
	in.Attachments.AddIndex(byNode, func(a *storagev1.VolumeAttachment) []string { return []string{a.Spec.NodeName} })
	follow(in.Claims, v.claims.expire, v.wake)
	follow(in.Volumes, v.volumes.expire, v.wake)
	follow(in.Nodes, func(*corev1.Node) {}, v.wake)
	return v
}

// follow calls changed and then wake after each change of an object.
func follow[T informer.Object](in *informer.Informer[T], changed func(T), wake func()) {
	call := func(obj T) {
		changed(obj)
		wake()
	}
	in.AddHandler(informer.Handler[T]{Added: call, Updated: func(_, obj T) { call(obj) }, Deleted: call})
}

// wake has every waiting Bind look again.
func (v *Volumes) wake() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for w := range v.waiting {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// Watch implements scheduler.Objects: it tells of the events for which upstream's plugins ask.
func (v *Volumes) Watch(tell func(scheduler.Event)) {
	const (
		added   = scheduler.ObjectAdded
		updated = scheduler.ObjectUpdated
		deleted = scheduler.ObjectDeleted
	)
	watch(v.in.Claims, tell, added|updated)
	watch(v.in.Volumes, tell, added|updated)
	watch(v.in.Classes, tell, added|updated)
	watch(v.in.CSINodes, tell, added|updated)
	watch(v.in.CSIDrivers, tell, updated)
	watch(v.in.Capacities, tell, added|updated)
	watch(v.in.Attachments, tell, deleted)
}

func watch[T informer.Object](in *informer.Informer[T], tell func(scheduler.Event), kinds scheduler.EventKind) {
	var h informer.Handler[T]
	if kinds&scheduler.ObjectAdded != 0 {
		h.Added = func(obj T) { tell(scheduler.Event{Kind: scheduler.ObjectAdded, Object: obj}) }
	}
	if kinds&scheduler.ObjectUpdated != 0 {
		h.Updated = func(old, obj T) { tell(scheduler.Event{Kind: scheduler.ObjectUpdated, OldObject: old, Object: obj}) }
	}
	if kinds&scheduler.ObjectDeleted != 0 {
		h.Deleted = func(obj T) { tell(scheduler.Event{Kind: scheduler.ObjectDeleted, OldObject: obj}) }
	}
	in.AddHandler(h)
}

// WaitSynced implements scheduler.Objects.
func (v *Volumes) WaitSynced(ctx context.Context) error {
	for _, synced := range []func(context.Context) error{
		v.in.Nodes.WaitSynced, v.in.Claims.WaitSynced, v.in.Volumes.WaitSynced, v.in.Classes.WaitSynced,
		v.in.CSINodes.WaitSynced, v.in.CSIDrivers.WaitSynced, v.in.Capacities.WaitSynced, v.in.Attachments.WaitSynced,
	} {
		if err := synced(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Claim returns a claim as the API has it.
func (v *Volumes) Claim(namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	if claim, ok := v.in.Claims.Get(namespace, name); ok {
		return claim, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaim"), name)
}

// Volume returns a volume as the API has it.
func (v *Volumes) Volume(name string) (*corev1.PersistentVolume, error) {
	if pv, ok := v.in.Volumes.Get("", name); ok {
		return pv, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("persistentvolume"), name)
}

// Class returns a storage class.
func (v *Volumes) Class(name string) (*storagev1.StorageClass, error) {
	if class, ok := v.in.Classes.Get("", name); ok {
		return class, nil
	}
	return nil, apierrors.NewNotFound(storagev1.Resource("storageclass"), name)
}

// csiNode returns what CSI drivers say of a node, or nil.
func (v *Volumes) csiNode(name string) *storagev1.CSINode {
	node, _ := v.in.CSINodes.Get("", name)
	return node
}
