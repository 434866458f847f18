package cronjob

import (
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/cronschedule"
)

// padding is how long after a start is due the CronJob is looked at, so that clocks that differ a little do not miss it.
const padding = 100 * time.Millisecond

// many is the number of missed starts above which there is an event.
const many = 100

var errTooClose = errors.New("time difference between two schedules is less than 1 second")

// starts says what a CronJob is due to do.
type starts struct {
	since  time.Time // from when on starts were looked for
	last   time.Time // the last one that is due; zero if none is
	missed int64     // about how many there were since then, if more than one
}

// startsOf finds the starts of a CronJob that are due and not made. deadline says whether those whose deadline is over
// count. It fails if the schedule is never due.
//
// The last start is found without visiting the ones before: the time between the first two is taken for the time
// between any two. In a gap of a schedule that has some, none may be found; upstream does the same.
func startsOf(cj *batchv1.CronJob, schedule cronschedule.Schedule, now time.Time, deadline bool) (starts, error) {
	s := starts{since: cj.CreationTimestamp.Time}
	if cj.Status.LastScheduleTime != nil {
		s.since = cj.Status.LastScheduleTime.Time
	}
	if seconds := cj.Spec.StartingDeadlineSeconds; deadline && seconds != nil {
		if from := now.Add(-time.Duration(*seconds) * time.Second); from.After(s.since) {
			s.since = from
		}
	}
	s.since = s.since.Local() // schedules without a time zone are in the one of this process
	first := schedule.Next(s.since)
	if now.Before(first) {
		return s, nil
	}
	second := schedule.Next(first)
	if now.Before(second) {
		s.last = first
		return s, nil
	}
	between := int64(second.Sub(first).Round(time.Second) / time.Second)
	if between < 1 {
		return s, errTooClose
	}
	s.missed = int64(now.Sub(first)/time.Second)/between + 1
	from := first.Add(time.Duration((s.missed-2)*between) * time.Second)
	for at := schedule.Next(from); !at.After(now); at = schedule.Next(at) {
		s.last = at
	}
	return s, nil
}

// untilNext returns how long to wait until the next start is due.
func untilNext(cj *batchv1.CronJob, schedule cronschedule.Schedule, now time.Time) time.Duration {
	s, err := startsOf(cj, schedule, now, false)
	from := s.last
	switch {
	case err != nil, from.IsZero() && s.missed > 0:
		from = now
	case from.IsZero():
		from = s.since
	}
	return schedule.Next(from).Add(padding).Sub(now)
}

// scheduleText returns the schedule of a CronJob in its time zone.
func scheduleText(cj *batchv1.CronJob) string {
	if ownZone(cj) || cj.Spec.TimeZone == nil {
		return cj.Spec.Schedule
	}
	if _, err := time.LoadLocation(*cj.Spec.TimeZone); err != nil {
		return cj.Spec.Schedule
	}
	return fmt.Sprintf("TZ=%s %s", *cj.Spec.TimeZone, cj.Spec.Schedule)
}

// ownZone reports whether the schedule names a time zone itself, which old CronJobs may.
func ownZone(cj *batchv1.CronJob) bool { return strings.Contains(cj.Spec.Schedule, "TZ") }

// parse reads the schedule of a CronJob. If it cannot be read, it is reported and not ok.
func (r *run) parse() (schedule cronschedule.Schedule, ok bool) {
	if zone := r.cj.Spec.TimeZone; zone != nil {
		if _, err := time.LoadLocation(*zone); err != nil {
			r.event(corev1.EventTypeWarning, "UnknownTimeZone", "invalid timeZone: %q: %s", *zone, err)
			return nil, false
		}
	}
	if r.cj.Spec.Suspend != nil && *r.cj.Spec.Suspend {
		return nil, false
	}
	if ownZone(r.cj) {
		r.event(corev1.EventTypeWarning, "UnsupportedSchedule", "CRON_TZ or TZ used in schedule %q is not officially supported, see "+
			"https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", r.cj.Spec.Schedule)
	}
	schedule, err := cronschedule.Parse(scheduleText(r.cj))
	if err != nil {
		r.event(corev1.EventTypeWarning, "UnparseableSchedule", "unparseable schedule: %q : %s", r.cj.Spec.Schedule, err)
		return nil, false
	}
	return schedule, true
}
