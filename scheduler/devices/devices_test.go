package devices_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/devices"
)

const (
	none       = "cannot allocate all claims"
	elsewhere  = "resourceclaim not available on the node"
	finalizers = "[resource.kubernetes.io/delete-protection]"
)

func count(n int64) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.Count = n }
}

// What is reserved is not found again, until that is undone.
func TestReserve(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("both", count(2)))
		s.put(claim("one"))
		equal(t, "two", look(t, d, pod("a", "both"), "n"), "n/gpu-0 n/gpu-1")
		equal(t, "three", look(t, d, pod("c", "both", "one"), "n"), none)
		undo := reserve(t, d, pod("a", "both"), "n")
		if !d.Reserved(pod("a")) || d.Reserved(pod("b")) {
			t.Error("what is reserved is not told by pod")
		}
		equal(t, "on n", look(t, d, pod("b", "one"), "n"), none)
		equal(t, "on m", look(t, d, pod("b", "one"), "m"), "m/gpu-0")
		equal(t, "the same claim", look(t, d, pod("b", "both"), "m"), "resource claim ns/both is in the process of being allocated")
		if _, err := d.Reserve(pod("b", "one"), "n"); !errors.Is(err, devices.ErrChanged) || !strings.Contains(err.Error(), none) {
			t.Errorf("reserving what is taken: %v", err)
		}
		if _, err := d.Reserve(pod("b", "one"), "gone"); !apierrors.IsNotFound(err) {
			t.Errorf("reserving on no node: %v", err)
		}
		undo()
		if d.Reserved(pod("a")) {
			t.Error("reserved after the undo")
		}
		// Of a claim that a pod names twice, the first result counts.
		undo = reserve(t, d, pod("a", "one", "one"), "n")
		equal(t, "beside the first result", look(t, d, pod("b", "both"), "n"), none)
		s.put(claim("two"))
		equal(t, "beside the first result", look(t, d, pod("b", "two"), "n"), "n/gpu-1")
		undo()
		equal(t, "after the undo", look(t, d, pod("a", "both"), "n"), "n/gpu-0 n/gpu-1")
		if err := d.Bind(t.Context(), pod("a", "both"), "n"); err != nil || s.wrote() != "[]" {
			t.Errorf("Bind without reservation: %v", err)
		}
	})
}

func TestBind(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		s.put(claim("y"))
		p := pod("a", "x", "y")
		reserve(t, d, p, "n")
		s.lag.Hold()
		if err := d.Bind(t.Context(), p, "n"); err != nil {
			t.Fatal(err)
		}
		equal(t, "wrote", s.wrote(), "[x kept by "+finalizers+" x has n/gpu-0 for [pods/a] y kept by "+finalizers+" y has n/gpu-1 for [pods/a]]")
		c, _ := s.claims.Get("ns", "x")
		if at := c.Status.Allocation.AllocationTimestamp; at == nil || !at.Time.Equal(time.Now()) {
			t.Errorf("allocated at %v", at)
		}
		// The cache still has neither; the next pod is told of both.
		equal(t, "while the cache lags", look(t, d, pod("b", "x"), "n"), "nothing")
		equal(t, "while the cache lags, elsewhere", look(t, d, pod("b", "x"), "m"), elsewhere)
		s.put(claim("z"))
		s.lag.Resume()
		synctest.Wait()
		equal(t, "seen", look(t, d, pod("c", "z"), "n"), none)
		// A second pod shares what is allocated.
		shared := pod("b", "x")
		reserve(t, d, shared, "n")
		if err := d.Bind(t.Context(), shared, "n"); err != nil {
			t.Fatal(err)
		}
		equal(t, "wrote for the second", s.wrote(), "[x has n/gpu-0 for [pods/a pods/b]]")
		// Bound again, nothing is written.
		synctest.Wait()
		reserve(t, d, p, "n")
		if err := d.Bind(t.Context(), p, "n"); err != nil {
			t.Fatal(err)
		}
		equal(t, "wrote again", s.wrote(), "[]")
		s.edit("x", func(c *resourcev1.ResourceClaim) { c.Status.Allocation, c.Status.ReservedFor = nil, nil })
		equal(t, "deallocated", look(t, d, pod("c", "z"), "n"), "n/gpu-0")
		s.claims.Delete("ns", "y")
		synctest.Wait()
		equal(t, "deleted", look(t, d, pod("d", "z", "x"), "n"), "n/gpu-0 n/gpu-1")
	})
}

