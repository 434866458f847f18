package devicetainteviction_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/devicetainteviction"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// caches are a controller without a loop, behind caches that show what the test puts into them.
type caches struct {
	*testing.T
	pods   *memory.Store[*corev1.Pod]
	claims *memory.Store[*resourcev1.ResourceClaim]
	slices *memory.Store[*resourcev1.ResourceSlice]
	rules  *memory.Store[*resourcev1.DeviceTaintRule]
	server trial.Server
	queue  trial.Queue
	events controllerstest.Recorder
	c      *devicetainteviction.Controller
}

func withCaches(t *testing.T, test func(c *caches)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &caches{
			T: t, pods: memory.New[*corev1.Pod](), claims: memory.New[*resourcev1.ResourceClaim](),
			slices: memory.New[*resourcev1.ResourceSlice](), rules: memory.New[*resourcev1.DeviceTaintRule](),
		}
		in := devicetainteviction.Sources{
			Pods: informer.New[*corev1.Pod](c.pods, informer.Options{}), Claims: informer.New[*resourcev1.ResourceClaim](c.claims, informer.Options{}),
			Slices: informer.New[*resourcev1.ResourceSlice](c.slices, informer.Options{}), Rules: informer.New[*resourcev1.DeviceTaintRule](c.rules, informer.Options{}),
		}
		c.c = devicetainteviction.New(in, &c.server, &c.events)
		if synced := c.c.Watch(&c.queue); len(synced) != 4 {
			t.Errorf("it waits for %d caches", len(synced))
		}
		controllerstest.Go(t, in.Pods, in.Claims, in.Slices, in.Rules)
		test(c)
	})
}

// with shows a pod that runs with a claim for devices.
func (c *caches) with(name string, devices ...string) (*corev1.Pod, *resourcev1.ResourceClaim) {
	p := pod("ns", name)
	p.UID = types.UID("uid of " + name)
	of := claim(p, "")
	var results []resourcev1.DeviceRequestAllocationResult
	for _, d := range devices {
		results = append(results, resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: "d", Pool: "p", Device: d})
	}
	of.Status.Allocation.Devices.Results = results
	return c.pods.Put(p), c.claims.Put(of)
}

func (c *caches) rule(name, device string, effect resourcev1.DeviceTaintEffect, change ...func(r *resourcev1.DeviceTaintRule)) *resourcev1.DeviceTaintRule {
	r := taintRule(name, device, effect)
	r.UID, r.Generation = types.UID("uid of "+name), 1
	for _, to := range change {
		to(r)
	}
	return c.rules.Put(r)
}

// reconcile reconciles a pod, or a rule, and returns when again, the error, and the requests.
func (c *caches) reconcile(namespace, name string) string {
	c.Helper()
	synctest.Wait()
	result, err := c.c.Reconcile(c.Context(), controllers.Key{Namespace: namespace, Name: name})
	var parts []string
	if result.RequeueAfter != 0 {
		parts = append(parts, result.RequeueAfter.String())
	}
	parts = append(parts, c.server.Take()...)
	if err != nil {
		parts = append(parts, err.Error())
	}
	return strings.Join(parts, ", ")
}

func (c *caches) expect(what, got, want string) {
	c.Helper()
	if got != want {
		c.Errorf("%s: %s, want %s", what, got, want)
	}
}

// condition returns the condition that was sent last.
func (c *caches) condition() string {
	r, ok := c.server.Sent().(*resourcev1.DeviceTaintRule)
	if !ok {
		return "none"
	}
	var all []string
	for _, one := range r.Status.Conditions {
		all = append(all, fmt.Sprintf("%s %s %s %d %s", one.Type, one.Status, one.Reason, one.ObservedGeneration, one.Message))
	}
	return strings.Join(all, "; ")
}

const evicting = "get pods, patch pods/status, delete pods"

