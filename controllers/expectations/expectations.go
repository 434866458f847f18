// Package expectations keeps a controller from acting twice on a cache that does not show its own writes yet.
//
// Dependents counts creations and deletions for an owner: the controller announces what it is about to do, its event
// handlers report what they see, and the controller waits until all has been seen. Versions is for updated objects: it
// knows the version that the last write led to, and reports whether a cached object is older.
//
//	if wait := dependents.Wait(key, time.Now()); wait > 0 {
//		return controllers.Result{RequeueAfter: wait}, nil
//	}
//	dependents.Creations(key, missing)
//	// create them; call dependents.Created(key) for each that fails, and in the handler for each that is added
//
// Expectations do not survive a restart, and one that is not met is dropped after Timeout.
//
// All types are safe for concurrent use.
package expectations

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/keelson-dev/keelson/controllers"
)

// Timeout is how long a write is waited for. A created object that is deleted before the cache sees it never appears
// there.
const Timeout = 5 * time.Minute

// Dependents counts, by the key of their owner, the creations and deletions of dependents that the cache does not show
// yet. The zero value is not usable; make one with NewDependents.
type Dependents struct {
	mu     sync.Mutex
	owners map[controllers.Key]*outstanding
}

type outstanding struct {
	creations int
	deletions map[string]bool // by name, since both the deletion timestamp and the removal are seen
	since     time.Time
}

// NewDependents returns Dependents that wait for nothing.
func NewDependents() *Dependents {
	return &Dependents{owners: map[controllers.Key]*outstanding{}}
}

// Creations records that n dependents of owner are about to be created. Earlier expectations of owner are dropped.
func (d *Dependents) Creations(owner controllers.Key, n int) { d.Writes(owner, n, nil) }

// Deletions records that the named dependents of owner are about to be deleted. Earlier expectations of owner are
// dropped.
func (d *Dependents) Deletions(owner controllers.Key, names []string) { d.Writes(owner, 0, names) }

// Writes records both: that dependents of owner are about to be created, and that the named others are about to be
// deleted. Earlier expectations of owner are dropped.
func (d *Dependents) Writes(owner controllers.Key, creations int, deletions []string) {
	names := make(map[string]bool, len(deletions))
	for _, name := range deletions {
		names[name] = true
	}
	d.set(owner, &outstanding{creations: creations, deletions: names, since: time.Now()})
}

func (d *Dependents) set(owner controllers.Key, o *outstanding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owners[owner] = o
}

// Created records that a dependent has appeared, or that its creation failed.
func (d *Dependents) Created(owner controllers.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.owners[owner]; o != nil && o.creations > 0 {
		o.creations--
	}
}

// Deleted records that the named dependent has a deletion timestamp or is gone, or that its deletion failed.
func (d *Dependents) Deleted(owner controllers.Key, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.owners[owner]; o != nil {
		delete(o.deletions, name)
	}
}

// Forget drops all expectations of owner.
func (d *Dependents) Forget(owner controllers.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.owners, owner)
}

// Wait returns how much longer to wait for the writes for owner; 0 when all have been seen or the Timeout has passed.
func (d *Dependents) Wait(owner controllers.Key, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.owners[owner]
	if o == nil || o.creations == 0 && len(o.deletions) == 0 {
		return 0
	}
	return max(0, o.since.Add(Timeout).Sub(now))
}

// Versions records the resource version of each object after the last write to it, and for which owner it was written.
// The zero value is not usable; make one with NewVersions.
type Versions struct {
	mu      sync.Mutex
	written map[controllers.Key]version
}

type version struct {
	uid, owner      types.UID
	resourceVersion string
}

// NewVersions returns Versions that know of no write.
func NewVersions() *Versions { return &Versions{written: map[controllers.Key]version{}} }

// Wrote records the object that a write returned. Owner is the uid of the object whose reconciliation wrote it, which
// may be obj itself.
func (v *Versions) Wrote(obj metav1.Object, owner types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.written[controllers.KeyOf(obj)] = version{obj.GetUID(), owner, obj.GetResourceVersion()}
}

// Forget drops the record of an object.
func (v *Versions) Forget(key controllers.Key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.written, key)
}

// Behind reports whether a cached object is older than the last write to it, if that was for owner. The update is then
// on its way to the cache, and its arrival enqueues the owner. Once it has been seen, the record is dropped.
func (v *Versions) Behind(cached metav1.Object, owner types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := v.written[controllers.KeyOf(cached)]
	if w.owner != owner {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), w.resourceVersion)
	if w.uid == cached.GetUID() && err == nil && order < 0 {
		return true
	}
	delete(v.written, controllers.KeyOf(cached))
	return false
}
