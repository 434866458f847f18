package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Lease is an address that host-local has given to a pod.
type Lease struct {
	Address                netip.Addr
	ContainerID, Interface string
}

// Leases are the addresses on record, in their order. They show what is left of pods.
func (b *Bridge) Leases() ([]Lease, error) {
	files, err := os.ReadDir(b.leaseDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []Lease
	for _, f := range files {
		addr, err := netip.ParseAddr(f.Name())
		if err != nil {
			continue // its lock, and where it goes on
		}
		data, err := os.ReadFile(filepath.Join(b.leaseDir(), f.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		id, ifname, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
		all = append(all, Lease{Address: addr, ContainerID: strings.TrimSpace(id), Interface: strings.TrimSpace(ifname)})
	}
	slices.SortFunc(all, func(a, b Lease) int { return a.Address.Compare(b.Address) })
	return all, nil
}

// Release frees the addresses, port mappings and cached results of containers that are not live,
// and returns the leases that it freed. The runtime's DEL does it as a rule; this is for what is
// left when a runtime and its memory are gone, or when it was killed at the wrong moment. Nothing
// may be attached to the bridge meanwhile that live does not know of.
func (b *Bridge) Release(ctx context.Context, live func(containerID string) bool) ([]Lease, error) {
	unlock, err := b.lockLeases(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	all, err := b.Leases()
	if err != nil {
		return nil, err
	}
	var freed []Lease
	var errs []error
	for _, l := range all {
		if live(l.ContainerID) {
			continue
		}
		if err := os.Remove(filepath.Join(b.leaseDir(), l.Address.String())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		freed = append(freed, l)
	}
	errs = append(errs, b.removeMappings(ctx, live), b.removeResults(live))
	return freed, errors.Join(errs...)
}

// lockLeases keeps host-local out. It waits for as long as the context lets it.
func (b *Bridge) lockLeases(ctx context.Context) (unlock func(), err error) {
	path := filepath.Join(b.leaseDir(), "lock")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil // host-local has not run yet, or does not any more
	}
	if err != nil {
		return nil, err
	}
	for {
		if err = tryLock(file); err == nil {
			return func() { _ = file.Close() }, nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s: %w", path, errors.Join(ctx.Err(), err, file.Close()))
		}
	}
}

// removeResults removes what libcni has cached for the network's containers.
func (b *Bridge) removeResults(live func(containerID string) bool) error {
	dir := filepath.Join(b.options.CacheDir, "results")
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), b.options.Network+"-") {
			continue
		}
		var cached struct {
			NetworkName, ContainerID string
		}
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		// The prefix may also be that of a longer name.
		if err != nil || json.Unmarshal(data, &cached) != nil || cached.NetworkName != b.options.Network || live(cached.ContainerID) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