// TestReasons: of several reasons the earliest counts, and each rule once.
func TestReasons(t *testing.T) {
	of := func(effect resourcev1.DeviceTaintEffect, operator resourcev1.DeviceTolerationOperator, key, value string, seconds ...int64) resourcev1.DeviceToleration {
		toleration := resourcev1.DeviceToleration{Operator: operator, Key: key, Value: value, Effect: effect}
		if len(seconds) > 0 {
			toleration.TolerationSeconds = &seconds[0]
		}
		return toleration
	}
	const exists = resourcev1.DeviceTolerationOpExists
	for name, tt := range map[string]struct {
		tolerations []resourcev1.DeviceToleration
		taints      []string // keys of the device's taints
		rules       []string // keys of rules
		want        string
	}{
		"none":                           {want: ""},
		"a taint":                        {taints: []string{"a"}, want: evicting},
		"two taints, one tolerated":      {taints: []string{"a", "b"}, tolerations: []resourcev1.DeviceToleration{of("NoExecute", exists, "b", "", 60)}, want: evicting},
		"the first tolerated for longer": {taints: []string{"a", "b"}, tolerations: []resourcev1.DeviceToleration{of("NoExecute", exists, "a", "", 60), of("NoExecute", exists, "b", "", 20)}, want: "20s"},
		"the last tolerated for longer":  {taints: []string{"a", "b"}, tolerations: []resourcev1.DeviceToleration{of("NoExecute", exists, "a", "", 20), of("NoExecute", exists, "b", "", 60)}, want: "20s"},
		"a taint and a rule":             {taints: []string{"a"}, rules: []string{"b"}, tolerations: []resourcev1.DeviceToleration{of("NoExecute", exists, "a", "", 60), of("NoExecute", exists, "b", "", 20)}, want: "20s"},
		"a tolerated rule and a taint":   {taints: []string{"a"}, rules: []string{"b"}, tolerations: []resourcev1.DeviceToleration{of("NoExecute", exists, "b", "")}, want: evicting},
		"not at all before a while":      {taints: []string{"a"}, tolerations: []resourcev1.DeviceToleration{of("NoExecute", exists, "a", "", 0), of("NoExecute", exists, "", "", 60)}, want: evicting},
		"a while before not at all":      {taints: []string{"a"}, tolerations: []resourcev1.DeviceToleration{of("NoExecute", exists, "", "", 60), of("NoExecute", exists, "a", "", 0)}, want: evicting},
		"less than nothing":              {taints: []string{"a"}, tolerations: []resourcev1.DeviceToleration{of("NoExecute", exists, "a", "", -60)}, want: evicting},
		"a second":                       {taints: []string{"a"}, tolerations: []resourcev1.DeviceToleration{of("NoExecute", exists, "a", "", 1)}, want: "1s"},
		"of another effect":              {taints: []string{"a"}, tolerations: []resourcev1.DeviceToleration{of("NoSchedule", exists, "a", "")}, want: evicting},
		"of any effect":                  {taints: []string{"a"}, tolerations: []resourcev1.DeviceToleration{of("", exists, "a", "")}, want: evicting},
		"by no operator":                 {taints: []string{"a"}, tolerations: []resourcev1.DeviceToleration{of("NoExecute", "", "a", "v")}},
		"by no operator, another value":  {taints: []string{"a"}, tolerations: []resourcev1.DeviceToleration{of("NoExecute", "", "a", "")}, want: evicting},
		"by an unknown operator":         {taints: []string{"a"}, tolerations: []resourcev1.DeviceToleration{of("NoExecute", "Maybe", "a", "v")}, want: evicting},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, func(c *caches) {
				p, of := c.with("web", "x")
				of = of.DeepCopy()
				of.Status.Allocation.Devices.Results[0].Tolerations = tt.tolerations
				c.claims.Put(of)
				c.server.Answer("pods", p)
				var taints []resourcev1.DeviceTaint
				for _, key := range tt.taints {
					taints = append(taints, resourcev1.DeviceTaint{Key: key, Value: "v", Effect: "NoExecute", TimeAdded: new(metav1.Now())})
				}
				c.slices.Put(slice("s", 1, taints...))
				for _, key := range tt.rules {
					c.rule(key, "x", "NoExecute", func(r *resourcev1.DeviceTaintRule) { r.Spec.Taint.Key, r.Spec.Taint.TimeAdded = key, new(metav1.Now()) })
				}
				c.expect("pod", c.reconcile("ns", "web"), tt.want)
			})
		})
	}
}

