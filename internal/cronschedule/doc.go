// Package cronschedule reads the schedules of CronJobs: five fields of a crontab, or a descriptor such as @hourly. It
// wraps the parser that upstream uses, because the messages of its errors are part of the API. Importing it also makes
// the time zone database available, whatever the host has installed.
//
// Parse returns an error for what it cannot read, and never panics. A Schedule is immutable and safe for concurrent use.
package cronschedule
