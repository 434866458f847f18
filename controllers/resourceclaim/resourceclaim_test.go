package resourceclaim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	resourceapi "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/resourceclaim"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry/resource"
)

var (
	claims    = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
	templates = resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates")
)

// bench is a running controller with its API, in a bubble.
type bench struct {
	*testing.T
	api      *controllerstest.API
	recorder *controllerstest.Recorder
}

func sources(api *controllerstest.API, o informer.Options) resourceclaim.Sources {
	return resourceclaim.Sources{
		Pods:      informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), o),
		Claims:    informer.New(controllerstest.Source[*resourcev1.ResourceClaim](api, claims), o),
		Templates: informer.New(controllerstest.Source[*resourcev1.ResourceClaimTemplate](api, templates), o),
	}
}

func inBubble(t *testing.T, o controllerstest.Options, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Kinds = resource.Kinds(resource.Options{})
		b := &bench{t, controllerstest.Start(t, o), &controllerstest.Recorder{}}
		b.start()
		test(b)
	})
}

// start starts the controller.
func (b *bench) start() {
	in := sources(b.api, informer.Options{DetectMutations: func(err error) { b.Error(err) }})
	c := resourceclaim.New(in, b.api, b.recorder)
	if c.Name() != "resourceclaim-controller" {
		b.Errorf("named %s", c.Name())
	}
	controllerstest.Go(b, in.Pods, in.Claims, in.Templates, controllers.NewLoop(c, controllers.Options{}))
	synctest.Wait()
}

// pod returns a pod with a claim "gpu" of the template "t", and with the claim "shared".
func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{
		{Name: "gpu", ResourceClaimTemplateName: new("t")}, {Name: "shared", ResourceClaimName: new("shared")},
	}}}
}

func template() *resourcev1.ResourceClaimTemplate {
	return &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"}, Spec: resourcev1.ResourceClaimTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
		Spec:       spec(),
	}}
}

func spec() resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c"}},
	}}}
}

// claim returns a claim that is allocated, by this control plane or another, for pods.
func claim(name string, ours bool, pods ...*corev1.Pod) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: spec()}
	if ours {
		c.Finalizers = []string{resourcev1.Finalizer}
	}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "r", Driver: "d", Pool: "p", Device: "x"},
	}}}
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	}
	return c
}

func add[T informer.Object](b *bench, obj T) T {
	b.Helper()
	stored := controllerstest.Add(b, b.api, obj)
	synctest.Wait()
	return stored
}

func (b *bench) delete(resource client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), resource, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func podAt(name string) client.Target {
	return client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: name}
}

func claimAt(name string) client.Target {
	return client.Target{Resource: claims, Namespace: "ns", Name: name}
}

// status patches the status of a pod.
func (b *bench) status(name, status string) {
	b.Helper()
	at := podAt(name)
	at.Subresource = "status"
	patch := client.Patch{Type: types.MergePatchType, Data: []byte(`{"status":` + status + `}`)}
	if _, err := b.api.Others.Patch(b.Context(), at, patch, metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) pod(name string) *corev1.Pod {
	b.Helper()
	obj, err := b.api.Others.Get(b.Context(), podAt(name))
	if err != nil {
		b.Fatal(err)
	}
	return obj.(*corev1.Pod)
}

// claim returns a claim, or nil.
func (b *bench) claim(name string) *resourcev1.ResourceClaim {
	b.Helper()
	obj, err := b.api.Others.Get(b.Context(), claimAt(name))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.Fatal(err)
	}
	return obj.(*resourcev1.ResourceClaim)
}

// of returns the names of all claims.
func (b *bench) claims() []string {
	b.Helper()
	list, err := b.api.Others.List(b.Context(), client.Target{Resource: claims}, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var names []string
	for _, c := range list.(*resourcev1.ResourceClaimList).Items {
		names = append(names, c.Name)
	}
	return names
}

// made returns the claim that a pod's status names.
func (b *bench) made(pod string) *resourcev1.ResourceClaim {
	b.Helper()
	for _, s := range b.pod(pod).Status.ResourceClaimStatuses {
		if s.Name == "gpu" && s.ResourceClaimName != nil {
			return b.claim(*s.ResourceClaimName)
		}
	}
	return nil
}

func TestTemplate(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		owner := add(b, pod("web"))
		told := b.recorder.Take()
		const want = `Warning FailedResourceClaimCreation PodResourceClaim gpu: resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found`
		if len(told) == 0 || slices.Compact(told)[0] != want {
			b.Errorf("events %q, want %q", told, want)
		}
		add(b, template())
		c := b.made("web")
		if c == nil {
			b.Fatalf("status %+v of %q", b.pod("web").Status, b.claims())
		}
		ref := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "web", UID: owner.UID, Controller: new(true)}
		if !strings.HasPrefix(c.Name, "web-gpu-") || c.Labels["a"] != "b" || c.Annotations["c"] != "d" || c.Annotations["resource.kubernetes.io/pod-claim-name"] != "gpu" ||
			len(c.OwnerReferences) != 1 || fmt.Sprint(c.OwnerReferences[0].Name, c.OwnerReferences[0].UID, *c.OwnerReferences[0].Controller) != fmt.Sprint(ref.Name, ref.UID, true) ||
			c.OwnerReferences[0].BlockOwnerDeletion != nil {
			b.Errorf("made %+v", c.ObjectMeta)
		}
		if c.Spec.Devices.Requests[0].Exactly.DeviceClassName != "c" || len(b.claims()) != 1 {
			b.Errorf("made %+v of %q", c.Spec, b.claims())
		}
		b.delete(claimAt(c.Name))
		if again := b.made("web"); again == nil || again.UID == c.UID || len(b.claims()) != 1 {
			b.Errorf("instead of a deleted one: %+v", again)
		}
	})
}

