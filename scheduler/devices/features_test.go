package devices_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/devices"
)

// TestFeatures: what upstream's allocator does only if it is asked to.
func TestFeatures(t *testing.T) {
	shared := func(name string, policy *resourcev1.CapacityRequestPolicy) resourcev1.Device {
		return device(name, func(d *resourcev1.Device) {
			d.AllowMultipleAllocations = ptr.To(true)
			d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("10Gi"), RequestPolicy: policy}}
		})
	}
	wants := func(memory string) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly.Capacity = &resourcev1.CapacityRequirements{
				Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)},
			}
		}
	}
	t.Run("partitions", func(t *testing.T) {
		run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
			half := func(name string) resourcev1.Device {
				return device(name, func(d *resourcev1.Device) {
					d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "gpu", Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse("6Gi")}}}}
				})
			}
			counters := slice("n")
			counters.Name, counters.Spec.Pool.ResourceSliceCount = "n-counters", 2
			counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "gpu", Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse("10Gi")}}}}
			parts := slice("n", half("left"), half("right"))
			parts.Spec.Pool.ResourceSliceCount = 2
			s.slices.Put(counters)
			s.slices.Put(parts)
			s.put(claim("x"))
			s.put(claim("y"))
			equal(t, "the first", look(t, d, pod("a", "x"), "n"), "n/left")
			reserve(t, d, pod("a", "x"), "n")
			equal(t, "the second", look(t, d, pod("b", "y"), "n"), none)
		})
	})
	t.Run("capacity ranges", func(t *testing.T) {
		run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
			s.slices.Put(slice("n", shared("steps", &resourcev1.CapacityRequestPolicy{
				Default: ptr.To(resource.MustParse("1")),
				ValidRange: &resourcev1.CapacityRequestPolicyRange{
					Min: ptr.To(resource.MustParse("1")), Max: ptr.To(resource.MustParse("8Gi")), Step: ptr.To(resource.MustParse("500m")),
				},
			})))
			s.put(claim("x", wants("1200m")))
			s.put(claim("y", wants("9Gi")))
			reserve(t, d, pod("a", "x"), "n")
			if err := d.Bind(t.Context(), pod("a", "x"), "n"); err != nil {
				t.Fatal(err)
			}
			c, _ := s.claims.Get("ns", "x")
			consumed := c.Status.Allocation.Devices.Results[0].ConsumedCapacity["memory"]
			equal(t, "consumed", consumed.String(), "1500m")
			equal(t, "beyond the range", look(t, d, pod("b", "y"), "n"), none)
		})
	})
	t.Run("sharing in selectors", func(t *testing.T) {
		run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
			s.slices.Put(slice("n", device("own"), shared("shared", nil)))
			s.put(claim("x", selects("device.allowMultipleAllocations")))
			equal(t, "selected", look(t, d, pod("a", "x"), "n"), "n/shared")
		})
	})
	t.Run("an invalid pool", func(t *testing.T) {
		run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
			s.slices.Put(slice("n", device("twice"), device("twice")))
			s.put(claim("x"))
			synctest.Wait()
			claims, err := d.Of(pod("a", "x"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = claims.Find(node("n"))
			var refusal *scheduler.Refusal
			if !errors.As(err, &refusal) || !refusal.Unresolvable || len(refusal.Reasons) != 1 || refusal.Reasons[0] != "invalid resource pools were encountered" {
				t.Errorf("got %#v", err)
			}
			equal(t, "elsewhere", look(t, d, pod("a", "x"), "m"), "m/gpu-0")
		})
	})
}

func TestNames(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		s.put(claim("y"))
		for want, p := range map[bool][]string{true: {"y", "x"}, false: {"y"}} {
			if d.Names(pod("a", p...), claim("x")) != want {
				t.Errorf("%q: not %t", p, want)
			}
		}
		if d.Names(pod("a", "x", "gone"), claim("x")) {
			t.Error("a pod that waits for a claim names one")
		}
	})
}

// TestGoneMeanwhile: whoever waits for devices of a claim that is deleted is told at once.
func TestGoneMeanwhile(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.slices.Put(slice("n", device("late", func(d *resourcev1.Device) {
			d.BindingConditions, d.BindingFailureConditions = []string{"ready"}, []string{"broken"}
		})))
		s.put(claim("x"))
		reserve(t, d, pod("a", "x"), "n")
		done := bindLater(t.Context(), d, pod("a", "x"), "n")
		equal(t, "at first", returned(done), "waits")
		s.claims.Delete("ns", "x")
		equal(t, "when it is gone", returned(done), `could not find ResourceClaim "ns/x"`)
	})
}

// TestTakenBackMeanwhile: devices that were taken back from a claim are never ready.
func TestTakenBackMeanwhile(t *testing.T) {
	run(t, devices.Options{BindTimeout: time.Minute}, func(t *testing.T, s *server, d *devices.Devices) {
		s.slices.Put(slice("n", device("late", func(d *resourcev1.Device) { d.BindingConditions = []string{"ready"} })))
		s.put(claim("x"))
		reserve(t, d, pod("a", "x"), "n")
		ctx, cancel := context.WithCancel(t.Context())
		done := bindLater(ctx, d, pod("a", "x"), "n")
		equal(t, "at first", returned(done), "waits")
		s.edit("x", func(c *resourcev1.ResourceClaim) { c.Status = resourcev1.ResourceClaimStatus{} })
		equal(t, "when they are gone", returned(done), "waits")
		cancel()
		equal(t, "at the end", returned(done), "context canceled")
		equal(t, "the next attempt", look(t, d, pod("a", "x"), "n"), "n/late")
	})
}

// TestNotSynced: whoever does not wait for the caches is told.
func TestNotSynced(t *testing.T) {
	s := newServer(t)
	d := devices.New(s.in, s, nil, devices.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.WaitSynced(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestDeallocated: a claim whose devices are taken back while it is written is not reserved for a pod that counted on them.
func TestDeallocated(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		reserve(t, d, pod("a", "x"), "n")
		if err := d.Bind(t.Context(), pod("a", "x"), "n"); err != nil {
			t.Fatal(err)
		}
		if s.reads() != 0 {
			t.Error("it reads what nobody has changed")
		}
		synctest.Wait()
		reserve(t, d, pod("b", "x"), "n")
		s.lag.Hold()
		s.edit("x", func(c *resourcev1.ResourceClaim) { c.Status.Allocation, c.Status.ReservedFor = nil, nil })
		if err := d.Bind(t.Context(), pod("b", "x"), "n"); err == nil || err.Error() != "claim ns/x got deallocated elsewhere in the meantime" {
			t.Errorf("got %v", err)
		}
		s.lag.Resume()
	})
}

// TestAllocatedByOthers: devices that somebody else has given to a claim are taken.
func TestAllocatedByOthers(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		s.put(claim("y"))
		reserve(t, d, pod("a", "x"), "n")
		if err := d.Bind(t.Context(), pod("a", "x"), "n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		given, _ := s.claims.Get("ns", "x")
		s.edit("x", func(c *resourcev1.ResourceClaim) { c.Status.Allocation, c.Status.ReservedFor = nil, nil })
		synctest.Wait()
		equal(t, "given back", look(t, d, pod("b", "y"), "n"), "n/gpu-0")
		s.edit("x", func(c *resourcev1.ResourceClaim) { c.Status = given.Status })
		synctest.Wait()
		equal(t, "given by another scheduler", look(t, d, pod("b", "y"), "n"), "n/gpu-1")
	})
}