// TestPools: the newest slices of a pool have its devices, however many they are, and in whatever order.
func TestPools(t *testing.T) {
	of := func(name string, generation int64, devices ...string) *resourcev1.ResourceSlice {
		s := slice(name, generation)
		s.Spec.Devices = nil
		for _, device := range devices {
			device, tainted := strings.CutPrefix(device, "!")
			d := resourcev1.Device{Name: device}
			if tainted {
				d.Taints = []resourcev1.DeviceTaint{taint("NoExecute")}
			}
			s.Spec.Devices = append(s.Spec.Devices, d)
		}
		return s
	}
	other := of("other", 9, "!x")
	other.Spec.Pool.Name = "q"
	foreign := of("foreign", 9, "!x")
	foreign.Spec.Driver = "e"
	for name, tt := range map[string]struct {
		slices []*resourcev1.ResourceSlice
		want   string
	}{
		"tainted":           {[]*resourcev1.ResourceSlice{of("a", 1, "!x")}, evicting},
		"in the first":      {[]*resourcev1.ResourceSlice{of("a", 1, "!x"), of("b", 1, "y")}, evicting},
		"in the last":       {[]*resourcev1.ResourceSlice{of("a", 1, "y"), of("b", 1, "!x")}, evicting},
		"no longer":         {[]*resourcev1.ResourceSlice{of("a", 1, "!x"), of("b", 2, "x")}, ""},
		"no longer, before": {[]*resourcev1.ResourceSlice{of("a", 2, "x"), of("b", 1, "!x")}, ""},
		"newly":             {[]*resourcev1.ResourceSlice{of("a", 1, "x"), of("b", 2, "!x")}, evicting},
		"gone":              {[]*resourcev1.ResourceSlice{of("a", 1, "!x"), of("b", 2, "y")}, ""},
		"another pool":      {[]*resourcev1.ResourceSlice{of("a", 1, "x"), other}, ""},
		"another driver":    {[]*resourcev1.ResourceSlice{of("a", 1, "x"), foreign}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, func(c *caches) {
				p, _ := c.with("web", "x")
				c.server.Answer("pods", p)
				for _, s := range tt.slices {
					c.slices.Put(s)
				}
				c.expect("pod", c.reconcile("ns", "web"), tt.want)
			})
		})
	}
}