// What the API says later counts, however late the cache shows what it said before.
func TestWrittenIsNotForgotten(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x", count(2)))
		s.put(claim("y"))
		reserve(t, d, pod("a", "x"), "n")
		s.mu.Lock()
		s.before = func(subresource string, _ *resourcev1.ResourceClaim) error {
			if subresource == "status" {
				s.lag.Hold() // the cache sees the finalizer, but not the devices
			}
			return nil
		}
		s.mu.Unlock()
		if err := d.Bind(t.Context(), pod("a", "x"), "n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		equal(t, "another claim", look(t, d, pod("b", "y"), "n"), none)
		s.lag.Resume()
		synctest.Wait()
		equal(t, "another claim, later", look(t, d, pod("b", "y"), "n"), none)
	})
}

func TestBindMeetsOthers(t *testing.T) {
	gr := resourcev1.Resource("resourceclaims")
	conflict, down := apierrors.NewConflict(gr, "x", errors.New("too old")), errors.New("disk on fire")
	for name, tt := range map[string]struct {
		subresource string
		fails       int // writes with err
		err         error
		change      func(*resourcev1.ResourceClaim) // by another, before the first write
		want, wrote string
	}{
		"conflicts":       {subresource: "status", fails: 4, err: conflict, want: "done", wrote: "x has n/gpu-0 for [pods/a]"},
		"no end of them":  {subresource: "status", fails: 5, err: conflict, want: "add allocation and reservation to claim ns/x: "},
		"at first":        {fails: 1, err: conflict, want: "done", wrote: "x has n/gpu-0 for [pods/a]"},
		"not written":     {subresource: "status", fails: 1, err: down, want: "add allocation and reservation to claim ns/x: disk on fire"},
		"not kept":        {fails: 1, err: down, want: "add finalizer to claim ns/x: disk on fire"},
		"another's label": {change: func(c *resourcev1.ResourceClaim) { c.Labels = map[string]string{"a": "b"} }, want: "done", wrote: "x has n/gpu-0 for [pods/a]"},
		"being deleted":   {change: func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = ptr.To(metav1.Now()) }, want: "claim ns/x got deleted in the meantime"},
		"allocated by another": {change: func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation = &resourcev1.AllocationResult{}
		}, want: "claim ns/x got allocated elsewhere in the meantime"},
		"made anew": {change: func(c *resourcev1.ResourceClaim) { c.UID = "other" }, want: "claim ns/x got deleted in the meantime"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
				s.put(claim("x"))
				s.lag.Hold()
				undo := reserve(t, d, pod("a", "x"), "n")
				if tt.change != nil {
					s.edit("x", tt.change)
				}
				s.mu.Lock()
				s.before = func(subresource string, _ *resourcev1.ResourceClaim) error {
					if subresource == tt.subresource && tt.fails > 0 {
						tt.fails--
						return tt.err
					}
					return nil
				}
				s.mu.Unlock()
				got := returned(bindLater(t.Context(), d, pod("a", "x"), "n"))
				if !strings.HasPrefix(got, tt.want) {
					t.Errorf("got %s, want %s", got, tt.want)
				}
				if wrote := s.wrote(); !strings.Contains(wrote, tt.wrote) {
					t.Errorf("wrote %s", wrote)
				}
				if got != "done" {
					undo()
				}
				s.lag.Resume()
			})
		})
	}
}

