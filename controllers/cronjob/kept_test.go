package cronjob_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// TestNothingIsKept: memory is bounded by the CronJobs that are there.
func TestNothingIsKept(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(cron("*/10 * * * *", func(s *batchv1.CronJobSpec) { s.SuccessfulJobsHistoryLimit = new(int32(0)) }))
		b.until("00:10:01")
		b.finish(b.job("00:10"), "Complete")
		b.until("00:11:00")
		b.wantJobs("after its end")
		if cronJobs, jobs := b.controller.Kept(); cronJobs > 1 || jobs != 0 {
			b.Errorf("%d CronJobs and %d jobs are kept", cronJobs, jobs)
		}
		b.controller.Remember(b.cronJob())
		b.remove(target(cronJobs, "cj"))
		b.until("00:12:00")
		if cronJobs, jobs := b.controller.Kept(); cronJobs+jobs > 0 {
			b.Errorf("%d CronJobs and %d jobs are kept of one that is gone", cronJobs, jobs)
		}
	})
}
