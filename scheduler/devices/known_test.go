package devices_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/devices"
	"github.com/keelson-dev/keelson/scheduler/devices/structured"
)

// TestStaleEvents: what was written counts until the cache shows it, whatever older states it shows before, and no longer.
func TestStaleEvents(t *testing.T) {
	var kept, gate chan struct{}
	var going func()
	runNew(t, func(s *server) *devices.Devices {
		kept, gate = make(chan struct{}), make(chan struct{})
		s.in.Claims.AddHandler(informer.Handler[*resourcev1.ResourceClaim]{Updated: func(_, c *resourcev1.ResourceClaim) {
			switch {
			case c.DeletionTimestamp != nil:
				going()
			case c.Status.Allocation == nil && len(c.Finalizers) > 0:
				close(kept)
				<-gate
			}
		}})
		return devices.New(s.in, s, structured.New(), devices.Options{})
	}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		s.put(claim("both", count(2)))
		reserve(t, d, pod("a", "x"), "n")
		s.mu.Lock()
		s.before = func(subresource string, _ *resourcev1.ResourceClaim) error {
			if subresource == "status" {
				<-kept // the cache shows the finalizer
				s.lag.Hold()
			}
			return nil
		}
		s.mu.Unlock()
		if err := d.Bind(t.Context(), pod("a", "x"), "n"); err != nil {
			t.Fatal(err)
		}
		is := func(when string) {
			t.Helper()
			equal(t, when, look(t, d, pod("b", "x"), "n"), "nothing")
			equal(t, when+", elsewhere", look(t, d, pod("b", "x"), "m"), elsewhere)
			equal(t, when+", another claim", look(t, d, pod("c", "both"), "n"), none)
		}
		is("before the event")
		close(gate) // only now the event of the finalizer is told
		synctest.Wait()
		is("after the event")
		s.lag.Resume()
		synctest.Wait()
		is("when it is seen")
		seen := false
		going = func() {
			seen = true
			equal(t, "before the event", look(t, d, pod("b", "x"), "n"), `resourceclaim "x" is being deleted`)
		}
		s.edit("x", func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = ptr.To(metav1.Now()) })
		if !seen {
			t.Error("nobody was told")
		}
		s.claims.Delete("ns", "x")
		synctest.Wait()
		equal(t, "when it is gone", look(t, d, pod("c", "both"), "n"), "n/gpu-0 n/gpu-1")
	})
}

// TestUndoAfterBind: what is written is not undone, whether or not the cache shows it.
func TestUndoAfterBind(t *testing.T) {
	for _, lags := range []bool{true, false} {
		run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
			s.put(claim("x"))
			s.put(claim("both", count(2)))
			undo := reserve(t, d, pod("a", "x"), "n")
			if lags {
				s.lag.Hold()
			}
			if err := d.Bind(t.Context(), pod("a", "x"), "n"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			undo()
			equal(t, fmt.Sprintf("lags %t: another claim", lags), look(t, d, pod("b", "both"), "n"), none)
			s.lag.Resume()
			synctest.Wait()
			equal(t, fmt.Sprintf("lags %t: when it is seen", lags), look(t, d, pod("b", "both"), "n"), none)
			s.edit("x", func(c *resourcev1.ResourceClaim) { c.Status.Allocation, c.Status.ReservedFor = nil, nil })
			equal(t, fmt.Sprintf("lags %t: given back", lags), look(t, d, pod("b", "both"), "n"), "n/gpu-0 n/gpu-1")
		})
	}
}

// hasty is a server on which devices are taken back as soon as they are given, before the answer is there.
type hasty struct{ *server }

func (h hasty) Update(ctx context.Context, to client.Target, obj runtime.Object, o metav1.UpdateOptions) (runtime.Object, error) {
	written, err := h.server.Update(ctx, to, obj, o)
	if err == nil && to.Subresource == "status" {
		h.edit(to.Name, func(c *resourcev1.ResourceClaim) { c.Status.Allocation, c.Status.ReservedFor = nil, nil })
	}
	return written, err
}

// TestTakenBackAtOnce: an answer that comes after a later state counts for nothing.
func TestTakenBackAtOnce(t *testing.T) {
	runNew(t, func(s *server) *devices.Devices {
		return devices.New(s.in, hasty{s}, structured.New(), devices.Options{})
	}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		s.put(claim("both", count(2)))
		reserve(t, d, pod("a", "x"), "n")
		if err := d.Bind(t.Context(), pod("a", "x"), "n"); err != nil {
			t.Fatal(err)
		}
		equal(t, "another claim", look(t, d, pod("b", "both"), "n"), "n/gpu-0 n/gpu-1")
		equal(t, "the claim", look(t, d, pod("b", "x"), "n"), "n/gpu-0")
	})
}

