package devices_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/scheduler/devices"
	"github.com/keelson-dev/keelson/scheduler/devices/structured"
)

// late publishes a device that its driver has to prepare on node "n".
func (s *server) late() {
	s.slices.Put(slice("n", device("late", func(d *resourcev1.Device) {
		d.BindingConditions, d.BindingFailureConditions = []string{"ready"}, []string{"broken"}
	}), device("plain")))
}

// TestLeave: a failed Bind takes the pod's name off the claims that have it, as often as others are in the way, and writes
// nothing else.
func TestLeave(t *testing.T) {
	down, conflict := errors.New("disk on fire"), apierrors.NewConflict(resourcev1.Resource("resourceclaims"), "x", errors.New("too old"))
	for name, tt := range map[string]struct {
		claims  []string
		refuse  string // is the claim that cannot be written
		leaving error  // of writes that take the name off x
		fails   int    // as often
		tried   int
		wrote   string
	}{
		"no claim has the name": {claims: []string{"x"}, refuse: "x", wrote: "[]"},
		"one has":               {claims: []string{"x", "y"}, refuse: "y", tried: 1, wrote: "[x kept by " + finalizers + " x has n/gpu-0 for [pods/a] x has n/gpu-0 for []]"},
		"once in the way":       {claims: []string{"x", "y"}, refuse: "y", leaving: conflict, fails: 1, tried: 2, wrote: "[x kept by " + finalizers + " x has n/gpu-0 for [pods/a] x has n/gpu-0 for []]"},
		"always in the way":     {claims: []string{"x", "y"}, refuse: "y", leaving: conflict, fails: 99, tried: 5, wrote: "[x kept by " + finalizers + " x has n/gpu-0 for [pods/a]]"},
		"down":                  {claims: []string{"x", "y"}, refuse: "y", leaving: down, fails: 99, tried: 1, wrote: "[x kept by " + finalizers + " x has n/gpu-0 for [pods/a]]"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
				for _, c := range tt.claims {
					s.put(claim(c))
				}
				reserve(t, d, pod("a", tt.claims...), "n")
				tried := 0
				s.mu.Lock()
				s.before = func(subresource string, c *resourcev1.ResourceClaim) error {
					switch {
					case subresource == "status" && len(c.Status.ReservedFor) == 0:
						if tried++; tried <= tt.fails {
							return tt.leaving
						}
					case c.Name == tt.refuse:
						return errors.New("refused")
					}
					return nil
				}
				s.mu.Unlock()
				if err := d.Bind(t.Context(), pod("a", tt.claims...), "n"); err == nil {
					t.Error("bound")
				}
				equal(t, "wrote", s.wrote(), tt.wrote)
				if tried != tt.tried {
					t.Errorf("left %d times, want %d", tried, tt.tried)
				}
			})
		})
	}
}

// stuck is a server that does not answer when it is asked for a claim.
type stuck struct{ *server }

func (s stuck) Get(ctx context.Context, _ client.Target) (runtime.Object, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestLeaveEnds: Bind returns within a second after its context has ended, whatever becomes of the claims.
func TestLeaveEnds(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, _ *devices.Devices) {
		d := devices.New(s.in, stuck{s}, structured.New(), devices.Options{})
		s.late()
		s.put(claim("x"))
		reserve(t, d, pod("a", "x"), "n")
		ctx, cancel := context.WithCancel(t.Context())
		done := bindLater(ctx, d, pod("a", "x"), "n")
		equal(t, "at first", returned(done), "waits")
		cancel()
		time.Sleep(time.Second - time.Millisecond)
		equal(t, "while it leaves", returned(done), "waits")
		time.Sleep(time.Millisecond)
		equal(t, "at the end", returned(done), "context canceled")
	})
}

// TestDefaultBindTimeout: devices have ten minutes.
func TestDefaultBindTimeout(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.late()
		s.put(claim("x"))
		reserve(t, d, pod("a", "x"), "n")
		done := bindLater(t.Context(), d, pod("a", "x"), "n")
		time.Sleep(10 * time.Minute)
		equal(t, "for ten minutes", returned(done), "waits")
		time.Sleep(time.Second)
		equal(t, "then", returned(done), "device binding timeout: claim=x")
	})
}

// TestReadyForLong: devices that are ready stay usable, and those that nobody has to prepare are ready at once.
func TestReadyForLong(t *testing.T) {
	run(t, devices.Options{BindTimeout: time.Minute}, func(t *testing.T, s *server, d *devices.Devices) {
		s.late()
		s.put(claim("x", count(2)))
		s.slices.Put(slice("m", device("other")))
		synctest.Wait()
		reserve(t, d, pod("a", "x"), "n")
		done := bindLater(t.Context(), d, pod("a", "x"), "n")
		equal(t, "at first", returned(done), "waits")
		s.edit("x", ready)
		equal(t, "one device ready, and one that always is", returned(done), "done")
		time.Sleep(time.Hour)
		equal(t, "an hour later", look(t, d, pod("b", "x"), "n"), "nothing")
		equal(t, "elsewhere", look(t, d, pod("b", "x"), "m"), elsewhere)
	})
}

// ready is what a driver says of the device "late".
func ready(c *resourcev1.ResourceClaim) {
	c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{
		Driver: driver, Pool: "n", Device: "late", Conditions: []metav1.Condition{{Type: "ready", Status: metav1.ConditionTrue}},
	}}
}