func TestWaits(t *testing.T) {
	own := pod("a")
	own.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimTemplateName: ptr.To("t")}}
	made := own.DeepCopy()
	made.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "r", ResourceClaimName: ptr.To("x")}}
	needless := own.DeepCopy()
	needless.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "r"}}
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		claim *resourcev1.ResourceClaim
		want  string
	}{
		"no claim":       {pod: pod("a", "x"), want: `could not find ResourceClaim "ns/x"`},
		"not made yet":   {pod: own, want: `pod "ns/a": ResourceClaim not created yet`},
		"none is needed": {pod: needless, want: "nothing"},
		"another's":      {pod: made, claim: claim("x"), want: "ResourceClaim ns/x was not created for Pod ns/a (Pod is not owner)"},
		"its own": {pod: made, claim: claim("x", func(c *resourcev1.ResourceClaim) {
			c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(made, corev1.SchemeGroupVersion.WithKind("Pod"))}
		}), want: "n/gpu-0"},
		"being deleted":   {pod: pod("a", "x"), claim: claim("x", func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = ptr.To(metav1.Now()) }), want: `resourceclaim "x" is being deleted`},
		"no class":        {pod: pod("a", "x"), claim: claim("x", func(c *resourcev1.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.DeviceClassName = "tpu" }), want: "request r: device class tpu does not exist"},
		"no class at all": {pod: pod("a", "x"), claim: claim("x", func(c *resourcev1.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.DeviceClassName = "" }), want: "request r: unsupported request type"},
		"no class of an alternative": {pod: pod("a", "x"), claim: claim("x", func(c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests[0] = resourcev1.DeviceRequest{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "s", DeviceClassName: "tpu"}}}
		}), want: "request r/s: device class tpu does not exist"},
		"of a later kind": {pod: pod("a", "x"), claim: claim("x", func(c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests[0] = resourcev1.DeviceRequest{Name: "r"}
		}), want: "resource claim ns/x, request r: unknown request type"},
		"too many":    {pod: pod("a", "x"), claim: claim("x", count(3)), want: none},
		"no selector": {pod: pod("a", "x"), claim: claim("x", selects(`device.attributes["gpu.example.com"].big`)), want: "claim ns/x: selector #0 on device gpu.example.com/n/gpu-0: CEL runtime error: no such key: big. consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
				if tt.claim != nil {
					s.put(tt.claim)
				}
				equal(t, name, look(t, d, tt.pod, "n"), tt.want)
				if missing := d.Exist(tt.pod) != nil; missing != (strings.Contains(strings.ToLower(tt.want), "resource") && !strings.Contains(tt.want, "unknown request")) {
					t.Errorf("Exist: %v", d.Exist(tt.pod))
				}
			})
		})
	}
}

func selects(expression string) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) {
		c.Spec.Devices.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
	}
}

// Devices with binding conditions make Bind wait for their driver.
func TestConditions(t *testing.T) {
	condition := func(name string, is metav1.ConditionStatus) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) {
			c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: driver, Pool: "n", Device: "late", Conditions: []metav1.Condition{{Type: name, Status: is, Reason: "Because", Message: "it is"}}}}
		}
	}
	ofAnother := func(change func(*resourcev1.AllocatedDeviceStatus)) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) {
			condition("ready", metav1.ConditionTrue)(c)
			change(&c.Status.Devices[0])
		}
	}
	for name, tt := range map[string]struct {
		change func(*resourcev1.ResourceClaim)
		after  time.Duration
		want   string
	}{
		"another driver's is ready": {change: ofAnother(func(s *resourcev1.AllocatedDeviceStatus) { s.Driver = "other.example.com" }), want: "waits"},
		"another pool's is ready":   {change: ofAnother(func(s *resourcev1.AllocatedDeviceStatus) { s.Pool = "m" }), want: "waits"},
		"another one is ready":      {change: ofAnother(func(s *resourcev1.AllocatedDeviceStatus) { s.Device = "early" }), want: "waits"},
		"nothing said":              {want: "waits"},
		"not ready":                 {change: condition("ready", metav1.ConditionFalse), want: "waits"},
		"ready":                     {change: condition("ready", metav1.ConditionTrue), want: "done"},
		"failed":                    {change: condition("broken", metav1.ConditionTrue), want: `device binding failed: claim=x, reason=Because, message="it is"`},
		"not failed":                {change: condition("broken", metav1.ConditionFalse), want: "waits"},
		"almost too late":           {after: time.Minute, want: "waits"},
		"too late":                  {after: time.Minute + time.Second, want: "device binding timeout: claim=x"},
	} {
		t.Run(name, func(t *testing.T) {
			waiting := ""
			o := devices.Options{BindTimeout: time.Minute, Waiting: func(p *corev1.Pod, node string) { waiting = p.Name + " on " + node }}
			run(t, o, func(t *testing.T, s *server, d *devices.Devices) {
				s.slices.Put(slice("n", device("late", func(d *resourcev1.Device) {
					d.BindingConditions, d.BindingFailureConditions = []string{"ready"}, []string{"broken"}
				})))
				s.put(claim("x"))
				reserve(t, d, pod("a", "x"), "n")
				ctx, cancel := context.WithCancel(t.Context())
				done := bindLater(ctx, d, pod("a", "x"), "n")
				equal(t, "at first", returned(done), "waits")
				equal(t, "tells", waiting, "a on n")
				if tt.change != nil {
					s.edit("x", tt.change)
				}
				time.Sleep(tt.after)
				equal(t, name, returned(done), tt.want)
				cancel()
				if tt.want == "waits" {
					equal(t, "at the end", returned(done), "context canceled")
				}
				c, _ := s.claims.Get("ns", "x")
				if reserved := len(c.Status.ReservedFor) > 0; reserved != (tt.want == "done") {
					t.Errorf("reserved for %v", c.Status.ReservedFor)
				}
				synctest.Wait()
				want := map[bool]string{true: "nothing", false: elsewhere}[tt.want == "done" || tt.want == "waits"]
				equal(t, "the next attempt", look(t, d, pod("a", "x"), "n"), want)
			})
		})
	}
}

