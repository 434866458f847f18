package soak

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/keelson-dev/keelson/internal/linear"
)

// figures are what happened in a run.
type figures struct {
	linear.Report
	Points, PowerCuts, Kills int // of the embedded store
}

func (f *figures) add(o figures) {
	f.Report.Add(o.Report)
	f.Points += o.Points
	f.PowerCuts += o.PowerCuts
	f.Kills += o.Kills
}

// seed is of a test that nobody asked to be repeated.
func seed() uint64 { return uint64(time.Now().UnixNano()) }

// keep writes a violation down and says where.
func keep(err error) error {
	var v *linear.Violation
	if !errors.As(err, &v) {
		return err
	}
	at, mkdir := os.MkdirTemp("", "keelson-soak-")
	if mkdir != nil {
		return errors.Join(err, mkdir)
	}
	return errors.Join(fmt.Errorf("%w\nthe history is in %s", err, at), v.Save(at))
}