// TestSelectors: which devices a rule is about, and what it counts.
func TestSelectors(t *testing.T) {
	for name, tt := range map[string]struct {
		selector *resourcev1.DeviceTaintSelector
		want     string // of the rule with the effect None
		evicts   bool
	}{
		"all":            {&resourcev1.DeviceTaintSelector{}, "3 published devices selected. 3 allocated devices selected. 2 pods would be evicted in 1 namespace", true},
		"none":           {nil, "0 published devices selected. 0 allocated devices selected. 0 pods would be evicted in 0 different namespaces", false},
		"device":         {&resourcev1.DeviceTaintSelector{Device: new("x")}, "1 published device selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace", true},
		"another device": {&resourcev1.DeviceTaintSelector{Device: new("z")}, "0 published devices selected. 0 allocated devices selected. 0 pods would be evicted in 0 different namespaces", false},
		"pool":           {&resourcev1.DeviceTaintSelector{Pool: new("p")}, "3 published devices selected. 3 allocated devices selected. 2 pods would be evicted in 1 namespace", true},
		"another pool":   {&resourcev1.DeviceTaintSelector{Pool: new("q")}, "0 published devices selected. 0 allocated devices selected. 0 pods would be evicted in 0 different namespaces", false},
		"another driver": {&resourcev1.DeviceTaintSelector{Driver: new("e"), Pool: new("p")}, "0 published devices selected. 0 allocated devices selected. 0 pods would be evicted in 0 different namespaces", false},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, func(c *caches) {
				p, _ := c.with("web", "x", "y")
				c.with("other", "y")
				unallocated := claim(pod("ns", "later"), "x")
				unallocated.Status = resourcev1.ResourceClaimStatus{}
				c.claims.Put(unallocated)
				going, _ := c.with("going")
				going = going.DeepCopy()
				going.DeletionTimestamp = new(metav1.Now())
				c.pods.Put(going)
				c.slices.Put(slice("old", 1))
				c.slices.Put(slice("one", 2))
				two := slice("two", 2)
				two.Spec.Devices = two.Spec.Devices[1:]
				c.slices.Put(two)
				c.server.Answer("pods", p)
				selects := func(r *resourcev1.DeviceTaintRule) { r.Spec.DeviceSelector = tt.selector }
				c.rule("would", "", "None", selects)
				c.expect("rule", c.reconcile("", "would"), "update devicetaintrules/status")
				want := "EvictionInProgress False NoEffect 1 " + tt.want
				if got := c.condition(); !strings.HasPrefix(got, want+" if the effect was NoExecute. ") {
					t.Errorf("got %s, want %s", got, want)
				}
				c.rule("does", "", "NoExecute", selects)
				c.expect("pod", c.reconcile("ns", "web"), map[bool]string{true: evicting}[tt.evicts])
			})
		})
	}
}

// TestConditions: what a rule's status says, and when it is written.
func TestConditions(t *testing.T) {
	withCaches(t, func(c *caches) {
		const update = "update devicetaintrules/status"
		other := metav1.Condition{Type: "Other", Status: "True"}
		conditions := func(all ...metav1.Condition) func(r *resourcev1.DeviceTaintRule) {
			return func(r *resourcev1.DeviceTaintRule) { r.Status.Conditions = all }
		}
		c.expect("no rule", c.reconcile("", "r"), "")
		c.rule("r", "x", "NoExecute", conditions(other))
		c.expect("new", c.reconcile("", "r"), update)
		c.expect("new", c.condition(), "Other True  0 ; EvictionInProgress False NotStarted 1 ")
		sent := c.server.Sent().(*resourcev1.DeviceTaintRule)
		mine := sent.Status.Conditions[1]
		if !mine.LastTransitionTime.Time.Equal(time.Now()) {
			t.Errorf("at %v", mine.LastTransitionTime)
		}
		show := func(generation int64) {
			c.rule("r", "x", "NoExecute", conditions(other, mine), func(r *resourcev1.DeviceTaintRule) { r.Generation = generation })
		}
		show(1)
		c.expect("at once", c.reconcile("", "r"), "10s")
		time.Sleep(4 * time.Second)
		c.expect("soon", c.reconcile("", "r"), "6s")
		time.Sleep(6 * time.Second)
		c.expect("unchanged", c.reconcile("", "r"), "")
		show(2)
		c.expect("another generation", c.reconcile("", "r"), update)
		mine = c.server.Sent().(*resourcev1.DeviceTaintRule).Status.Conditions[1]
		show(3)
		c.expect("another generation at once", c.reconcile("", "r"), update)
		c.expect("another generation", c.condition(), "Other True  0 ; EvictionInProgress False NotStarted 3 ")

		c.rule("another", "y", "NoExecute")
		one, _ := c.with("one", "x", "x")
		c.with("two", "x")
		c.with("three", "y")
		show(1)
		c.expect("two pods", c.reconcile("", "r"), update)
		c.expect("two pods", c.condition(), "Other True  0 ; EvictionInProgress True PodsPendingEviction 1 2 pods need to be evicted in 1 namespace.")
		c.server.Answer("pods", one)
		c.queue.Take()
		c.expect("pod", c.reconcile("ns", "one"), evicting)
		c.expect("queued", c.queue.Take(), "r+10s")
		going := one.DeepCopy()
		going.DeletionTimestamp = new(metav1.Now())
		c.pods.Put(going)
		c.expect("one pod", c.reconcile("", "r"), update)
		c.expect("one pod", c.condition(), "Other True  0 ; EvictionInProgress True PodsPendingEviction 1 1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller.")
		c.server.Fail(update, trial.ErrDown)
		c.expect("failing", c.reconcile("", "r"), update+", add condition to DeviceTaintRule status: down")
		c.server.Fail(update, nil)
		c.rules.Delete("", "r") // another of the same name has done nothing yet
		show(1)
		c.expect("anew", c.reconcile("", "r"), update)
		c.expect("anew", c.condition(), "Other True  0 ; EvictionInProgress True PodsPendingEviction 1 1 pod needs to be evicted in 1 namespace.")
	})
}

