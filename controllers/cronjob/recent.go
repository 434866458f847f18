package cronjob

import (
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/keelson-dev/keelson/controllers"
)

// recent holds the writes that the caches need not show yet: what is decided on an older state would be wrong, and
// reported by events. It is safe for concurrent use.
type recent struct {
	mu       sync.Mutex
	statuses map[controllers.Key]string // resource versions of CronJobs after the last write of their status
	deleted  map[types.UID]bool         // jobs
}

func newRecent() *recent {
	return &recent{statuses: map[controllers.Key]string{}, deleted: map[types.UID]bool{}}
}

// wrote notes what a write of a status returned.
func (r *recent) wrote(cj *batchv1.CronJob) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statuses[controllers.KeyOf(cj)] = cj.ResourceVersion
}

// outdated reports whether a CronJob is from before the last write of its status.
func (r *recent) outdated(cj *batchv1.CronJob) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	version, ok := r.statuses[controllers.KeyOf(cj)]
	if !ok {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(cj.ResourceVersion, version); err == nil && order < 0 {
		return true
	}
	delete(r.statuses, controllers.KeyOf(cj))
	return false
}

// forget drops what is known of a CronJob.
func (r *recent) forget(key controllers.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.statuses, key)
}

// deleting notes that a job is being deleted.
func (r *recent) deleting(job types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deleted[job] = true
}

// gone notes that a job is seen to be gone, or not deleted after all.
func (r *recent) gone(job types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.deleted, job)
}

// going reports whether a job is being deleted by us.
func (r *recent) going(job *batchv1.Job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deleted[job.UID]
}
