// Package expect keeps a controller from acting twice on a cache that does not show its own
// writes yet.
//
// All types are safe for concurrent use.
package expect

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/keelson-dev/keelson/controllers"
)

// Timeout is how long a write is waited for: a created object that was gone before the cache
// saw it never arrives.
const Timeout = 5 * time.Minute

// Dependents counts, by the key of the controlling object, the dependents created and deleted
// that the cache has yet to show. The zero value is not usable; make one with NewDependents.
type Dependents struct {
	mu     sync.Mutex
	owners map[controllers.Key]*outstanding
}

type outstanding struct {
	creations int
	deletions map[string]bool // by name, since both the mark and the removal are seen
	since     time.Time
}

// NewDependents returns Dependents that wait for nothing.
func NewDependents() *Dependents {
	return &Dependents{owners: map[controllers.Key]*outstanding{}}
}

// Creations says that n dependents of owner are about to be created. What was waited for
// before is forgotten.
func (d *Dependents) Creations(owner controllers.Key, n int) {
	d.set(owner, &outstanding{creations: n, since: time.Now()})
}

// Deletions says that the named dependents of owner are about to be deleted. What was waited
// for before is forgotten.
func (d *Dependents) Deletions(owner controllers.Key, names []string) {
	deletions := make(map[string]bool, len(names))
	for _, name := range names {
		deletions[name] = true
	}
	d.set(owner, &outstanding{deletions: deletions, since: time.Now()})
}

func (d *Dependents) set(owner controllers.Key, o *outstanding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owners[owner] = o
}

// Created says that a dependent has appeared, or that one will not.
func (d *Dependents) Created(owner controllers.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.owners[owner]; o != nil && o.creations > 0 {
		o.creations--
	}
}

// Deleted says that the named dependent is marked or gone, or will not be.
func (d *Dependents) Deleted(owner controllers.Key, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.owners[owner]; o != nil {
		delete(o.deletions, name)
	}
}

// Forget drops what is known of owner.
func (d *Dependents) Forget(owner controllers.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.owners, owner)
}

// Wait returns how long the writes for owner are still to be waited for; 0 when all have been
// seen or the Timeout has passed.
func (d *Dependents) Wait(owner controllers.Key, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.owners[owner]
	if o == nil || o.creations == 0 && len(o.deletions) == 0 {
		return 0
	}
	return max(0, o.since.Add(Timeout).Sub(now))
}

// Versions remembers the resource version each object had after the last write to it, and for
// whom it was written. The zero value is not usable; make one with NewVersions.
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

// Wrote notes the state a write returned. Owner is the uid of the object whose reconciliation
// wrote it, which may be obj itself.
func (v *Versions) Wrote(obj metav1.Object, owner types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.written[controllers.KeyOf(obj)] = version{obj.GetUID(), owner, obj.GetResourceVersion()}
}

// Forget drops what is known of an object.
func (v *Versions) Forget(key controllers.Key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.written, key)
}

// Behind tells that a cached object is older than the last write to it, if that was for owner.
// The change is on its way to the cache then, and its arrival enqueues the owner. Once it has
// been seen the write is forgotten.
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