// TestTwoRules: all rules that evict a pod count it, however many of its devices they are about.
func TestTwoRules(t *testing.T) {
	withCaches(t, func(c *caches) {
		p, _ := c.with("web", "x", "y")
		all := func(r *resourcev1.DeviceTaintRule) { r.Spec.DeviceSelector.Device = nil }
		c.rule("r", "", "NoExecute", all)
		c.rule("s", "", "NoExecute", all)
		c.rule("t", "y", "NoExecute")
		c.server.Answer("pods", p)
		c.expect("pod", c.reconcile("ns", "web"), evicting)
		c.pods.Delete("ns", "web")
		for _, name := range []string{"r", "s", "t"} {
			c.reconcile("", name)
			c.expect(name, c.condition(), "EvictionInProgress False Completed 1 1 pod evicted since starting the controller.")
		}
	})
}

// TestEvictions: what is asked of the server, and whether the rule counts it.
func TestEvictions(t *testing.T) {
	missing := apierrors.NewNotFound(corev1.Resource("pods"), "web")
	changed := func(change func(p *corev1.Pod)) func(p *corev1.Pod) runtime.Object {
		return func(p *corev1.Pod) runtime.Object {
			p = p.DeepCopy()
			change(p)
			return p
		}
	}
	for name, tt := range map[string]struct {
		fail    string
		err     error
		live    func(p *corev1.Pod) runtime.Object
		want    string
		counted bool
		events  int
	}{
		"done":            {want: evicting, counted: true, events: 1},
		"gone":            {fail: "get pods", err: missing, want: "get pods"},
		"no word":         {fail: "get pods", err: trial.ErrDown, want: "get pods, evicting pod ns/web: down"},
		"no pod":          {live: func(*corev1.Pod) runtime.Object { return &corev1.Node{} }, want: "get pods, evicting pod ns/web: the server answered with a *v1.Node"},
		"another":         {live: changed(func(p *corev1.Pod) { p.UID = "other" }), want: "get pods"},
		"going":           {live: changed(func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }), want: "get pods", counted: true},
		"said before":     {live: changed(said), want: "get pods, delete pods", counted: true, events: 1},
		"not said":        {fail: "patch pods/status", err: trial.ErrDown, want: "get pods, patch pods/status, evicting pod ns/web: status of pod ns/web: down", events: 1},
		"gone while said": {fail: "patch pods/status", err: missing, want: "get pods, patch pods/status", events: 1},
		"not deleted":     {fail: "delete pods", err: trial.ErrDown, want: evicting + ", evicting pod ns/web: down", events: 1},
		"gone at last":    {fail: "delete pods", err: missing, want: evicting, events: 1},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, func(c *caches) {
				p, _ := c.with("web", "x")
				c.rule("r", "x", "NoExecute")
				c.server.Answer("pods", p)
				if tt.live != nil {
					c.server.Answer("pods", tt.live(p))
				}
				c.server.Fail(tt.fail, tt.err)
				c.expect("pod", c.reconcile("ns", "web"), tt.want)
				if o, ok := c.server.Sent().(metav1.DeleteOptions); ok && *o.Preconditions.UID != p.UID {
					t.Errorf("deleted with %+v", o)
				}
				if got := len(c.events.Take()); got != tt.events {
					t.Errorf("%d events", got)
				}
				if strings.Contains(tt.want, "evicting pod") {
					c.expect("again", c.reconcile("ns", "web"), tt.want)
				} else {
					c.expect("again", c.reconcile("ns", "web"), "")
				}
				c.pods.Delete("ns", "web")
				c.expect("rule", c.reconcile("", "r"), "update devicetaintrules/status")
				c.expect("rule", c.condition(), map[bool]string{
					true: "EvictionInProgress False Completed 1 1 pod evicted since starting the controller.", false: "EvictionInProgress False NotStarted 1 ",
				}[tt.counted])
			})
		})
	}
}

