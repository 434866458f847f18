package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/internal/linear"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/wal"
	"github.com/keelson-dev/keelson/storage/wal/waltest"
)

// A point is one life of a server on the embedded store: it opens what the last crash left, shows what was
// acknowledged, serves, and loses power or is killed in the middle of some disk operation.
const pointsPerDisk = 20

// TestCrashPoints is the short form: make soak runs 10,000 points in each round.
func TestCrashPoints(t *testing.T) {
	points := 600
	if testing.Short() {
		points = 100
	}
	seed := seed()
	f, err := crashes(t.Context(), points, seed)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	t.Logf("%+v", f)
	if f.Points < points || f.Unknown < points/4 || f.Landed == 0 || f.Acknowledged < 4*points || f.Events < points {
		t.Errorf("seed %d: too little happened to prove anything: %+v", seed, f)
	}
}

// A disk that loses synced data must be detected.
func TestCrashPointsNoticeMissingSync(t *testing.T) {
	for seed := range uint64(3) {
		_, err := lives(t.Context(), seed, waltest.Options{IgnoreSync: true})
		var corrupt *wal.CorruptError
		if !errors.Is(err, linear.ErrViolated) && !errors.As(err, &corrupt) {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// crashes runs that many points, on several disks concurrently. Each disk has its own history, checked as a whole.
func crashes(ctx context.Context, points int, seed uint64) (figures, error) {
	var (
		mu      sync.Mutex
		total   figures
		failed  []error
		workers sync.WaitGroup
		disks   = make(chan uint64)
	)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for n := range disks {
				f, err := lives(ctx, seed+n, waltest.Options{})
				err = keep(err)
				mu.Lock()
				total.add(f)
				if err != nil {
					failed = append(failed, fmt.Errorf("disk %d: %w", seed+n, err))
				}
				mu.Unlock()
			}
		})
	}
	for n := range uint64((points + pointsPerDisk - 1) / pointsPerDisk) {
		mu.Lock()
		over := len(failed) > 0 || ctx.Err() != nil
		mu.Unlock()
		if over {
			break
		}
		disks <- n
	}
	close(disks)
	workers.Wait()
	return total, errors.Join(append(failed, ctx.Err())...)
}

// lives runs the history of one disk.
func lives(ctx context.Context, seed uint64, o waltest.Options) (figures, error) {
	var f figures
	random, disk := rand.New(rand.NewPCG(seed, 1)), waltest.NewDisk(o)
	resource := []string{"configmaps", "pods"}[seed%2]
	load := linear.New(linear.Options{Resource: resource, Seed: seed, Clients: 4, Keys: 3, Watchers: 3})
	begun := false
	for range pointsPerDisk {
		disk.CrashAfter(random.IntN(40))
		err := live(ctx, disk, random, func(servers []http.RoundTripper) error {
			if !begun {
				if err := load.Begin(ctx, servers); err != nil {
					return err
				}
				begun = true
			} else if err := load.Look(ctx, servers); err != nil {
				return err
			}
			load.Run(ctx, servers, 4+random.IntN(12), true)
			return nil
		})
		if err != nil {
			return f, err
		}
		load.Lost()
		f.Points++
		if random.IntN(4) == 0 {
			disk.Revive()
			f.Kills++
		} else {
			disk.PowerOn(random)
			f.PowerCuts++
		}
	}
	disk.CrashAfter(-1)
	err := live(ctx, disk, random, func(servers []http.RoundTripper) error {
		if !begun {
			return load.Begin(ctx, servers)
		}
		return errors.Join(load.Look(ctx, servers), load.Settle(ctx, servers))
	})
	if err != nil {
		return f, err
	}
	report, err := load.Check()
	f.Add(report)
	return f, err
}

// live opens the store and serves it. A crash of the disk is not an error.
func live(ctx context.Context, disk *waltest.Disk, random *rand.Rand, use func([]http.RoundTripper) error) error {
	store, err := disk.Open(wal.Options{History: 1 + random.IntN(200), CompactBytes: int64(1 + random.IntN(20_000))})
	if err != nil {
		if disk.Crashed() {
			return nil
		}
		return err
	}
	server, err := start(ctx, store, registry.Options{})
	if err == nil {
		err = errors.Join(use([]http.RoundTripper{server}), server.stop())
	}
	if closing := store.Close(); closing != nil && !disk.Crashed() {
		err = errors.Join(err, closing)
	}
	return err
}
