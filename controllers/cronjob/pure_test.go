package cronjob_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/cronjob"
	"github.com/keelson-dev/keelson/internal/cronschedule"
)

// at reads a time, or returns the zero time for "".
func at(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	v, err := time.Parse(time.DateTime, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestStarts: which start is due, about how many were missed, and when the next one is.
func TestStarts(t *testing.T) {
	const made = "2026-03-01 08:00:00"
	tight, day := int64(60), int64(24*60*60)
	for _, tt := range []struct {
		name, schedule, last, now string
		deadline                  *int64
		due                       string
		missed                    int64
		next                      string // without the padding
		err                       string
	}{
		{name: "not yet", schedule: "0 * * * *", now: "2026-03-01 08:59:59", next: "2026-03-01 09:00:00"},
		{name: "now", schedule: "0 * * * *", now: "2026-03-01 09:00:00", due: "2026-03-01 09:00:00", next: "2026-03-01 10:00:00"},
		{name: "late", schedule: "0 * * * *", now: "2026-03-01 09:59:59", due: "2026-03-01 09:00:00", next: "2026-03-01 10:00:00"},
		{name: "two missed", schedule: "0 * * * *", now: "2026-03-01 10:00:00", due: "2026-03-01 10:00:00", missed: 2, next: "2026-03-01 11:00:00"},
		{name: "started", schedule: "0 * * * *", last: "2026-03-01 10:00:00", now: "2026-03-01 10:30:00", next: "2026-03-01 11:00:00"},
		{name: "many missed", schedule: "0 * * * *", now: "2026-03-10 10:20:00", due: "2026-03-10 10:00:00", missed: 218, next: "2026-03-10 11:00:00"},
		{name: "a hundred missed", schedule: "* * * * *", now: "2026-03-01 09:40:30", due: "2026-03-01 09:40:00", missed: 100, next: "2026-03-01 09:41:00"},
		{name: "of which few in the deadline", schedule: "0 * * * *", deadline: &day, now: "2026-03-10 10:20:00", due: "2026-03-10 10:00:00", missed: 24, next: "2026-03-10 11:00:00"},
		{name: "none in the deadline", schedule: "0 * * * *", deadline: &tight, now: "2026-03-10 10:20:00", next: "2026-03-10 11:00:00"},
		{name: "just in the deadline", schedule: "0 * * * *", deadline: &tight, now: "2026-03-10 10:00:59", due: "2026-03-10 10:00:00", next: "2026-03-10 11:00:00"},
		{name: "a deadline before the last start", schedule: "0 * * * *", deadline: &day, last: "2026-03-01 10:00:00", now: "2026-03-01 11:00:00", due: "2026-03-01 11:00:00", next: "2026-03-01 12:00:00"},
		{name: "with gaps", schedule: "30 6-16/4 * * 1-5", last: "2026-03-06 14:30:00", now: "2026-03-09 10:45:00", due: "2026-03-09 10:30:00", missed: 2, next: "2026-03-09 14:30:00"},
		{name: "a gap first", schedule: "0 9,10 * * *", last: "2026-03-01 09:00:00", now: "2026-03-03 09:30:00", due: "2026-03-03 09:00:00", missed: 3, next: "2026-03-03 10:00:00"},
		{name: "in a gap", schedule: "0 10-15 * * 1-5", last: "2026-03-06 10:00:00", now: "2026-03-07 12:00:00", missed: 26, next: "2026-03-09 10:00:00"},
		{name: "every so often", schedule: "@every 7m", now: "2026-03-01 09:00:00", due: "2026-03-01 08:56:00", missed: 8, next: "2026-03-01 09:03:00"},
		{name: "never", schedule: "0 0 31 2 *", now: "2026-03-01 09:00:00", err: "time difference between two schedules is less than 1 second"},
		{name: "in another zone", schedule: "TZ=Asia/Kolkata 0 * * * *", now: "2026-03-01 09:00:00", due: "2026-03-01 08:30:00", next: "2026-03-01 09:30:00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := tt.schedule
			if !strings.HasPrefix(text, "TZ=") && !strings.HasPrefix(text, "@") {
				text = "TZ=UTC " + text
			}
			schedule, err := cronschedule.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: at(t, made)}}}
			cj.Spec.StartingDeadlineSeconds = tt.deadline
			if tt.last != "" {
				cj.Status.LastScheduleTime = &metav1.Time{Time: at(t, tt.last)}
			}
			now := at(t, tt.now)
			_, due, missed, err := cronjob.StartsOf(cj, schedule, now, true)
			if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Fatalf("error %v, want %s", err, tt.err)
			}
			if err != nil {
				return
			}
			if !due.Equal(at(t, tt.due)) || missed != tt.missed {
				t.Errorf("due %v with %d missed, want %s with %d", due, missed, tt.due, tt.missed)
			}
			if next := now.Add(cronjob.UntilNext(cj, schedule, now)); !next.Equal(at(t, tt.next).Add(100 * time.Millisecond)) {
				t.Errorf("next %v, want %s", next, tt.next)
			}
		})
	}
}

// TestLocal: a schedule without a time zone is in that of this process.
func TestLocal(t *testing.T) {
	schedule, err := cronschedule.Parse("30 12 * * *")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 2, 12, 31, 0, 0, time.Local)
	elsewhere := time.FixedZone("elsewhere", 5*60*60+40*60)
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: now.Add(-2 * time.Minute).In(elsewhere)}}}
	if _, due, _, err := cronjob.StartsOf(cj, schedule, now, true); err != nil || !due.Equal(now.Add(-time.Minute)) {
		t.Errorf("due %v, %v", due, err)
	}
}

func TestScheduleText(t *testing.T) {
	zone, odd := "Asia/Tokyo", "Nowhere/Land"
	for name, tt := range map[string]struct {
		schedule string
		zone     *string
		want     string
	}{
		"plain":           {"0 * * * *", nil, "0 * * * *"},
		"zone":            {"0 * * * *", &zone, "TZ=Asia/Tokyo 0 * * * *"},
		"unknown zone":    {"0 * * * *", &odd, "0 * * * *"},
		"zone of its own": {"CRON_TZ=UTC 0 * * * *", &zone, "CRON_TZ=UTC 0 * * * *"},
	} {
		if got := cronjob.ScheduleText(&batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: tt.schedule, TimeZone: tt.zone}}); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestOldest(t *testing.T) {
	job := func(name string, start int) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if start > 0 {
			j.Status.StartTime = &metav1.Time{Time: time.Unix(int64(start), 0)}
		}
		return j
	}
	all := []*batchv1.Job{job("z", 0), job("y", 0), job("c", 2), job("b", 2), job("a", 3), job("d", 1)}
	for range 2 {
		var names []string
		for _, j := range cronjob.Oldest(slices.Clone(all), 6) {
			names = append(names, j.Name)
		}
		if got := strings.Join(names, " "); got != "d b c a y z" {
			t.Errorf("order %s", got)
		}
		slices.Reverse(all)
	}
	if got := cronjob.Oldest(all, -3); len(got) != 0 {
		t.Errorf("%d of -3", len(got))
	}
}