func said(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: "True", Reason: "DeletionByDeviceTaintManager", Message: "Device Taint manager: deleting due to NoExecute taint",
	}}
}

// TestAgain: a pod of the same name is another one, and a pod that went is not evicted twice.
func TestAgain(t *testing.T) {
	withCaches(t, func(c *caches) {
		p, _ := c.with("web", "x")
		c.rule("r", "x", "NoExecute")
		c.server.Answer("pods", p)
		c.expect("first", c.reconcile("ns", "web"), evicting)
		c.expect("again", c.reconcile("ns", "web"), "")
		c.pods.Delete("ns", "web")
		c.expect("gone", c.reconcile("ns", "web"), "")
		c.pods.Put(p)
		c.expect("back", c.reconcile("ns", "web"), evicting) // what is gone is forgotten
		next := p.DeepCopy()
		next.UID = "next"
		next = c.pods.Put(next)
		of := claim(next, "x")
		c.claims.Put(of)
		c.server.Answer("pods", next)
		c.expect("another", c.reconcile("ns", "web"), evicting)
		if got := len(c.events.Take()); got != 3 {
			t.Errorf("%d events", got)
		}
		// One that was to be evicted and is replaced was not saved by anybody.
		of.Status.Allocation.Devices.Results[0].Tolerations = []resourcev1.DeviceToleration{{Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(60))}}
		last := next.DeepCopy()
		last.UID = "last"
		of.Status.ReservedFor[0].UID = "last"
		c.rule("r", "x", "NoExecute", func(r *resourcev1.DeviceTaintRule) { r.Spec.Taint.TimeAdded = new(metav1.Now()) })
		c.claims.Put(of)
		c.pods.Put(last)
		c.expect("in a while", c.reconcile("ns", "web"), "1m0s")
		after := next.DeepCopy()
		after.UID = "after"
		c.pods.Put(after)
		c.expect("replaced", c.reconcile("ns", "web"), "")
		c.pods.Put(last)
		c.expect("in a while", c.reconcile("ns", "web"), "1m0s")
		c.rules.Delete("", "r")
		c.expect("saved", c.reconcile("ns", "web"), "")
		c.expect("saved", c.reconcile("ns", "web"), "")
		if got := c.events.Take(); !slices.Equal(got, []string{"Normal DeviceTaintManagerEviction Cancelling deletion"}) {
			t.Errorf("events %q", got)
		}
	})
}

