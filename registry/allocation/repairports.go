package allocation

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/storage"
)

// tries is how often a round for ports is repeated if the record changes meanwhile.
const tries = 5

func (r *Repair) repairPorts(ctx context.Context) error {
	if r.ports == nil {
		return nil
	}
	for range tries {
		err := r.checkPorts(ctx)
		switch {
		case errors.Is(err, ErrNotReady):
			services, err := r.services(ctx)
			if err != nil {
				return err
			}
			if err := r.ports.Init(ctx, UsedPorts(services)); err != nil {
				return fmt.Errorf("make the record of node ports: %w", err)
			}
		case !errors.Is(err, errPreempted):
			return err
		}
	}
	return nil // missing allocations were only seen, not lost: the next round tries again
}

// checkPorts reads the record before the services: a service that gets a port in between changes the record,
// and then this round changes nothing.
func (r *Repair) checkPorts(ctx context.Context) error {
	record, err := r.ports.read(ctx)
	if err != nil {
		return err
	}
	if err := r.forgetFreed(ctx, record.revision); err != nil {
		return err
	}
	services, err := r.services(ctx)
	if err != nil {
		return err
	}
	used := r.usedPorts(services, record)
	now := time.Now()
	var take, free []int
	unused := map[int]time.Time{}
	for i := range r.ports.ports.Size {
		port := r.ports.ports.First + i
		switch taken := record.bits.Bit(i) == 1; {
		case used[port] && !taken:
			take = append(take, port)
		case taken && !used[port]:
			since, known := r.unusedPorts[port]
			if !known {
				since = now
			}
			unused[port] = since
			if now.Sub(since) >= leakAge {
				free = append(free, port)
			}
		}
	}
	r.unusedPorts, r.seen = unused, record.revision
	if len(take)+len(free) == 0 {
		return nil
	}
	if err := r.ports.repair(ctx, record.revision, take, free); err != nil {
		return err
	}
	for _, port := range free {
		delete(r.unusedPorts, port)
		r.log.Warn("freed a leaked node port", "port", port)
	}
	return nil
}

// forgetFreed removes from the unused ports those that were free at some moment since the last round: a new
// owner may be about to use them.
func (r *Repair) forgetFreed(ctx context.Context, revision int64) error {
	if len(r.unusedPorts) == 0 || revision == r.seen {
		return nil
	}
	changes, err := r.ports.store.Watch(ctx, portsKey, r.seen)
	if errors.Is(err, storage.ErrCompacted) {
		clear(r.unusedPorts)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what happened to node ports: %w", err)
	}
	defer changes.Close()
	for {
		events, err := changes.Next(ctx)
		if errors.Is(err, storage.ErrCompacted) {
			clear(r.unusedPorts)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what happened to node ports: %w", err)
		}
		for _, e := range events {
			if e.Key != portsKey {
				continue
			}
			bits := new(big.Int)
			if e.Type == storage.Put {
				if bits, err = r.ports.decode(e.Value); err != nil {
					return err
				}
			}
			for port := range r.unusedPorts {
				if bits.Bit(port-r.ports.ports.First) == 0 {
					delete(r.unusedPorts, port)
				}
			}
			if e.Revision >= revision {
				return nil
			}
		}
	}
}

// usedPorts returns the ports that services use, and reports problems with them.
func (r *Repair) usedPorts(services []*corev1.Service, record *record) map[int]bool {
	used := map[int]bool{}
	for _, svc := range services {
		for _, port := range ServicePorts(svc) {
			switch {
			case !r.ports.ports.Contains(port):
				r.options.Report(svc, "PortOutOfRange", "", fmt.Sprintf("Port %d is not within the port range %s; please recreate service", port, r.ports.ports))
			case used[port]:
				r.options.Report(svc, "PortAlreadyAllocated", "", fmt.Sprintf("Port %d was assigned to multiple services; please recreate service", port))
			case record.bits.Bit(port-r.ports.ports.First) == 0:
				r.options.Report(svc, "PortNotAllocated", "", fmt.Sprintf("Port %d is not allocated; repairing", port))
			}
			used[port] = true
		}
	}
	return used
}

// repair sets and clears bits of the record if it is still at that revision.
func (p *Ports) repair(ctx context.Context, revision int64, take, free []int) error {
	return p.change(ctx, func(r *record) error {
		if r.revision != revision {
			return errPreempted
		}
		for _, port := range take {
			r.bits.SetBit(r.bits, port-p.ports.First, 1)
		}
		for _, port := range free {
			r.bits.SetBit(r.bits, port-p.ports.First, 0)
		}
		return nil
	})
}

// ServicePorts returns the node ports of a service whose type has them. A port that serves several protocols
// counts once; one that appears twice for the same protocol counts twice.
func ServicePorts(svc *corev1.Service) []int {
	if svc.Spec.Type != corev1.ServiceTypeNodePort && svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	type key struct {
		port     int
		protocol corev1.Protocol
	}
	var ports []int
	seen := map[key]bool{}
	for _, p := range svc.Spec.Ports {
		k := key{int(p.NodePort), p.Protocol}
		if k.port != 0 && (seen[k] || !slices.Contains(ports, k.port)) {
			ports = append(ports, k.port)
		}
		seen[k] = true
	}
	health := key{int(svc.Spec.HealthCheckNodePort), corev1.ProtocolTCP}
	if health.port != 0 && (seen[health] || !slices.Contains(ports, health.port)) {
		ports = append(ports, health.port)
	}
	return ports
}

// UsedPorts returns the node ports of all services.
func UsedPorts(services []*corev1.Service) []int {
	var ports []int
	for _, svc := range services {
		ports = append(ports, ServicePorts(svc)...)
	}
	return ports
}
