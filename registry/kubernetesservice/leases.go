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

// leases is where upstream's servers keep theirs.
const leases = "/registry/masterleases/"

// errNone: there is no server's lease, so the endpoints are left as they are.
var errNone = errors.New("no API server IP addresses were listed in storage, refusing to erase all endpoints for the kubernetes Service")

// peer is a server as seen from here.
type peer struct {
	revision int64     // of its lease
	heard    time.Time // when that was seen to change, by this server's clock
}

func (s *Service) leaseKey() string { return leases + s.options.Address.String() }

// renew writes this server's lease. What changes in it is a number, so that others see it live.
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

// putLease writes the lease over that of a revision, or with 0 over none: for as long as it is good,
// where the store sees to that.
func (s *Service) putLease(ctx context.Context, value []byte, revision int64) (err error) {
	lessor, ends := s.store.(storage.Lessor)
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

// leaseTime is how long a lease is good for: upstream's servers renew theirs every 10 seconds, for 15.
func (s *Service) leaseTime() time.Duration { return s.options.Interval * 3 / 2 }

// release takes this server's lease away. It tells whether there was one.
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

// live are the addresses of the servers whose leases are renewed, in order. Leases that are not
// any more are taken away, where the store has not done that.
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
			s.log.Info("an API server has not been heard of for long, its endpoint goes", "address", address)
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

// serverOf is the address that a lease is for.
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