func TestTaints(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		s.put(claim("tolerant", func(c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly.Tolerations = []resourcev1.DeviceToleration{{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists}}
		}))
		rule := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: resourcev1.DeviceTaintRuleSpec{
			Taint: resourcev1.DeviceTaint{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule},
		}}
		tainted := func(driver, pool, device *string) {
			t.Helper()
			rule.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Driver: driver, Pool: pool, Device: device}
			s.rules.Put(rule)
			synctest.Wait()
		}
		x := func(node string) string { return look(t, d, pod("a", "x"), node) }
		s.rules.Put(rule)
		synctest.Wait()
		equal(t, "a rule for nothing", x("n"), "n/gpu-0")
		tainted(ptr.To(driver), ptr.To("n"), ptr.To("gpu-0"))
		equal(t, "one device", x("n")+" "+x("m"), "n/gpu-1 m/gpu-0")
		equal(t, "tolerated", look(t, d, pod("a", "tolerant"), "n"), "n/gpu-0")
		tainted(ptr.To(driver), ptr.To("n"), nil)
		equal(t, "a pool", x("n")+" "+x("m"), none+" m/gpu-0")
		tainted(ptr.To("other"), nil, nil)
		equal(t, "another driver", x("n"), "n/gpu-0")
		tainted(nil, nil, ptr.To("gpu-0"))
		equal(t, "of all pools", x("n")+" "+x("m"), "n/gpu-1 m/gpu-1")
		s.rules.Delete("", "r")
		synctest.Wait()
		equal(t, "without the rule", x("n"), "n/gpu-0")
		s.slices.Put(slice("n"))
		synctest.Wait()
		equal(t, "without devices", x("n"), none)
	})
}

// The first alternative that a node has counts most.
func TestScore(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.slices.Put(slice("m", device("big", func(d *resourcev1.Device) {
			d.Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"big": {BoolValue: ptr.To(true)}}
		})))
		big := `has(device.attributes["gpu.example.com"].big)`
		sub := func(name, expression string) resourcev1.DeviceSubRequest {
			return resourcev1.DeviceSubRequest{
				Name: name, DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
				Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}},
			}
		}
		s.put(claim("x", func(c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{sub("big", big), sub("any", "true")}}}
		}))
		s.put(claim("plain"))
		score := func(p *corev1.Pod, on string) int64 {
			t.Helper()
			claims, err := d.Of(p)
			if err != nil {
				t.Fatal(err)
			}
			if claims.Ranked() != (p.Name == "a") {
				t.Errorf("%s: ranked is %v", p.Name, claims.Ranked())
			}
			all, err := claims.Find(node(on))
			if err != nil {
				t.Fatal(err)
			}
			return claims.Score(all)
		}
		for _, tt := range []struct {
			pod  *corev1.Pod
			node string
			want int64
		}{{pod("plain", "plain"), "n", 0}, {pod("a", "x"), "m", 8}, {pod("a", "x"), "n", 7}, {pod("a", "plain", "x"), "n", 7}} {
			if got := score(tt.pod, tt.node); got != tt.want {
				t.Errorf("%s on %s: %d, want %d", tt.pod.Name, tt.node, got, tt.want)
			}
		}
		reserve(t, d, pod("a", "x"), "m")
		if err := d.Bind(t.Context(), pod("a", "x"), "m"); err != nil {
			t.Fatal(err)
		}
		if got := score(pod("b", "x"), "m"); got != 8 {
			t.Errorf("allocated before: %d", got)
		}
	})
}

