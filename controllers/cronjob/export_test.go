package cronjob

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/keelson-dev/keelson/internal/cronschedule"
)

// StartsOf is the pure part, for tables.
func StartsOf(cj *batchv1.CronJob, schedule cronschedule.Schedule, now time.Time, deadline bool) (since, last time.Time, missed int64, err error) {
	s, err := startsOf(cj, schedule, now, deadline)
	return s.since, s.last, s.missed, err
}

// The other pure parts.
var (
	UntilNext    = untilNext
	ScheduleText = scheduleText
	Oldest       = oldest
)

// Kept returns of how many CronJobs and jobs the controller remembers something.
func (c *Controller) Kept() (cronJobs, jobs int) {
	c.recent.mu.Lock()
	defer c.recent.mu.Unlock()
	return len(c.recent.statuses), len(c.recent.deleted)
}

// Remember has the controller remember a CronJob as if it had just written its status.
func (c *Controller) Remember(cj *batchv1.CronJob) { c.recent.wrote(cj) }