// TestNames: what is generated is short enough.
func TestNames(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		add(b, template())
		p := pod(strings.Repeat("p", 60))
		p.Spec.ResourceClaims[0].Name = strings.Repeat("c", 40)
		p.Spec.ResourceClaims = p.Spec.ResourceClaims[:1]
		add(b, p)
		if got := b.claims(); len(got) != 1 || !strings.HasPrefix(got[0], strings.Repeat("p", 33)+"-"+strings.Repeat("c", 22)) || len(got[0]) != 33+1+22+5 {
			b.Errorf("claims %q", got)
		}
	})
}

// TestForeign: a claim that the status names but that is another's is left alone.
func TestForeign(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		add(b, claim("other", false))
		p := pod("web")
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new("other")}}
		add(b, p)
		add(b, template())
		if got := b.claims(); !slices.Equal(got, []string{"other"}) {
			b.Errorf("claims %q", got)
		}
	})
}

// TestLost: the status is not written at first; there is one claim even so.
func TestLost(t *testing.T) {
	var refuse atomic.Bool
	refuse.Store(true)
	o := controllerstest.Options{Before: func(r faults.Request) error {
		if refuse.Load() && r.Verb == faults.Patch {
			return errors.New("lost")
		}
		return nil
	}}
	inBubble(t, o, func(b *bench) {
		add(b, template())
		add(b, pod("web"))
		time.Sleep(time.Minute)
		if got := b.claims(); len(got) != 1 || b.made("web") != nil {
			b.Fatalf("claims %q", got)
		}
		refuse.Store(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		if b.made("web") == nil || len(b.claims()) != 1 {
			b.Errorf("claims %q, status %+v", b.claims(), b.pod("web").Status)
		}
	})
}

// TestReserved: a pod that has a node gets its reservations; one without leaves them to the scheduler.
func TestReserved(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		add(b, claim("shared", true))
		add(b, template())
		waiting := pod("waiting")
		add(b, waiting)
		if c := b.claim("shared"); len(c.Status.ReservedFor) > 0 {
			b.Errorf("reserved for %+v", c.Status.ReservedFor)
		}
		bound := pod("bound")
		bound.Spec.NodeName = "n"
		stored := add(b, bound)
		want := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "bound", UID: stored.UID}
		if c := b.claim("shared"); len(c.Status.ReservedFor) != 1 || c.Status.ReservedFor[0] != want {
			b.Errorf("reserved for %+v", c.Status.ReservedFor)
		}
	})
}

func TestReleased(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		one, two := pod("one"), pod("two")
		one.Spec.ResourceClaims, two.Spec.ResourceClaims = one.Spec.ResourceClaims[1:], two.Spec.ResourceClaims[1:]
		one.Spec.NodeName, two.Spec.NodeName = "n", "n"
		first, second := add(b, one), add(b, two)
		other := resourcev1.ResourceClaimConsumerReference{APIGroup: "x", Resource: "things", Name: "t", UID: "9"}
		held := claim("held", true)
		held.Status.ReservedFor = append(held.Status.ReservedFor, other)
		add(b, held)
		add(b, claim("shared", true, first, second))
		add(b, claim("foreign", false, first))
		stale := claim("stale", true, first)
		stale.Status.ReservedFor[0].UID = "before"
		add(b, stale)
		if c := b.claim("stale"); len(c.Status.ReservedFor) != 0 || c.Status.Allocation != nil || len(c.Finalizers) > 0 {
			b.Errorf("a pod of another life: %+v, %+v", c.ObjectMeta, c.Status)
		}
		b.status("one", `{"phase":"Succeeded"}`)
		if c := b.claim("shared"); len(c.Status.ReservedFor) != 1 || c.Status.ReservedFor[0].Name != "two" || c.Status.Allocation == nil {
			b.Errorf("after the first: %+v", c.Status)
		}
		b.delete(podAt("two"))
		if c := b.claim("shared"); len(c.Status.ReservedFor) != 0 || c.Status.Allocation != nil || len(c.Finalizers) > 0 {
			b.Errorf("after both: %+v, %+v", c.ObjectMeta, c.Status)
		}
		b.delete(podAt("one"))
		add(b, pod("any")) // so that something happens to the claims' namespace
		if c := b.claim("held"); len(c.Status.ReservedFor) != 1 || c.Status.Allocation == nil {
			b.Errorf("what is no pod's: %+v", c.Status)
		}
	})
}