// TestReferences: which claims are a pod's.
func TestReferences(t *testing.T) {
	made := func(p *corev1.Pod, c *resourcev1.ResourceClaim) {
		p.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: new("t")}
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new("web")}}
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}}
	}
	for name, tt := range map[string]struct {
		to   func(p *corev1.Pod, c *resourcev1.ResourceClaim)
		want string
	}{
		"named":       {func(*corev1.Pod, *resourcev1.ResourceClaim) {}, evicting},
		"made for it": {made, evicting},
		"made for another": {func(p *corev1.Pod, c *resourcev1.ResourceClaim) {
			made(p, c)
			c.OwnerReferences[0].UID = "other"
		}, ""},
		"of another reference": {func(p *corev1.Pod, c *resourcev1.ResourceClaim) {
			made(p, c)
			p.Status.ResourceClaimStatuses[0].Name = "other"
		}, ""},
		"not needed": {func(p *corev1.Pod, c *resourcev1.ResourceClaim) {
			made(p, c)
			p.Status.ResourceClaimStatuses[0].ResourceClaimName = nil
		}, ""},
		"the second": {func(p *corev1.Pod, _ *resourcev1.ResourceClaim) {
			p.Spec.ResourceClaims = append([]corev1.PodResourceClaim{{Name: "a", ResourceClaimName: new("missing")}}, p.Spec.ResourceClaims...)
		}, evicting},
		"for another, too": {func(_ *corev1.Pod, c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = append([]resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "x", UID: "x"}}, c.Status.ReservedFor...)
		}, evicting},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, func(c *caches) {
				p, of := c.with("web", "x")
				p, of = p.DeepCopy(), of.DeepCopy()
				tt.to(p, of)
				c.claims.Put(of)
				c.server.Answer("pods", c.pods.Put(p))
				c.rule("r", "x", "NoExecute")
				c.expect("pod", c.reconcile("ns", "web"), tt.want)
			})
		})
	}
}

// TestQueued: which changes are looked at.
func TestQueued(t *testing.T) {
	withCaches(t, func(c *caches) {
		expect := func(what, want string) {
			t.Helper()
			synctest.Wait()
			c.expect(what, c.queue.Take(), want)
		}
		p, of := c.with("web", "x")
		expect("new", "ns/web")
		plain := pod("ns", "plain")
		plain.Spec.ResourceClaims = nil
		c.pods.Put(plain)
		expect("without claims", "")
		change := func(to func(p *corev1.Pod)) {
			p = p.DeepCopy()
			to(p)
			c.pods.Put(p)
		}
		change(func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} })
		expect("labels", "")
		change(func(p *corev1.Pod) { p.UID = "other" })
		expect("another", "ns/web")
		change(func(p *corev1.Pod) { p.Spec.NodeName = "m" })
		expect("bound", "ns/web")
		change(func(p *corev1.Pod) { p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu"}} })
		expect("its claims", "ns/web")

		of = of.DeepCopy()
		of.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "new"}, {APIGroup: "x", Resource: "pods", Name: "no"}, {Resource: "things", Name: "no"}}
		c.claims.Put(of)
		expect("users", "ns/new ns/web")
		c.claims.Put(of)
		expect("the claim", "ns/new")
		s := slice("s", 1)
		c.slices.Put(s)
		expect("a slice", "ns/new")
		s.Spec.Pool.Name = "q"
		c.slices.Put(s)
		expect("one that is of another pool now", "ns/new")
		c.slices.Put(s)
		expect("one of another pool", "")
		s.Spec.Pool.Name = "p"
		c.slices.Put(s)
		expect("one that is of the pool now", "ns/new")
		c.slices.Delete("", "s")
		expect("no slice", "ns/new")

		later := claim(pod("ns", "later"), "x")
		later.Status.Allocation = nil
		c.claims.Put(later)
		expect("a claim that is not allocated", "ns/later")
		r := c.rule("r", "x", "NoExecute")
		expect("a rule", "ns/new r")
		c.rule("r", "x", "NoExecute", func(r *resourcev1.DeviceTaintRule) { r.Status.Conditions = []metav1.Condition{{Type: "a"}} })
		expect("its status", "")
		c.rule("r", "y", "NoExecute")
		expect("its selector", "ns/new r")
		c.rule("r", "y", "NoExecute", func(r *resourcev1.DeviceTaintRule) { r.UID = "other" })
		expect("another rule", "ns/new r")
		c.rules.Delete("", r.Name)
		expect("no rule", "ns/new r")
		c.claims.Delete("ns", of.Name)
		expect("no claim", "ns/new")
		c.pods.Delete("ns", "web")
		expect("no pod", "ns/web")
	})
}