// TestUndoOfAnother: to undo the reservation of a pod that chose no devices takes none from a pod that has.
func TestUndoOfAnother(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		reserve(t, d, pod("first", "x"), "n")
		if err := d.Bind(t.Context(), pod("first", "x"), "n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		undo := reserve(t, d, pod("second", "x"), "n")
		s.edit("x", func(c *resourcev1.ResourceClaim) { c.Status.Allocation, c.Status.ReservedFor = nil, nil })
		reserve(t, d, pod("third", "x"), "n")
		const pending = "resource claim ns/x is in the process of being allocated"
		equal(t, "before", look(t, d, pod("fourth", "x"), "n"), pending)
		undo()
		equal(t, "after", look(t, d, pod("fourth", "x"), "n"), pending)
	})
}

// TestReserveBeforeItIsTold: a pod can have a claim whose devices the cache shows, even before its handlers were called.
func TestReserveBeforeItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		var d *devices.Devices
		seen := 0
		s.in.Claims.AddHandler(informer.Handler[*resourcev1.ResourceClaim]{Added: func(*resourcev1.ResourceClaim) {
			reserve(t, d, pod("a", "x"), "n")
			seen++
		}})
		d = devices.New(s.in, s, structured.New(), devices.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, run := range []func(context.Context) error{s.in.Nodes.Run, s.in.Slices.Run, s.in.Classes.Run, s.in.TaintRules.Run} {
			all.Go(func() { _ = run(ctx) })
		}
		synctest.Wait()
		s.claims.Put(claim("x", func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
				{Request: "r", Driver: driver, Pool: "n", Device: "gpu-0"},
			}}}
		}))
		all.Go(func() { _ = s.in.Claims.Run(ctx) })
		synctest.Wait()
		if err := d.Bind(t.Context(), pod("a", "x"), "n"); err != nil || seen != 1 {
			t.Errorf("seen %d times: %v", seen, err)
		}
		equal(t, "wrote", s.wrote(), "[x has n/gpu-0 for [pods/a]]")
		cancel()
		all.Wait()
	})
}

// TestLimitsOfFind: an allocator has ten seconds for a node, if nothing else is said.
func TestLimitsOfFind(t *testing.T) {
	for said, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Second: time.Second, devices.Unlimited: 0} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			var left time.Duration
			d := devices.New(s.in, s, func(devices.State) (devices.Allocate, error) {
				return func(ctx context.Context, _ *corev1.Node, _ []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error) {
					if end, ok := ctx.Deadline(); ok {
						left = time.Until(end)
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return nil, nil
				}, nil
			}, devices.Options{FindTimeout: said})
			s.in.Claims.Put(claim("x"))
			s.in.Classes.Put(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})
			got, result := look(t, d, pod("a", "x"), "n"), "node n: timed out trying to allocate devices"
			if want == 0 {
				result = none
			}
			equal(t, said.String(), got, result)
			if left != want {
				t.Errorf("%s: an allocator has %s, want %s", said, left, want)
			}
		})
	}
}

// TestAllocatorFails: a pod is told why there is no choice of devices; nothing found is worth nothing.
func TestAllocatorFails(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		broken := devices.New(s.in, s, func(devices.State) (devices.Allocate, error) { return nil, errors.New("broken") }, devices.Options{})
		equal(t, "broken", look(t, broken, pod("a", "x"), "n"), "broken")
		claims, err := d.Of(pod("a", "x"))
		if err != nil || claims.Score(nil) != 0 {
			t.Errorf("%v, score of nothing %d", err, claims.Score(nil))
		}
	})
}

// TestOtherAllocators: devices that another scheduler gave, without saying when, are waited for as long as it takes.
func TestOtherAllocators(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x", func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
				{Request: "r", Driver: driver, Pool: "n", Device: "gpu-0", BindingConditions: []string{"ready"}},
			}}}
		}))
		time.Sleep(time.Hour)
		equal(t, "an hour later", look(t, d, pod("a", "x"), "n"), "nothing")
	})
}

// TestChangedWhileReserved: a claim that changes otherwise keeps the devices that are reserved for it.
func TestChangedWhileReserved(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		s.put(claim("y"))
		reserve(t, d, pod("a", "x"), "n")
		s.edit("x", func(c *resourcev1.ResourceClaim) { c.Labels = map[string]string{"a": "b"} })
		equal(t, "another claim", look(t, d, pod("b", "y"), "n"), "n/gpu-1")
		equal(t, "the claim", look(t, d, pod("c", "x"), "n"), "resource claim ns/x is in the process of being allocated")
	})
}

// TestSharedWithoutCapacity: any number of claims can have a device that has nothing to be used up.
func TestSharedWithoutCapacity(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.slices.Put(slice("n", device("open", func(d *resourcev1.Device) { d.AllowMultipleAllocations = ptr.To(true) })))
		for _, name := range []string{"x", "y", "z"} {
			s.put(claim(name))
		}
		undo := reserve(t, d, pod("a", "x"), "n")
		reserve(t, d, pod("b", "y"), "n")
		equal(t, "a third", look(t, d, pod("c", "z"), "n"), "n/open")
		undo()
		equal(t, "after the undo", look(t, d, pod("c", "z"), "n"), "n/open")
	})
}

// TestReservedForGroup: a claim that is reserved for the pod's group is reserved for the pod as well, and a failed Bind writes
// nothing about the group.
func TestReservedForGroup(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		reserve(t, d, pod("other", "x"), "n")
		if err := d.Bind(t.Context(), pod("other", "x"), "n"); err != nil {
			t.Fatal(err)
		}
		s.edit("x", func(c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "g", UID: "g"}}
		})
		member := pod("a", "x")
		member.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
		reserve(t, d, member, "n")
		tried := 0
		s.mu.Lock()
		s.before = func(string, *resourcev1.ResourceClaim) error {
			tried++
			return errors.New("refused")
		}
		s.mu.Unlock()
		if err := d.Bind(t.Context(), member, "n"); err == nil || tried != 1 {
			t.Errorf("%d writes: %v", tried, err)
		}
	})
}
