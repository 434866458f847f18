package soak

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/internal/linear"
)

// Flags that make soak sets.
var (
	minutes  = flag.Float64("minutes", 0, "how long to soak; 0 leaves it out")
	fromSeed = flag.Uint64("seed", 0, "of the clients and the faults; 0 takes one")
	results  = flag.String("results", "", "directory to write soak.json to; empty writes nothing")
)

const (
	// leastPoints is the minimum number of crash points in a soak, however short.
	leastPoints = 10_000
	roundPoints = 1_000
)

// TestSoak cycles through the scenarios until the time is over and there were enough crash points.
func TestSoak(t *testing.T) {
	if *minutes <= 0 {
		t.Skip("the short forms of it are the other tests; make soak runs it")
	}
	begun, err := evidence.Begin(*results, "soak")
	if err != nil {
		t.Fatal(err)
	}
	s := soak{began: time.Now(), seed: *fromSeed}
	// Registered first in order to run last.
	t.Cleanup(func() {
		if t.Failed() {
			s.failed = errors.Join(s.failed, errFailed)
		}
		if err := begun.End(s.result(), s.failed); err != nil {
			t.Error(err)
		}
	})
	s.etcd = startEtcd(t)
	if s.seed == 0 {
		s.seed = seed()
	}
	for round := uint64(0); ; round++ {
		left := time.Duration(*minutes*float64(time.Minute)) - time.Since(s.began)
		if left <= 0 && s.total.Points >= leastPoints {
			break
		}
		if s.failed = s.round(t, round, left > 0); s.failed != nil {
			t.FailNow()
		}
	}
}

// errFailed stands for a failure whose details are only in the test's log.
var errFailed = errors.New("the soak's test failed; its log tells why")

// round runs all scenarios once, or only crash points.
func (s *soak) round(t *testing.T, number uint64, all bool) error {
	at := s.seed + number*1_000_000
	err := s.try(t, "crash points", at, func() (figures, error) { return crashes(t.Context(), roundPoints, at) })
	if err != nil || !all {
		return err
	}
	for n, overTLS := range []bool{false, true} {
		at := at + 100_000 + uint64(n)
		err := s.try(t, "two servers, one store in memory", at, func() (figures, error) {
			return together(t.Context(), overTLS, 100, linear.Options{Seed: at, Resource: []string{"configmaps", "pods"}[n]})
		})
		if err != nil {
			return err
		}
	}
	for n, through := range [][]int{{0}, {0, 1}, {0, 1}, {2, 3}} {
		at := at + 200_000 + uint64(n)
		err := s.try(t, "etcd under faults", at, func() (figures, error) {
			f, err := s.etcd.episode(t, through, at, 10*time.Second)
			f.EtcdHistories += f.Histories
			return f, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// soak is a run and what has happened so far.
type soak struct {
	began  time.Time
	seed   uint64
	etcd   *ensemble
	total  figures
	failed error
}

// try runs one scenario. Its figures count even if it fails.
func (s *soak) try(t *testing.T, what string, seed uint64, run func() (figures, error)) error {
	began := time.Now()
	f, err := run()
	s.total.add(f)
	if err = errors.Join(err, context.Cause(t.Context())); err != nil {
		return fmt.Errorf("%s, seed %d: %w", what, seed, err)
	}
	t.Logf("%5.1f min: %s in %.1f s: %d operations, %d watch events; in all %d, %d, %d crash points, %d faults in etcd",
		time.Since(s.began).Minutes(), what, time.Since(began).Seconds(), f.Operations, f.Events,
		s.total.Operations, s.total.Events, s.total.Points, s.total.faults())
	return nil
}

// result is the content of results/soak.json.
func (s *soak) result() evidence.Result {
	f := s.total
	figure := func(what string, n int) evidence.Figure { return evidence.Figure{What: what, Value: float64(n)} }
	return evidence.Result{Seed: s.seed, Figures: []evidence.Figure{
		{What: "duration", Value: float64(int(time.Since(s.began).Minutes())), Unit: "min"},
		figure("violations", violations(s.failed)),
		figure("histories, each held to linearizability by porcupine, key by key and as a whole", f.Histories),
		figure("operations in them", f.Operations),
		figure("acknowledged writes", f.Acknowledged),
		figure("writes without an answer", f.Unknown),
		figure("of these, seen to be done all the same", f.Landed),
		figure("lists and pages of the newest state", f.Lists),
		figure("lists at and not older than a revision, each held to what there was", f.OldReads),
		figure("watches: from all ages, of selectors, resumed", f.Watches),
		figure("of these, told that their revision is gone", f.Expired),
		figure("watch events, held to the log: gaps, duplicates, order", f.Events),
		figure("bookmarks, held to overtake nothing", f.Bookmarks),
		figure("watches and lists that could not be judged whole, since what happened during a crash is not known", f.Unjudged),
		figure("crash points of the embedded store: power cuts", f.PowerCuts),
		figure("crash points of the embedded store: killed processes", f.Kills),
		figure("histories on three members of etcd, by one and by two API servers", f.EtcdHistories),
		figure("members of etcd killed and started again", f.MembersKilled),
		figure("members of etcd frozen", f.MembersFrozen),
		figure("members of etcd cut off from the others", f.Partitions),
		figure("connections between two members of etcd cut", f.LinksCut),
		figure("clients cut off from a member of etcd", f.ClientsCut),
		figure("of all these faults, of the leader", f.LeadersHit),
		figure("API servers on etcd killed and started again", f.ServersKilled),
		figure("compactions of etcd", f.Compactions),
	}}
}
