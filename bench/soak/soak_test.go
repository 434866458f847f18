package soak

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/internal/linear"
)

// What make soak sets.
var (
	minutes  = flag.Float64("minutes", 0, "how long to soak; 0 leaves it out")
	fromSeed = flag.Uint64("seed", 0, "of the clients and the faults; 0 takes one")
	results  = flag.String("results", "", "directory to write soak.json to; empty writes nothing")
)

const (
	// leastPoints is how many crash points a soak has, however short it is meant to be.
	leastPoints = 10_000
	roundPoints = 1_000
)

// TestSoak goes round the scenarios until the time is over and there were enough crash points.
func TestSoak(t *testing.T) {
	if *minutes <= 0 {
		t.Skip("the short forms of it are the other tests; make soak runs it")
	}
	s := soak{began: time.Now(), seed: *fromSeed, commit: evidence.Commit(), etcd: startEtcd(t)}
	if s.seed == 0 {
		s.seed = seed()
	}
	for round := uint64(0); ; round++ {
		left := time.Duration(*minutes*float64(time.Minute)) - time.Since(s.began)
		if left <= 0 && s.total.Points >= leastPoints {
			break
		}
		at := s.seed + round*1_000_000
		s.try(t, "crash points", at, func() (figures, error) { return crashes(t.Context(), roundPoints, at) })
		if left <= 0 {
			continue // only crash points are missing
		}
		for n, overTLS := range []bool{false, true} {
			at := at + 100_000 + uint64(n)
			s.try(t, "two servers, one store in memory", at, func() (figures, error) {
				return together(t.Context(), overTLS, 100, linear.Options{Seed: at, Resource: []string{"configmaps", "pods"}[n]})
			})
		}
		for n, through := range [][]int{{0}, {0, 1}, {0, 1}, {2, 3}} {
			at := at + 200_000 + uint64(n)
			s.try(t, "etcd under faults", at, func() (figures, error) {
				f, err := s.etcd.episode(t, through, at, 10*time.Second)
				f.EtcdHistories += f.Histories
				return f, err
			})
		}
	}
	if *results != "" {
		if err := evidence.Write(*results, s.result()); err != nil {
			t.Error(err)
		}
	}
}

// soak is a run with what happened so far.
type soak struct {
	began  time.Time
	seed   uint64
	commit string
	etcd   *ensemble
	total  figures
}

// try runs one scenario.
func (s *soak) try(t *testing.T, what string, seed uint64, run func() (figures, error)) {
	began := time.Now()
	f, err := run()
	if err != nil {
		t.Fatalf("%s, seed %d: %v", what, seed, err)
	}
	if err := context.Cause(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.total.add(f)
	t.Logf("%5.1f min: %s in %.1f s: %d operations, %d watch events; in all %d, %d, %d crash points, %d faults in etcd",
		time.Since(s.began).Minutes(), what, time.Since(began).Seconds(), f.Operations, f.Events,
		s.total.Operations, s.total.Events, s.total.Points, s.total.faults())
}

// result is what results/soak.json says. That it is written means that nothing was violated.
func (s *soak) result() evidence.Result {
	f := s.total
	figure := func(what string, n int) evidence.Figure { return evidence.Figure{What: what, Value: float64(n)} }
	return evidence.Result{Name: "soak", Commit: s.commit, Seed: s.seed, Figures: []evidence.Figure{
		{What: "duration", Value: float64(int(time.Since(s.began).Minutes())), Unit: "min"},
		figure("violations", 0),
		figure("histories, each linearizable by porcupine, key by key and as a whole", f.Histories),
		figure("operations in them", f.Operations),
		figure("acknowledged writes, all of them there", f.Acknowledged),
		figure("writes without an answer", f.Unknown),
		figure("of these, seen to be done all the same", f.Landed),
		figure("lists and pages of the newest state", f.Lists),
		figure("lists at and not older than a revision, each what there was", f.OldReads),
		figure("watches: from all ages, of selectors, resumed", f.Watches),
		figure("of these, told that their revision is gone", f.Expired),
		figure("watch events, no gap, no duplicate, in order", f.Events),
		figure("bookmarks, overtaking nothing", f.Bookmarks),
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
