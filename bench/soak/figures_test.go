package soak

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/internal/linear"
	"github.com/keelson-dev/keelson/storage/wal"
)

// figures record what happened in a run.
type figures struct {
	linear.Report
	Points, PowerCuts, Kills int // of the embedded store
	// Faults of etcd's members.
	MembersKilled, MembersFrozen, Partitions, ClientsCut, LinksCut int
	// Kills of API servers on etcd, and compactions.
	ServersKilled, Compactions int
	// LeadersHit is how many of the members' faults hit the leader.
	LeadersHit int
	// EtcdHistories is the number of histories on etcd.
	EtcdHistories int
}

func (f *figures) add(o figures) {
	f.Report.Add(o.Report)
	for _, p := range []struct {
		to   *int
		more int
	}{
		{&f.Points, o.Points}, {&f.PowerCuts, o.PowerCuts}, {&f.Kills, o.Kills},
		{&f.MembersKilled, o.MembersKilled}, {&f.MembersFrozen, o.MembersFrozen}, {&f.Partitions, o.Partitions},
		{&f.ClientsCut, o.ClientsCut}, {&f.LinksCut, o.LinksCut}, {&f.LeadersHit, o.LeadersHit}, {&f.ServersKilled, o.ServersKilled}, {&f.Compactions, o.Compactions},
		{&f.EtcdHistories, o.EtcdHistories},
	} {
		*p.to += p.more
	}
}

// violations counts the violations in an error: each problem found in a history, and each store damaged by a crash.
func violations(err error) int {
	return evidence.Count(err, func(e error) int {
		switch v := e.(type) { //nolint:errorlint // Count unwraps
		case *linear.Violation:
			return len(v.Problems)
		case *wal.CorruptError:
			return 1
		}
		if e == linear.ErrViolated { //nolint:errorlint // Count unwraps
			return 1
		}
		return 0
	})
}

// faults returns the number of faults in etcd.
func (f *figures) faults() int {
	return f.MembersKilled + f.MembersFrozen + f.Partitions + f.ClientsCut + f.LinksCut + f.ServersKilled
}

// seed is for tests whose seed is not given.
func seed() uint64 { return uint64(time.Now().UnixNano()) }

// keep writes a violation to a file and returns where.
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
