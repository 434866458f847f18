package core

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/allocation"
)

// addresses allocates missing cluster IPs to the service, and records those that it will no longer need.
func (t *transfer) addresses(ctx context.Context) error {
	svc, old := t.svc, t.old
	if len(t.Networks) == 0 {
		return nil
	}
	if old == nil || !hasClusterIP(old) && hasClusterIP(svc) || len(old.Spec.ClusterIPs) == 0 {
		return t.takeAddresses(ctx)
	}
	if keepsPreference(svc, old) || headless(old) {
		return nil
	}
	before, now := len(old.Spec.IPFamilies), len(svc.Spec.IPFamilies)
	switch {
	case !hasClusterIP(svc):
		return t.leaveAddresses(ctx, old.Spec.ClusterIPs)
	case before == 1 && now == 2:
		if !slices.Contains(t.families(), svc.Spec.IPFamilies[1]) {
			return nil // only "None" has such families, and changing it is refused
		}
		if len(svc.Spec.ClusterIPs) < 2 {
			svc.Spec.ClusterIPs = append(svc.Spec.ClusterIPs, "")
		}
		return t.takeAddress(ctx, 1)
	case before == 2 && now == 1 && len(old.Spec.ClusterIPs) == 2:
		return t.leaveAddresses(ctx, old.Spec.ClusterIPs[1:])
	}
	return nil
}

// takeAddresses allocates a cluster IP for each family: the requested one, or any.
func (t *transfer) takeAddresses(ctx context.Context) error {
	spec := &t.svc.Spec
	if !hasClusterIP(t.svc) || headless(t.svc) {
		return nil
	}
	for len(spec.ClusterIPs) < len(spec.IPFamilies) {
		spec.ClusterIPs = append(spec.ClusterIPs, "")
	}
	for i := range spec.IPFamilies {
		if err := t.takeAddress(ctx, i); err != nil {
			return err
		}
	}
	if len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	return nil
}

// takeAddress allocates the cluster IP of one family.
func (t *transfer) takeAddress(ctx context.Context, i int) error {
	spec := &t.svc.Spec
	asked, family := spec.ClusterIPs[i], spec.IPFamilies[i]
	wish := allocation.AddressWish{Seed: t.seed(string(family))}
	if asked != "" {
		var ok bool
		if wish.Addr, ok = allocation.ParseAddr(asked); !ok {
			return internal(t.svc, "failed to parse service IP %q", asked)
		}
	}
	got := allocation.Address{}
	var err error
	if t.dryRun {
		got.Addr, err = allocation.TryAddress(ctx, t.access, family, wish.Addr)
	} else if got, err = allocation.TakeAddress(ctx, t.access, t.owner(), family, wish); err == nil {
		t.took = append(t.took, got)
	}
	path := field.NewPath("spec", "clusterIPs")
	switch {
	case err == nil && asked == "":
		spec.ClusterIPs[i] = got.String()
		return nil
	case err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, allocation.ErrFull) || !refused(err):
		return internal(t.svc, "failed to allocate a serviceIP for Service %q: %v", t.svc.Name, err)
	case asked == "":
		return invalidService(t.svc, field.Invalid(path, spec.ClusterIPs, fmt.Sprintf("failed to allocate IP: %v", err)))
	}
	return invalidService(t.svc, field.Invalid(path, spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %v: %v", asked, err)))
}

// refused reports whether an error is about the address itself, not about storing its allocation.
func refused(err error) bool {
	return errors.Is(err, allocation.ErrNoRange) || errors.Is(err, allocation.ErrNotInRange) ||
		errors.Is(err, allocation.ErrAddressTaken) || errors.Is(err, allocation.ErrNotReady)
}

// leaveAddresses records cluster IPs that the service will no longer need.
func (t *transfer) leaveAddresses(ctx context.Context, ips []string) error {
	if len(t.Networks) == 0 || t.dryRun {
		return nil
	}
	for _, ip := range ips {
		addr, ok := allocation.ParseAddr(ip)
		if !ok { // None
			continue
		}
		held, ok, err := allocation.FindAddress(ctx, t.access, t.owner(), addr)
		if err != nil {
			return err
		}
		if ok {
			t.leaves = append(t.leaves, held)
		}
	}
	return nil
}