// Access for administration takes nothing, and parts of a device add up.
func TestShared(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.slices.Put(slice("n", device("part", func(d *resourcev1.Device) {
			d.AllowMultipleAllocations = ptr.To(true)
			d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("10Gi")}}
		})))
		part := func(c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse("4Gi")}}
		}
		admin := func(c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
		}
		for _, name := range []string{"x", "y", "z"} {
			s.put(claim(name, part))
		}
		s.put(claim("admin", admin))
		undo := reserve(t, d, pod("a", "x"), "n")
		reserve(t, d, pod("b", "y"), "n")
		equal(t, "a third", look(t, d, pod("c", "z"), "n"), none)
		undo()
		equal(t, "after the undo", look(t, d, pod("c", "z"), "n"), "n/part")
		s.slices.Put(slice("m", device("only")))
		synctest.Wait()
		reserve(t, d, pod("d", "admin"), "m")
		s.put(claim("w"))
		equal(t, "beside the administrator", look(t, d, pod("e", "w"), "m"), "m/only")
	})
}

// Devices that keep a pod from being placed are taken back, unless another pod has them.
func TestRelease(t *testing.T) {
	run(t, devices.Options{}, func(t *testing.T, s *server, d *devices.Devices) {
		s.put(claim("x"))
		p, other := pod("a", "x"), pod("b", "x")
		release := func(nodes ...*corev1.Node) bool {
			t.Helper()
			synctest.Wait()
			done, err := d.Release(t.Context(), p, nodes)
			if err != nil {
				t.Fatal(err)
			}
			return done
		}
		if release(node("n"), node("m")) {
			t.Error("nothing was allocated")
		}
		reserve(t, d, p, "n")
		if err := d.Bind(t.Context(), p, "n"); err != nil {
			t.Fatal(err)
		}
		if release(node("n")) || release() {
			t.Error("released what can be used on all nodes")
		}
		reserve(t, d, other, "n")
		if err := d.Bind(t.Context(), other, "n"); err != nil {
			t.Fatal(err)
		}
		if release(node("m")) {
			t.Error("released what another pod has")
		}
		s.edit("x", func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = c.Status.ReservedFor[:1] })
		s.wrote()
		if !release(node("n"), node("m")) {
			t.Error("not released")
		}
		equal(t, "wrote", s.wrote(), "[x has nothing for []]")
		synctest.Wait()
		equal(t, "then", look(t, d, p, "m"), "m/gpu-0")
		s.mu.Lock()
		s.before = func(string, *resourcev1.ResourceClaim) error { return errors.New("down") }
		s.mu.Unlock()
		s.edit("x", func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n"}}},
			}}}}
		})
		if done, err := d.Release(t.Context(), p, []*corev1.Node{node("m")}); !done || err == nil {
			t.Errorf("a failed write: %v, %v", done, err)
		}
		if done, err := d.Release(t.Context(), pod("c", "gone"), []*corev1.Node{node("m")}); done || err != nil {
			t.Errorf("no claim: %v, %v", done, err)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		d := devices.New(s.in, s, nil, devices.Options{})
		var mu sync.Mutex
		var told []string
		d.Watch(func(e scheduler.Event) {
			mu.Lock()
			defer mu.Unlock()
			kind := map[scheduler.EventKind]string{scheduler.ObjectAdded: "+", scheduler.ObjectUpdated: "~", scheduler.ObjectDeleted: "-"}[e.Kind]
			obj := e.Object
			if obj == nil {
				obj = e.OldObject
			}
			told = append(told, kind+obj.GetName())
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		for _, run := range []func(context.Context) error{s.in.Claims.Run, s.in.Classes.Run, s.in.Slices.Run, s.in.TaintRules.Run} {
			go func() { done <- run(ctx) }()
		}
		synctest.Wait()
		mu.Lock()
		told = nil
		mu.Unlock()
		s.put(claim("c"))
		s.edit("c", func(*resourcev1.ResourceClaim) {})
		s.claims.Delete("ns", "c")
		synctest.Wait()
		s.classes.Delete("", "gpu")
		s.slices.Put(slice("n"))
		synctest.Wait()
		s.slices.Delete("", "n")
		s.rules.Put(&resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}})
		synctest.Wait()
		s.rules.Delete("", "r")
		synctest.Wait()
		mu.Lock()
		equal(t, "told", strings.Join(told, " "), "+c ~c -c ~n +r -r")
		mu.Unlock()
		cancel()
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
