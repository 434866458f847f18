package devices

import (
	"errors"
	"fmt"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Errors of Bind about devices that have to be prepared (KEP-5007).
var (
	// ErrNotReady means that a driver failed to prepare a device.
	ErrNotReady = errors.New("device binding failed")
	// ErrBindTimeout means that a device was not ready in time.
	ErrBindTimeout = errors.New("device binding timeout")
)

// isReady reports whether the devices of a claim are all prepared. It fails with ErrNotReady if one cannot be.
func isReady(c *resourcev1.ResourceClaim) (bool, error) {
	if c.Status.Allocation == nil {
		return false, nil
	}
	for i := range c.Status.Allocation.Devices.Results {
		r := &c.Status.Allocation.Devices.Results[i]
		if len(r.BindingConditions) == 0 {
			continue
		}
		status := statusOf(c, r)
		if status == nil {
			return false, nil
		}
		for _, failure := range r.BindingFailureConditions {
			if is := meta.FindStatusCondition(status.Conditions, failure); is != nil && is.Status == metav1.ConditionTrue {
				return false, fmt.Errorf("%w: claim=%s, reason=%s, message=%q", ErrNotReady, c.Name, is.Reason, is.Message)
			}
		}
		for _, condition := range r.BindingConditions {
			if !meta.IsStatusConditionTrue(status.Conditions, condition) {
				return false, nil
			}
		}
	}
	return true, nil
}

// statusOf returns what a driver says of an allocated device, or nil.
func statusOf(c *resourcev1.ResourceClaim, r *resourcev1.DeviceRequestAllocationResult) *resourcev1.AllocatedDeviceStatus {
	for i := range c.Status.Devices {
		if s := &c.Status.Devices[i]; s.Device == r.Device && s.Driver == r.Driver && s.Pool == r.Pool {
			return s
		}
	}
	return nil
}

// prepared reports whether a device of the claim has to be prepared by its driver.
func prepared(c *resourcev1.ResourceClaim) bool {
	if c.Status.Allocation == nil {
		return false
	}
	for _, r := range c.Status.Allocation.Devices.Results {
		if len(r.BindingConditions) > 0 {
			return true
		}
	}
	return false
}

// late reports whether a claim's devices should have been ready by now.
func (d *Devices) late(c *resourcev1.ResourceClaim) bool { return d.left(c) < 0 }

// left returns how long a claim's devices may still take.
func (d *Devices) left(c *resourcev1.ResourceClaim) time.Duration {
	if !prepared(c) || c.Status.Allocation.AllocationTimestamp == nil {
		return d.o.BindTimeout
	}
	return time.Until(c.Status.Allocation.AllocationTimestamp.Add(d.o.BindTimeout))
}
