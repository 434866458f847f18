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

// Lease is an address that host-local has allocated for an attachment.
type Lease struct {
	Address                netip.Addr // leased to the attachment
	ContainerID, Interface string     // of the attachment
}

// Leases returns the allocated addresses, in order. They reveal leftovers of pods.
func (b *Bridge) Leases() ([]Lease, error) {
	files, err := os.ReadDir(b.leaseDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []Lease
	for _, f := range files {
		addr, err := netip.ParseAddr(f.Name())
		if err != nil {
			continue // not a lease: its lock, or its last address
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

// Release frees the addresses, port mappings and cached results of containers that are not live, and returns the freed
// leases. Normally the runtime's DEL does it; this is for leftovers of a runtime whose state is lost, or that was
// killed at the wrong moment. Meanwhile nothing may attach containers that live does not know.
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

// lockLeases locks out host-local. It waits until the context ends.
func (b *Bridge) lockLeases(ctx context.Context) (unlock func(), err error) {
	path := filepath.Join(b.leaseDir(), "lock")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil // host-local has not run yet
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

// removeResults removes the results that libcni has cached for the network's containers.
func (b *Bridge) removeResults(live func(containerID string) bool) error {
	dir := b.ResultDir()
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
		// The prefix may also belong to a longer name.
		if err != nil || json.Unmarshal(data, &cached) != nil || cached.NetworkName != b.options.Network || live(cached.ContainerID) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
