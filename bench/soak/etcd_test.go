package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/internal/linear"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/etcd"
)

const members = 3

// TestEtcdFaults is the short form of what make soak does round by round.
func TestEtcdFaults(t *testing.T) {
	e := startEtcd(t)
	episode := 6 * time.Second
	if testing.Short() {
		episode = 3 * time.Second
	}
	for _, servers := range []int{1, 2} {
		seed := seed()
		f, err := e.episode(t, servers, seed, episode)
		if err != nil {
			t.Fatalf("%d servers, seed %d: %v", servers, seed, err)
		}
		t.Logf("%d servers: %+v", servers, f)
		if f.Acknowledged < 100 || f.Events < 100 || f.faults() == 0 {
			t.Errorf("%d servers, seed %d: too little happened to prove anything: %+v", servers, seed, f)
		}
	}
}

// ensemble is three members of etcd and two API servers on them, each with its own client.
type ensemble struct {
	cluster *etcdtest.Cluster
	servers []http.RoundTripper
}

func startEtcd(t *testing.T) *ensemble {
	e := &ensemble{cluster: etcdtest.Start(t, etcdtest.Options{Members: members})}
	for range 2 {
		store, err := etcd.Open(t.Context(), etcd.Config{Endpoints: e.cluster.Endpoints()}, etcd.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		s, err := start(ctx, store, registry.Options{})
		cancel()
		if err != nil {
			t.Fatal(err, store.Close())
		}
		t.Cleanup(func() {
			if err := s.stop(); err != nil {
				t.Errorf("an API server ended by itself: %v", err)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		e.servers = append(e.servers, s)
	}
	return e
}

// episode has clients work through so many servers, in a namespace of their own, while one thing after the other
// breaks. When the time is over all is made whole.
func (e *ensemble) episode(t *testing.T, servers int, seed uint64, length time.Duration) (figures, error) {
	var f figures
	random := rand.New(rand.NewPCG(seed, 2))
	load := linear.New(linear.Options{
		Resource: []string{"configmaps", "pods"}[seed%2], Namespace: fmt.Sprintf("e%d", seed),
		Seed: seed, Clients: 8, Keys: 4, Watchers: 8, Timeout: 2 * time.Second,
	})
	ctx, cancel := context.WithTimeout(t.Context(), length+3*time.Minute)
	defer cancel()
	if err := load.Begin(ctx, e.servers[:servers]); err != nil {
		return f, err
	}
	working, stop := context.WithTimeout(ctx, length)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		load.Run(working, e.servers[:servers], 0, false)
	}()
	for working.Err() == nil {
		pause(working, random, 300*time.Millisecond)
		if working.Err() == nil {
			e.breakOne(t, working, random, &f)
		}
	}
	e.cluster.Heal()
	<-done
	for i := range members {
		e.cluster.WaitReady(t, i)
	}
	if err := load.Settle(ctx, e.servers[:servers]); err != nil {
		_, checked := load.Check()
		return f, fmt.Errorf("%w; %w", err, keep(checked))
	}
	report, err := load.Check()
	f.Add(report)
	return f, keep(err)
}

func pause(ctx context.Context, random *rand.Rand, mean time.Duration) {
	select {
	case <-time.After(time.Duration(random.Int64N(2 * int64(mean)))):
	case <-ctx.Done():
	}
}

// breakOne breaks one thing, and makes it whole again after a while.
func (e *ensemble) breakOne(t *testing.T, ctx context.Context, random *rand.Rand, f *figures) {
	c := e.cluster
	victim := random.IntN(members)
	leader := random.IntN(2) == 0
	if leader {
		victim = c.Leader(t)
	}
	mode := []etcdtest.Mode{etcdtest.Refuse, etcdtest.Stall}[random.IntN(2)]
	const mean = time.Second
	switch random.IntN(6) {
	case 0:
		c.Kill(t, victim)
		pause(ctx, random, mean)
		c.Restart(t, victim)
		f.MembersKilled++
	case 1:
		c.Pause(t, victim)
		pause(ctx, random, mean)
		c.Resume(t, victim)
		f.MembersFrozen++
	case 2, 3:
		c.Isolate(victim, mode)
		pause(ctx, random, mean)
		c.Heal()
		f.Partitions++
	case 4:
		c.CutClients(victim, mode)
		pause(ctx, random, mean)
		c.Heal()
		f.ClientsCut++
	case 5:
		c.CutOneWay(victim, (victim+1)%members, mode)
		pause(ctx, random, mean)
		c.Heal()
		f.LinksCut++
	}
	if leader {
		f.LeadersHit++
	}
}
