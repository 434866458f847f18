package devicetainteviction_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/devicetainteviction"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry/resource"
)

func of(resource string) client.Target {
	return client.Target{Resource: resourcev1.SchemeGroupVersion.WithResource(resource)}
}

// bench is a running controller with its API, in a bubble.
type bench struct {
	*testing.T
	api      *controllerstest.API
	recorder *controllerstest.Recorder
}

func sources(api *controllerstest.API, o informer.Options) devicetainteviction.Sources {
	return devicetainteviction.Sources{
		Pods:   informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), o),
		Claims: informer.New(controllerstest.Source[*resourcev1.ResourceClaim](api, of("resourceclaims").Resource), o),
		Slices: informer.New(controllerstest.Source[*resourcev1.ResourceSlice](api, of("resourceslices").Resource), o),
		Rules:  informer.New(controllerstest.Source[*resourcev1.DeviceTaintRule](api, of("devicetaintrules").Resource), o),
	}
}

func inBubble(t *testing.T, o controllerstest.Options, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Kinds = resource.Kinds(resource.Options{})
		b := &bench{t, controllerstest.Start(t, o), &controllerstest.Recorder{}}
		in := sources(b.api, informer.Options{DetectMutations: func(err error) { b.Error(err) }})
		c := devicetainteviction.New(in, b.api, b.recorder)
		if c.Name() != "device-taint-eviction-controller" {
			b.Errorf("named %s", c.Name())
		}
		controllerstest.Go(b, in.Pods, in.Claims, in.Slices, in.Rules, controllers.NewLoop(c, controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

// pod returns a pod that runs with the claim of its name.
func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{
		NodeName: "n", ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}},
	}}
}

// claim returns a claim that is allocated a device for a pod.
func claim(p *corev1.Pod, device string, tolerations ...resourcev1.DeviceToleration) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Spec: resourcev1.ResourceClaimSpec{
		Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c"}}}},
	}}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "r", Driver: "d", Pool: "p", Device: device, Tolerations: tolerations},
	}}}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
	return c
}

func slice(name string, generation int64, taints ...resourcev1.DeviceTaint) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "d", NodeName: new("n"), Pool: resourcev1.ResourcePool{Name: "p", Generation: generation, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "x", Taints: taints}, {Name: "y"}},
	}}
}

func taint(effect resourcev1.DeviceTaintEffect) resourcev1.DeviceTaint {
	return resourcev1.DeviceTaint{Key: "broken", Value: "very", Effect: effect}
}

func taintRule(name, device string, effect resourcev1.DeviceTaintEffect) *resourcev1.DeviceTaintRule {
	return &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceTaintRuleSpec{
		DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: new("d"), Pool: new("p"), Device: &device}, Taint: taint(effect),
	}}
}

func add[T informer.Object](b *bench, obj T) T {
	b.Helper()
	stored := controllerstest.Add(b, b.api, obj)
	synctest.Wait()
	return stored
}

// with adds a pod with its claim.
func (b *bench) with(namespace, name, device string, tolerations ...resourcev1.DeviceToleration) *corev1.Pod {
	b.Helper()
	p := add(b, pod(namespace, name))
	add(b, claim(p, device, tolerations...))
	return p
}

// at looks at a pod: gone, or whether it is being deleted and why.
func (b *bench) at(namespace, name string) string {
	b.Helper()
	synctest.Wait()
	obj, err := b.api.Others.Get(b.Context(), client.Target{Resource: controllerstest.Pods(), Namespace: namespace, Name: name})
	if apierrors.IsNotFound(err) {
		return "gone"
	}
	if err != nil {
		b.Fatal(err)
	}
	p := obj.(*corev1.Pod)
	if p.DeletionTimestamp == nil {
		return "stays"
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			return c.Reason + ": " + c.Message
		}
	}
	return "goes"
}

const evicted = "DeletionByDeviceTaintManager: Device Taint manager: deleting due to NoExecute taint"

func (b *bench) delete(t client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), t, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// condition returns that of a rule.
func (b *bench) condition(name string) string {
	b.Helper()
	synctest.Wait()
	t := of("devicetaintrules")
	t.Name = name
	obj, err := b.api.Others.Get(b.Context(), t)
	if err != nil {
		b.Fatal(err)
	}
	all := obj.(*resourcev1.DeviceTaintRule).Status.Conditions
	if len(all) != 1 || all[0].Type != "EvictionInProgress" {
		return fmt.Sprint(all)
	}
	return fmt.Sprintf("%s %s %s", all[0].Status, all[0].Reason, all[0].Message)
}

