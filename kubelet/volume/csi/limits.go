package csi

import (
	"cmp"
	"context"
	"fmt"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
)

// updatePeriod is how often a driver wants to be asked how many volumes the node can have; 0 is never (KEP-4876).
func updatePeriod(object *storagev1.CSIDriver) time.Duration {
	if object == nil || object.Spec.NodeAllocatableUpdatePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*object.Spec.NodeAllocatableUpdatePeriodSeconds) * time.Second
}

// follower is the goroutine that asks a driver.
type follower struct {
	cancel context.CancelFunc
	asked  time.Time // when it was asked last because of a volume
}

// follow has a registered driver asked as often as it wants, until it leaves, registers again, or the context ends.
func (d *Drivers) follow(ctx context.Context, name string) {
	ctx, cancel := context.WithCancel(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if before := d.followers[name]; before != nil {
		before.cancel()
	}
	d.followers[name] = &follower{cancel: cancel}
	d.following.Go(func() { d.renewAll(ctx, name) })
}

// unfollow ends what follow has begun.
func (d *Drivers) unfollow(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.followers[name]; f != nil {
		f.cancel()
		delete(d.followers, name)
	}
}

// renewAll asks a driver in its period. Whether it has one is looked up every four periods of the node's: nothing tells it.
func (d *Drivers) renewAll(ctx context.Context, name string) {
	for {
		object, err := d.object(ctx, name)
		period := updatePeriod(object)
		if err != nil {
			d.log.Debug("reading a CSIDriver failed", "driver", name, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(cmp.Or(period, 4*d.options.Period)):
		}
		if period == 0 {
			continue
		}
		if err := d.renew(ctx, name); err != nil && ctx.Err() == nil {
			d.log.Warn("a CSI driver could not be asked how many volumes the node can have", "driver", name, "error", err)
		}
	}
}

// renew asks a driver about the node and publishes its answer.
func (d *Drivers) renew(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, d.options.Timeout)
	defer cancel()
	driver, err := d.driver(name)
	if err != nil {
		return err
	}
	defer driver.close()
	info, err := driver.NodeGetInfo(ctx, &csispec.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf("error during CSI NodeGetInfo() call: %w", err)
	}
	return d.publishEntry(ctx, entry(name, info))
}

// leastPeriod is the shortest period in which a driver may want to be asked.
const leastPeriod = 10 * time.Second

// exhausted reports whether a volume is not attached because the node has too many, if the driver wants to be asked how many
// that are. It then is asked, unless it just was, so that the scheduler knows.
func (d *Drivers) exhausted(ctx context.Context, object *storagev1.CSIDriver, va *storagev1.VolumeAttachment) bool {
	failure := va.Status.AttachError
	if updatePeriod(object) == 0 || failure == nil || failure.ErrorCode == nil || codes.Code(*failure.ErrorCode) != codes.ResourceExhausted { //nolint:gosec // a code
		return false
	}
	d.mu.Lock()
	f, ask := d.followers[object.Name], false
	if f != nil && time.Since(f.asked) >= leastPeriod {
		f.asked, ask = time.Now(), true
	}
	d.mu.Unlock()
	if ask {
		if err := d.renew(ctx, object.Name); err != nil && ctx.Err() == nil {
			d.log.Warn("a CSI driver could not be asked how many volumes the node can have", "driver", object.Name, "error", err)
		}
	}
	return true
}
