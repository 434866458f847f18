package kubernetesservice

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/storage"
)

// leases is the prefix under which upstream's servers keep their leases.
const leases = "/registry/masterleases/"

// errNone: no server has a lease, so the endpoints stay unchanged.
var errNone = errors.New("no API server IP addresses were listed in storage, refusing to erase all endpoints for the kubernetes Service")

// peer is a server as seen by this one.
type peer struct {
	revision int64     // of its lease
	heard    time.Time // when this server saw the lease change, by its own clock
}

func (s *Service) leaseKey() string { return leases + s.options.Address.String() }

// renew writes this server's lease. It changes a number in it, so that others see that the server is alive.
func (s *Service) renew(ctx context.Context) error {
	for {
		lease := &corev1.Endpoints{}
		stored, err := s.store.Get(ctx, s.leaseKey())
		if err != nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrUnreadable) {
			return err
		}
		if err == nil {
			if _, err := codec.Decode(stored.Value, lease); err != nil {
				lease = &corev1.Endpoints{}
			}
		}
		lease.Subsets = []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: s.options.Address.String()}}}}
		lease.Generation++
		value, err := codec.Stored(corev1.SchemeGroupVersion.WithKind("Endpoints"), lease)
		if err != nil {
			return err
		}
		err = s.putLease(ctx, value, stored.Revision)
		if !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrExists) && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
}

// putLease replaces the lease at a revision, or creates it with 0. It sets the lease's time to live if the
// store supports that.
func (s *Service) putLease(ctx context.Context, value []byte, revision int64) (err error) {
	lessor, ends := storage.As[storage.Lessor](s.store)
	switch {
	case ends && revision == 0:
		_, err = lessor.CreateFor(ctx, s.leaseKey(), value, s.leaseTime())
	case ends:
		_, err = lessor.UpdateFor(ctx, s.leaseKey(), value, revision, s.leaseTime())
	case revision == 0:
		_, err = s.store.Create(ctx, s.leaseKey(), value)
	default:
		_, err = s.store.Update(ctx, s.leaseKey(), value, revision)
	}
	return err
}

// leaseTime is the time to live of a lease: upstream's servers renew theirs every 10 seconds, for 15.
func (s *Service) leaseTime() time.Duration { return s.options.Interval * 3 / 2 }

// release deletes this server's lease and reports whether there was one.
func (s *Service) release(ctx context.Context) (bool, error) {
	for {
		stored, err := s.store.Get(ctx, s.leaseKey())
		if errors.Is(err, storage.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		_, err = s.store.Delete(ctx, s.leaseKey(), stored.Revision)
		if !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
			return err == nil, err
		}
	}
}

// live returns the sorted addresses of the servers with current leases. It deletes expired leases unless the
// store does so.
func (s *Service) live(ctx context.Context) ([]string, error) {
	page, err := s.store.List(ctx, leases, storage.ListOptions{})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	heard := map[string]peer{}
	var addresses []string
	for _, record := range page.Records {
		address, ok := serverOf(record)
		if !ok {
			continue
		}
		p, known := s.peers[address]
		if !known || p.revision != record.Revision {
			p = peer{record.Revision, now}
		}
		if address != s.options.Address.String() && now.Sub(p.heard) >= s.leaseTime() {
			s.log.Info("an API server's lease has expired; removing its endpoint", "address", address)
			_, err := s.store.Delete(ctx, record.Key, record.Revision)
			if err != nil && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
				return nil, fmt.Errorf("lease of %s: %w", address, err)
			}
			continue
		}
		heard[address] = p
		addresses = append(addresses, address)
	}
	s.peers = heard
	slices.Sort(addresses)
	return addresses, nil
}

// serverOf returns the address of the server whose lease a record holds.
func serverOf(record storage.Record) (string, bool) {
	var lease corev1.Endpoints
	if _, err := codec.Decode(record.Value, &lease); record.Err != nil || err != nil {
		return "", false
	}
	if len(lease.Subsets) == 0 || len(lease.Subsets[0].Addresses) == 0 {
		return "", false
	}
	address := lease.Subsets[0].Addresses[0].IP
	_, err := netip.ParseAddr(address)
	return address, err == nil
}