// TestTaints: which taints of which devices move which pods, and when.
func TestTaints(t *testing.T) {
	exists, equal := resourcev1.DeviceTolerationOpExists, resourcev1.DeviceTolerationOpEqual
	tolerate := func(operator resourcev1.DeviceTolerationOperator, key, value string, seconds int64) resourcev1.DeviceToleration {
		toleration := resourcev1.DeviceToleration{Operator: operator, Key: key, Value: value, Effect: "NoExecute"}
		if seconds > 0 {
			toleration.TolerationSeconds = &seconds
		}
		return toleration
	}
	for name, tt := range map[string]struct {
		effect      resourcev1.DeviceTaintEffect
		tolerations []resourcev1.DeviceToleration
		after       time.Duration // 0: it stays
	}{
		"at once":           {effect: "NoExecute", after: time.Second},
		"of another effect": {effect: "NoSchedule"},
		"without effect":    {effect: "None"},
		"tolerated":         {effect: "NoExecute", tolerations: []resourcev1.DeviceToleration{tolerate(equal, "broken", "very", 0)}},
		"of any key":        {effect: "NoExecute", tolerations: []resourcev1.DeviceToleration{tolerate(exists, "", "", 0)}},
		"of another key":    {effect: "NoExecute", tolerations: []resourcev1.DeviceToleration{tolerate(exists, "other", "", 0)}, after: time.Second},
		"of another value":  {effect: "NoExecute", tolerations: []resourcev1.DeviceToleration{tolerate(equal, "broken", "slightly", 0)}, after: time.Second},
		"for a while": {effect: "NoExecute", after: 31 * time.Second, tolerations: []resourcev1.DeviceToleration{
			tolerate(exists, "broken", "", 60), tolerate(exists, "", "", 30)}},
		"for ever beats a while": {effect: "NoExecute", tolerations: []resourcev1.DeviceToleration{
			tolerate(exists, "broken", "", 60), tolerate(exists, "", "", 0)}},
	} {
		for by, taint := range map[string]func(b *bench){
			"driver": func(b *bench) { add(b, slice("s", 2, taint(tt.effect))) },
			"rule":   func(b *bench) { add(b, taintRule("r", "x", tt.effect)) },
		} {
			t.Run(name+" by "+by, func(t *testing.T) {
				inBubble(t, controllerstest.Options{}, func(b *bench) {
					b.with("ns", "on-x", "x", tt.tolerations...)
					b.with("ns", "on-y", "y", tt.tolerations...)
					add(b, slice("before", 1, taintBefore()))
					taint(b)
					if tt.after > 0 {
						time.Sleep(tt.after - 2*time.Second)
						if tt.after > time.Minute/2 && b.at("ns", "on-x") != "stays" {
							b.Errorf("before its time: %s", b.at("ns", "on-x"))
						}
						time.Sleep(2 * time.Second)
					} else {
						time.Sleep(time.Hour)
					}
					if got, want := b.at("ns", "on-x"), map[bool]string{true: evicted, false: "stays"}[tt.after > 0]; got != want {
						b.Errorf("on x: %s, want %s", got, want)
					}
					if got := b.at("ns", "on-y"); got != "stays" {
						b.Errorf("on y: %s", got)
					}
				})
			})
		}
	}
}

// taintBefore is one that does nothing.
func taintBefore() resourcev1.DeviceTaint { return taint("NoSchedule") }

// TestGenerations: only the newest slices of a pool count.
func TestGenerations(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		add(b, slice("new", 2))
		b.with("ns", "web", "x")
		add(b, slice("old", 1, taint("NoExecute")))
		if got := b.at("ns", "web"); got != "stays" {
			b.Errorf("by an old slice: %s", got)
		}
	})
}

// TestUnconcerned: pods that do not use the device that their claim has.
func TestUnconcerned(t *testing.T) {
	for name, to := range map[string]func(p *corev1.Pod, c *resourcev1.ResourceClaim){
		"not bound":     func(p *corev1.Pod, _ *resourcev1.ResourceClaim) { p.Spec.NodeName = "" },
		"not reserved":  func(_ *corev1.Pod, c *resourcev1.ResourceClaim) { c.Status.ReservedFor = nil },
		"of another":    func(_ *corev1.Pod, c *resourcev1.ResourceClaim) { c.Status.ReservedFor[0].UID = "other" },
		"not allocated": func(_ *corev1.Pod, c *resourcev1.ResourceClaim) { c.Status.Allocation, c.Status.ReservedFor = nil, nil },
		"not its owner": func(p *corev1.Pod, _ *resourcev1.ResourceClaim) {
			p.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: new("t")}
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new("web")}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerstest.Options{}, func(b *bench) {
				p := pod("ns", "web")
				to(p, claim(p, "x"))
				stored := add(b, p)
				c := claim(stored, "x")
				to(stored.DeepCopy(), c)
				add(b, c)
				add(b, taintRule("r", "x", "NoExecute"))
				time.Sleep(time.Minute)
				if got := b.at("ns", "web"); got != "stays" {
					b.Error(got)
				}
				if got := b.condition("r"); got != "False NotStarted " {
					b.Errorf("rule: %s", got)
				}
			})
		})
	}
}