// deaf is a server that cannot be read.
type deaf struct{ *server }

func (deaf) Get(context.Context, client.Target) (runtime.Object, error) {
	return nil, errors.New("disk on fire")
}

// TestConflictThatCannotBeRead: the pod is told why a claim was not written again.
func TestConflictThatCannotBeRead(t *testing.T) {
	runNew(t, func(s *server) *devices.Devices {
		return devices.New(s.in, deaf{s}, structured.New(), devices.Options{})
	}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		reserve(t, d, pod("a", "x"), "n")
		s.mu.Lock()
		s.before = func(string, *resourcev1.ResourceClaim) error {
			return apierrors.NewConflict(resourcev1.Resource("resourceclaims"), "x", errors.New("too old"))
		}
		s.mu.Unlock()
		if err := d.Bind(t.Context(), pod("a", "x"), "n"); err == nil || err.Error() != "get updated claim ns/x after conflict: disk on fire" {
			t.Errorf("got %v", err)
		}
	})
}

// TestLeavesOnlyItsOwn: a failed Bind leaves a claim alone that was made anew under the name of one of the pod's.
func TestLeavesOnlyItsOwn(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		s.put(claim("y"))
		reserve(t, d, pod("a", "x", "y"), "n")
		var once sync.Once
		s.mu.Lock()
		s.before = func(_ string, c *resourcev1.ResourceClaim) error {
			if c.Name != "y" {
				return nil
			}
			once.Do(func() {
				s.claims.Delete("ns", "x")
				s.claims.Put(claim("x", func(c *resourcev1.ResourceClaim) {
					c.UID = "another"
					c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "a", UID: "a"}}
				}))
			})
			return errors.New("refused")
		}
		s.mu.Unlock()
		if err := d.Bind(t.Context(), pod("a", "x", "y"), "n"); err == nil {
			t.Error("bound")
		}
		if c, _ := s.claims.Get("ns", "x"); len(c.Status.ReservedFor) != 1 {
			t.Error("the new claim is changed")
		}
	})
}

// TestStateForAllocators: an allocator is told of whole devices, of shares, and of what is consumed of them, but not of access
// for administration.
func TestStateForAllocators(t *testing.T) {
	var state devices.State
	runNew(t, func(s *server) *devices.Devices {
		return devices.New(s.in, s, func(is devices.State) (devices.Allocate, error) {
			state = is
			return nil, errors.New("not now")
		}, devices.Options{})
	}, func(t *testing.T, s *server, d *devices.Devices) {
		has := func(name string, r resourcev1.DeviceRequestAllocationResult) {
			r.Request, r.Driver, r.Pool = "r", driver, "n"
			s.put(claim(name, func(c *resourcev1.ResourceClaim) {
				c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{r}}}
			}))
		}
		memory := func(n string) map[resourcev1.QualifiedName]resource.Quantity {
			return map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(n)}
		}
		s.put(claim("asks"))
		is := func(when, want string) {
			t.Helper()
			equal(t, when, look(t, d, pod("a", "asks"), "n"), "not now")
			all := state.Allocated
			text := fmt.Sprintf("%d whole, %d shares", all.AllocatedDevices.Len(), all.AllocatedSharedDeviceIDs.Len())
			for id, consumed := range all.AggregatedCapacity {
				text += fmt.Sprintf(", %s of %s", consumed["memory"], id)
			}
			equal(t, when, text, want)
		}
		is("at first", "0 whole, 0 shares")
		has("whole", resourcev1.DeviceRequestAllocationResult{Device: "gpu-0"})
		is("one device", "1 whole, 0 shares")
		has("admin", resourcev1.DeviceRequestAllocationResult{Device: "gpu-1", AdminAccess: ptr.To(true)})
		is("and access for administration", "1 whole, 0 shares")
		has("open", resourcev1.DeviceRequestAllocationResult{Device: "open", ShareID: ptr.To(types.UID("1"))})
		is("and a share", "1 whole, 1 shares")
		has("part", resourcev1.DeviceRequestAllocationResult{Device: "part", ShareID: ptr.To(types.UID("2")), ConsumedCapacity: memory("1Gi")})
		is("and a share that consumes", "1 whole, 2 shares, 1Gi of gpu.example.com/n/part")
		has("more", resourcev1.DeviceRequestAllocationResult{Device: "part", ShareID: ptr.To(types.UID("3")), ConsumedCapacity: memory("2Gi")})
		is("and another", "1 whole, 3 shares, 3Gi of gpu.example.com/n/part")
		for _, name := range []string{"more", "open", "whole", "admin"} {
			s.claims.Delete("ns", name)
		}
		synctest.Wait()
		is("without most", "0 whole, 1 shares, 1Gi of gpu.example.com/n/part")
		s.claims.Delete("ns", "part")
		synctest.Wait()
		is("without all", "0 whole, 0 shares")
	})
}