// TestForeignAllocation: what another driver has allocated, it deallocates.
func TestForeignAllocation(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		p := pod("one")
		p.Spec.ResourceClaims, p.Spec.NodeName = p.Spec.ResourceClaims[1:], "n"
		stored := add(b, p)
		foreign := claim("shared", false, stored)
		foreign.Finalizers = []string{"example.com/driver"}
		add(b, foreign)
		b.delete(podAt("one"))
		if c := b.claim("shared"); len(c.Status.ReservedFor) != 0 || c.Status.Allocation == nil || len(c.Finalizers) != 1 {
			b.Errorf("%+v, %+v", c.ObjectMeta, c.Status)
		}
	})
}

// TestDeleted: a claim that is deleted while nobody uses it is deallocated and goes.
func TestDeleted(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		add(b, claim("shared", true))
		b.delete(claimAt("shared"))
		if c := b.claim("shared"); c != nil {
			b.Errorf("%+v", c)
		}
	})
}

// TestFinished: the claim that was made for a pod goes with the end of the pod, not with the pod.
func TestFinished(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		add(b, template())
		add(b, pod("web"))
		if b.made("web") == nil {
			b.Fatal("no claim")
		}
		b.status("web", `{"phase":"Failed"}`)
		if got := b.claims(); len(got) > 0 {
			b.Errorf("claims %q", got)
		}
	})
}

// TestExtended: the scheduler's claim for the extended resources of a pod goes with the end of the pod, too.
func TestExtended(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		p := pod("web")
		one := corev1.ResourceList{"example.com/gpu": resourceapi.MustParse("1")}
		p.Spec.ResourceClaims, p.Spec.NodeName = nil, "n"
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: one, Limits: one}}}
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
			ResourceClaimName: "web-extended",
			RequestMappings:   []corev1.ContainerExtendedResourceRequest{{ContainerName: "c", ResourceName: "example.com/gpu", RequestName: "r"}},
		}
		stored := add(b, p)
		extended := claim("web-extended", true, stored)
		extended.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: stored.Name, UID: stored.UID, Controller: new(true)}}
		add(b, extended)
		if c := b.claim("web-extended"); c == nil || c.Status.Allocation == nil || len(c.Status.ReservedFor) != 1 {
			b.Fatalf("while the pod runs: %+v", c)
		}
		b.status("web", `{"phase":"Succeeded"}`)
		if got := b.claims(); len(got) > 0 {
			b.Errorf("claims %q", got)
		}
	})
}

// TestEnding: a pod without a node that is being deleted uses nothing any more, and nothing is made for it.
func TestEnding(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		p := pod("web")
		p.Finalizers = []string{"example.com/hold"}
		stored := add(b, p)
		b.delete(podAt("web"))
		add(b, template())
		add(b, claim("shared", true, stored))
		if c := b.claim("shared"); len(c.Status.ReservedFor) > 0 || len(b.claims()) != 1 {
			b.Errorf("claims %q, reserved for %+v", b.claims(), c.Status.ReservedFor)
		}
	})
}

// TestUnneeded: a reference of which the status says that no claim is needed gets none.
func TestUnneeded(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		p := pod("web")
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu"}}
		add(b, p) // in two writes, between which it may be seen
		add(b, template())
		time.Sleep(time.Hour)
		if got := b.claims(); len(got) > 0 {
			b.Errorf("claims %q", got)
		}
	})
}

// A pod with a claim by template gets it. The API and the caches of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api, err := controllerstest.New(controllerstest.Options{
		Kinds:   resource.Kinds(resource.Options{}),
		Objects: []informer.Object{controllerstest.Complete(template()), controllerstest.Complete(pod("web"))},
		Before: func(r faults.Request) error {
			if r.Verb == faults.Create && r.Target.Resource == claims {
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
	loop := controllers.NewLoop(resourceclaim.New(in, api, &controllerstest.Recorder{}), controllers.Options{})
	if err := lifecycle.Group(api, in.Pods, in.Claims, in.Templates, loop).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: create resourceclaims ns/web-gpu-
}
