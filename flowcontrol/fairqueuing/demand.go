package fairqueuing

import (
	"math"
	"time"

	"github.com/keelson-dev/keelson/flowcontrol"
)

// demand follows how many seats a level could use: those of requests that are served or wait.
type demand struct {
	now          int
	since, began time.Time // of the present number, and of the period
	most         int
	sum, squares float64 // over the period, in seats and seconds
	// What came out of the last period.
	high                         int
	average, deviation, smoothed float64
}

// set notes another number.
func (d *demand) set(n int, now time.Time) {
	d.add(now)
	d.now = n
	d.most = max(d.most, n)
}

func (d *demand) add(now time.Time) {
	seconds, n := now.Sub(d.since).Seconds(), float64(d.now)
	d.sum += n * seconds
	d.squares += n * n * seconds
	d.since = now
}

// close ends a period, or several in which nothing was closed.
func (d *demand) close(now time.Time, periods int) {
	d.add(now)
	d.high = d.most
	if seconds := now.Sub(d.began).Seconds(); seconds > 0 {
		d.average = d.sum / seconds
		d.deviation = math.Sqrt(max(0, d.squares/seconds-d.average*d.average))
		for range periods {
			d.smoothed = flowcontrol.Smooth(d.smoothed, d.average, d.deviation)
		}
	}
	d.began, d.most, d.sum, d.squares = now, d.now, 0, 0
}

// patience is what rejected clients are asked for: it doubles while many are rejected, and falls by a second when few are.
type patience struct {
	seconds   int64                         // 0 is 1
	changed   int64                         // when it was last doubled, in seconds
	rejection [32]struct{ at, count int64 } // by second, in turn
}

const longestPatience = 32

// rejected notes a rejection and returns how long the client is to wait.
func (p *patience) rejected(now time.Time) time.Duration {
	at := now.Unix()
	p.seconds = max(p.seconds, 1)
	slot := &p.rejection[at%int64(len(p.rejection))]
	if slot.at != at {
		p.judge(at)
		slot.at, slot.count = at, 0
	}
	slot.count++
	return time.Duration(p.seconds) * time.Second
}

// judge is called at the first rejection in a second.
func (p *patience) judge(at int64) {
	var recent int64
	for _, r := range p.rejection {
		if r.at < at && at-r.at <= p.seconds {
			recent += r.count
		}
	}
	switch {
	case at-p.changed >= p.seconds && recent >= 3*p.seconds:
		p.seconds, p.changed = min(2*p.seconds, longestPatience), at
	case recent < p.seconds && p.seconds > 1:
		p.seconds--
	}
}