// TestNewDevices: devices that are published after a pod was looked at are found.
func TestNewDevices(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		equal(t, "at first", look(t, d, pod("a", "x"), "o"), none)
		s.slices.Put(slice("o", device("new")))
		synctest.Wait()
		equal(t, "then", look(t, d, pod("a", "x"), "o"), "o/new")
		s.slices.Delete("", "o")
		synctest.Wait()
		equal(t, "in the end", look(t, d, pod("a", "x"), "o"), none)
	})
}

// TestReserveWithoutChoice: a pod whose devices cannot be chosen at the moment is told why; that does not mean that its devices
// are gone.
func TestReserveWithoutChoice(t *testing.T) {
	runNew(t, func(s *server) *devices.Devices {
		return devices.New(s.in, s, func(devices.State) (devices.Allocate, error) {
			return func(context.Context, *corev1.Node, []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error) {
				return nil, errors.New("broken")
			}, nil
		}, devices.Options{})
	}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		undo, err := d.Reserve(pod("a", "x"), "n")
		if err == nil || err.Error() != "broken" || errors.Is(err, devices.ErrChanged) || undo != nil || d.Reserved(pod("a")) {
			t.Errorf("got %v", err)
		}
		_, err = d.Reserve(pod("a", "gone"), "n")
		var refusal *scheduler.Refusal
		if !errors.As(err, &refusal) || errors.Is(err, devices.ErrChanged) {
			t.Errorf("without a claim: %v", err)
		}
	})
}

// TestBrokenReach: devices of which it cannot be said where they can be used keep the pod from being placed.
func TestBrokenReach(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x", func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: "Near", Values: []string{"n"}}},
			}}}}
		}))
		if _, err := d.Of(pod("a", "x")); err == nil {
			t.Error("its claims can be used")
		}
	})
}

// TestClaimOfGroup: a claim that was made for the pod's group is not the pod's own.
func TestClaimOfGroup(t *testing.T) {
	member := pod("a")
	member.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimTemplateName: ptr.To("t")}}
	member.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
	member.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "r", ResourceClaimName: ptr.To("x")}}
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x", func(c *resourcev1.ResourceClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "scheduling.k8s.io/v1alpha2", Kind: "PodGroup", Name: "g", UID: "g", Controller: ptr.To(true)}}
		}))
		equal(t, "the pod", look(t, d, member, "n"), "ResourceClaim ns/x was not created for Pod ns/a (Pod is not owner)")
	})
}

// TestEndOfBindTimeout: devices have the time that is set, to its last moment.
func TestEndOfBindTimeout(t *testing.T) {
	run(t, devices.Options{BindTimeout: time.Minute}, func(t *testing.T, s *server, d *devices.Devices) {
		s.late()
		s.put(claim("x"))
		reserve(t, d, pod("a", "x"), "n")
		done := bindLater(t.Context(), d, pod("a", "x"), "n")
		time.Sleep(time.Minute)
		s.edit("x", func(c *resourcev1.ResourceClaim) { c.Labels = map[string]string{"a": "b"} })
		equal(t, "after a minute", returned(done), "waits")
		equal(t, "after a minute, another pod", look(t, d, pod("b", "x"), "n"), "nothing")
		time.Sleep(time.Millisecond)
		equal(t, "a moment later", returned(done), "device binding timeout: claim=x")
		equal(t, "a moment later, another pod", look(t, d, pod("b", "x"), "n"), elsewhere)
	})
}

// TestWatchClasses: classes that come or change may help a pod, and those that go do not.
func TestWatchClasses(t *testing.T) {
	var mu sync.Mutex
	told := ""
	runNew(t, func(s *server) *devices.Devices {
		d := devices.New(s.in, s, nil, devices.Options{})
		d.Watch(func(e scheduler.Event) {
			mu.Lock()
			defer mu.Unlock()
			if c, ok := e.Object.(*resourcev1.DeviceClass); ok && c.Name == "tpu" {
				told += map[scheduler.EventKind]string{scheduler.ObjectAdded: "+", scheduler.ObjectUpdated: "~"}[e.Kind]
			}
			if e.Kind == scheduler.ObjectDeleted {
				told += "-"
			}
		})
		return d
	}, func(t *testing.T, s *server, _ *devices.Devices) {
		for range 2 {
			s.classes.Put(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "tpu"}})
			synctest.Wait()
		}
		s.classes.Delete("", "tpu")
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		equal(t, "told", told, "+~")
	})
}
