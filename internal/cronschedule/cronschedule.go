package cronschedule

import (
	"fmt"
	"time"
	_ "time/tzdata" // a host without a time zone database would refuse, or worse, no longer find the zones of CronJobs

	"github.com/robfig/cron/v3"
)

// Schedule tells when something is due.
type Schedule interface {
	// Next returns the first instant after t at which the schedule is due, or the zero time if there is none within
	// five years. A schedule without a time zone of its own is in that of t.
	Next(t time.Time) time.Time
}

// Parse reads a schedule. The parser panics on a time zone that nothing follows, for which Parse returns an error.
func Parse(schedule string) (s Schedule, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s, err = nil, fmt.Errorf("invalid schedule format: %v", cause)
		}
	}()
	parsed, err := cron.ParseStandard(schedule)
	if err != nil {
		return nil, err
	}
	return parsed, nil
}