// TestCancelled: a taint that goes in time takes its deadline with it, and says so.
func TestCancelled(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		b.with("ns", "web", "x", resourcev1.DeviceToleration{Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(60))})
		add(b, taintRule("r", "x", "NoExecute"))
		time.Sleep(30 * time.Second)
		if got := b.condition("r"); got != "True PodsPendingEviction 1 pod needs to be evicted in 1 namespace." {
			b.Errorf("rule: %s", got)
		}
		t := of("devicetaintrules")
		t.Name = "r"
		b.delete(t)
		time.Sleep(time.Hour)
		if got := b.at("ns", "web"); got != "stays" {
			b.Error(got)
		}
		if got, want := b.recorder.Take(), []string{"Normal DeviceTaintManagerEviction Cancelling deletion"}; !slices.Equal(got, want) {
			b.Errorf("events %q", got)
		}
	})
}

// TestRuleStatus: a rule counts what it has done and what it would do.
func TestRuleStatus(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		add(b, slice("s", 1))
		b.with("ns", "web", "x")
		b.with("other", "web", "x")
		would := taintRule("would", "x", "None")
		add(b, would)
		add(b, taintRule("other", "x", "NoSchedule"))
		if got := b.condition("would"); got != "False NoEffect 1 published device selected. 2 allocated devices selected. 2 pods would be evicted in 2 different namespaces "+
			"if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update." {
			b.Errorf("would: %s", got)
		}
		if got := b.condition("other"); got != "False OtherEffect Eviction only happens for the NoExecute effect." {
			b.Errorf("other: %s", got)
		}
		add(b, taintRule("does", "x", "NoExecute"))
		time.Sleep(time.Minute)
		if got := b.condition("does"); got != "False Completed 2 pods evicted since starting the controller." {
			b.Errorf("does: %s", got)
		}
		if got := b.recorder.Take(); len(got) != 2 || got[0] != "Normal DeviceTaintManagerEviction Marking for deletion" {
			b.Errorf("events %q", got)
		}
	})
}

// TestRetried: what fails is tried again; a pod is counted once.
func TestRetried(t *testing.T) {
	var failures atomic.Int32
	o := controllerstest.Options{Before: func(r faults.Request) error {
		if r.Verb == faults.Delete && failures.Add(1) <= 3 {
			return errors.New("no")
		}
		return nil
	}}
	inBubble(t, o, func(b *bench) {
		b.with("ns", "web", "x")
		add(b, taintRule("r", "x", "NoExecute"))
		time.Sleep(time.Minute)
		if got := b.at("ns", "web"); got != evicted {
			b.Error(got)
		}
		if got := b.condition("r"); got != "False Completed 1 pod evicted since starting the controller." {
			b.Errorf("rule: %s", got)
		}
	})
}

// TestReplaced: a pod of the same name that came after is not deleted for its predecessor.
func TestReplaced(t *testing.T) {
	var api *controllerstest.API
	o := controllerstest.Options{Before: func(r faults.Request) error {
		if r.Verb != faults.Delete || api == nil {
			return nil
		}
		others := api.Others
		api = nil
		if err := others.Delete(context.Background(), r.Target, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			return err
		}
		again := controllerstest.Complete(pod("ns", "web"))
		at := r.Target
		at.Name = ""
		_, err := others.Create(context.Background(), at, again, metav1.CreateOptions{})
		return err
	}}
	inBubble(t, o, func(b *bench) {
		before := b.with("ns", "web", "x")
		api = b.api
		add(b, taintRule("r", "x", "NoExecute"))
		time.Sleep(time.Minute)
		obj, err := b.api.Others.Get(b.Context(), client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: "web"})
		if err != nil {
			b.Fatal(err)
		}
		if now := obj.(*corev1.Pod); now.UID == before.UID || now.UID == types.UID("") || now.DeletionTimestamp != nil {
			b.Errorf("%+v", now.ObjectMeta)
		}
	})
}

// A pod whose device breaks is deleted. The API and the caches of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	web := controllerstest.Complete(pod("ns", "web"))
	web.UID = "uid-00001" // the one that it will get, as the first object
	api, err := controllerstest.New(controllerstest.Options{
		Kinds:   resource.Kinds(resource.Options{}),
		Objects: []informer.Object{web, claim(web, "x"), taintRule("broken", "x", "NoExecute")},
		Before: func(r faults.Request) error {
			if r.Verb == faults.Delete {
				fmt.Println(r)
				stop()
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := sources(api, informer.Options{})
	loop := controllers.NewLoop(devicetainteviction.New(in, api, &controllerstest.Recorder{}), controllers.Options{})
	if err := lifecycle.Group(api, in.Pods, in.Claims, in.Slices, in.Rules, loop).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: delete pods ns/web
}
