package cronschedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/cronschedule"
)

func TestNext(t *testing.T) {
	start := time.Date(2026, 2, 27, 10, 30, 20, 0, time.UTC)
	for schedule, want := range map[string]string{
		"* * * * *":               "2026-02-27 10:31:00",
		"*/15 * * * *":            "2026-02-27 10:45:00",
		"0 0 29 2 *":              "2028-02-29 00:00:00",
		"0 0 1 * 1":               "2026-03-01 00:00:00",
		"@hourly":                 "2026-02-27 11:00:00",
		"@every 90m":              "2026-02-27 12:00:20",
		"TZ=Asia/Tokyo 0 0 * * *": "2026-02-27 15:00:00",
		"CRON_TZ=UTC 0 12 * * *":  "2026-02-27 12:00:00",
		"0 0 31 2 *":              "0001-01-01 00:00:00",
	} {
		s, err := cronschedule.Parse(schedule)
		if err != nil {
			t.Errorf("%s: %v", schedule, err)
		} else if got := s.Next(start).UTC().Format(time.DateTime); got != want {
			t.Errorf("%s: next %s, want %s", schedule, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for schedule, want := range map[string]string{
		"":              "empty spec string",
		"* * * *":       "expected exactly 5 fields, found 4: [* * * *]",
		"60 * * * *":    "end of range (60) above maximum (59): 60",
		"a * * * *":     `failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax`,
		"@never":        "unrecognized descriptor: @never",
		"TZ=Nowhere * ": `provided bad location Nowhere: unknown time zone Nowhere`,
		"TZ=0":          "invalid schedule format: runtime error: slice bounds out of range",
	} {
		s, err := cronschedule.Parse(schedule)
		if err == nil || !strings.Contains(err.Error(), want) || s != nil {
			t.Errorf("%q: %v, %v, want %s", schedule, s, err, want)
		}
	}
}

func ExampleParse() {
	s, err := cronschedule.Parse("30 6 * * 1-5")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Next(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)))
	// Output: 2026-11-30 06:30:00 +0000 UTC
}
