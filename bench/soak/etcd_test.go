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

// TestEtcdFaults is the short form of the rounds of make soak.
func TestEtcdFaults(t *testing.T) {
	e := startEtcd(t)
	episode := 6 * time.Second
	if testing.Short() {
		episode = 3 * time.Second
	}
	for _, through := range [][]int{{0}, {0, 1}, {2, 3}} {
		var all figures
		// A slow machine needs more episodes until enough has been checked.
		for n := 0; all.Acknowledged < 50 || all.Events < 100 || all.faults()+all.Compactions == 0; n++ {
			if n == 20 {
				t.Fatalf("servers %v: too little happened to prove anything: %+v", through, all)
			}
			seed := seed()
			f, err := e.episode(t, through, seed, episode)
			if err != nil {
				t.Fatalf("servers %v, seed %d: %v", through, seed, err)
			}
			t.Logf("servers %v: %+v", through, f)
			all.add(f)
		}
	}
}

// ensemble is three members of etcd and API servers on them, each with its own client: 0 and 1 know all members, 2 and
// 3 only one each, and are partitioned together with it.
type ensemble struct {
	cluster *etcdtest.Cluster
	stores  []*etcd.Store
	doors   []*door
}

// patience is the time limit for what must succeed; busy machines are slow.
const patience = 2 * time.Minute

func startEtcd(t *testing.T) *ensemble {
	e := &ensemble{cluster: etcdtest.Start(t, etcdtest.Options{Members: members})}
	all := e.cluster.Endpoints()
	for i, endpoints := range [][]string{all, all, all[:1], all[1:2]} {
		store, err := etcd.Open(t.Context(), etcd.Config{Endpoints: endpoints}, etcd.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e.stores, e.doors = append(e.stores, store), append(e.doors, &door{})
		t.Cleanup(func() {
			if s := e.doors[i].lead(nil); s != nil {
				if err := s.stop(); err != nil {
					t.Errorf("API server %d ended by itself: %v", i, err)
				}
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		e.serve(t, i)
	}
	return e
}

// serve starts an API server.
func (e *ensemble) serve(t *testing.T, i int) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := start(ctx, e.stores[i], registry.Options{})
	if err != nil {
		t.Fatalf("start API server %d: %v", i, err)
	}
	e.doors[i].lead(s)
}

// episode runs clients through some servers, in their own namespace, while one thing after another fails. At the end
// everything is repaired.
func (e *ensemble) episode(t *testing.T, through []int, seed uint64, length time.Duration) (figures, error) {
	var f figures
	random := rand.New(rand.NewPCG(seed, 2))
	load := linear.New(linear.Options{
		Resource: []string{"configmaps", "pods"}[seed%2], Namespace: fmt.Sprintf("e%d", seed),
		Seed: seed, Clients: 8, Keys: 4, Watchers: 8, Timeout: 2 * time.Second,
	})
	ctx, cancel := context.WithTimeout(t.Context(), length+patience)
	defer cancel()
	var servers []http.RoundTripper
	for _, n := range through {
		servers = append(servers, e.doors[n])
	}
	if err := load.Begin(ctx, servers); err != nil {
		return f, err
	}
	working, stop := context.WithTimeout(ctx, length)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		load.Run(working, servers, 0, false)
	}()
	for working.Err() == nil {
		pause(working, random, 300*time.Millisecond)
		if working.Err() == nil {
			e.breakOne(t, working, fault{random, &f, through})
		}
	}
	e.cluster.Heal()
	<-done
	for i := range members {
		e.cluster.WaitReady(t, i)
	}
	if err := load.Settle(ctx, servers); err != nil {
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

// fault is what fails.
type fault struct {
	random  *rand.Rand
	figures *figures
	servers []int
}

// breakOne breaks one thing, and repairs it after a while.
func (e *ensemble) breakOne(t *testing.T, ctx context.Context, x fault) {
	const mean = time.Second
	c, random, f := e.cluster, x.random, x.figures
	victim, kind := random.IntN(members), random.IntN(9)
	if leader := random.IntN(2) == 0; leader && kind < 7 {
		victim = c.Leader(t)
		f.LeadersHit++
	}
	mode := []etcdtest.Mode{etcdtest.Refuse, etcdtest.Stall}[random.IntN(2)]
	switch kind {
	case 0, 1:
		c.Kill(t, victim)
		pause(ctx, random, mean)
		c.Restart(t, victim)
		f.MembersKilled++
	case 2:
		c.Pause(t, victim)
		pause(ctx, random, mean)
		c.Resume(t, victim)
		f.MembersFrozen++
	case 3, 4:
		c.Isolate(victim, mode)
		pause(ctx, random, mean)
		c.Heal()
		f.Partitions++
	case 5:
		c.CutClients(victim, mode)
		pause(ctx, random, mean)
		c.Heal()
		f.ClientsCut++
	case 6:
		c.CutOneWay(victim, (victim+1)%members, mode)
		pause(ctx, random, mean)
		c.Heal()
		f.LinksCut++
	case 7:
		n := x.servers[random.IntN(len(x.servers))]
		if err := e.doors[n].lead(nil).kill(); err != nil {
			t.Fatalf("API server %d ended by itself: %v", n, err)
		}
		pause(ctx, random, mean/4)
		e.serve(t, n)
		f.ServersKilled++
	case 8:
		e.compact(t)
		f.Compactions++
	}
}

// compact compacts the history. Servers that are further behind have to start over.
func (e *ensemble) compact(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	at, err := e.stores[0].Revision(ctx)
	if err == nil {
		err = e.stores[0].Compact(ctx, at)
	}
	if err != nil {
		t.Logf("not compacted: %v", err) // others may be slow to come back
	}
}
