package servicecidrs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/servicecidrs"
	"github.com/keelson-dev/keelson/informer"
)

const finalizer = "networking.k8s.io/service-cidr-finalizer"

// bench is an API with the controller.
type bench struct {
	*testing.T
	api    *controllerstest.API
	events controllerstest.Recorder
	writes atomic.Int32
	fail   atomic.Bool
}

// Patch implements client.Patcher. The API has no server-side apply: it gets a patch with the same effect.
func (b *bench) Patch(ctx context.Context, t client.Target, p client.Patch, o metav1.PatchOptions) (runtime.Object, error) {
	b.writes.Add(1)
	if b.fail.Load() {
		return nil, errors.New("no")
	}
	if (p.Type == types.ApplyPatchType) != (t.Subresource == "status") {
		b.Errorf("patch of type %s of %v", p.Type, t)
	}
	if p.Type == types.ApplyPatchType {
		if o.FieldManager != "service-cidr-controller" || !*o.Force || !strings.HasPrefix(string(p.Data), `{"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1","metadata":{"name":"`+t.Name+`"},"status":{"conditions":[{"type":"Ready"`) {
			b.Errorf("%v: %s", o, p.Data)
		}
		p.Type, o = types.MergePatchType, metav1.PatchOptions{}
	}
	return b.api.Patch(ctx, t, p, o)
}

func inBubble(t *testing.T, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{})}
		o := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := servicecidrs.Sources{
			CIDRs:     informer.New(controllerstest.Source[*networkingv1.ServiceCIDR](b.api, networkingv1.SchemeGroupVersion.WithResource("servicecidrs")), o),
			Addresses: informer.New(controllerstest.Source[*networkingv1.IPAddress](b.api, networkingv1.SchemeGroupVersion.WithResource("ipaddresses")), o),
		}
		c := servicecidrs.New(in, b, &b.events)
		if c.Name() != "service-cidr-controller" {
			t.Errorf("named %s", c.Name())
		}
		controllerstest.Go(t, in.CIDRs, in.Addresses, controllers.NewLoop(c, controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

func (b *bench) add(obj informer.Object) {
	b.Helper()
	controllerstest.Add(b, b.api, obj)
	synctest.Wait()
}

func (b *bench) delete(resource, name string) {
	b.Helper()
	at := client.Target{Resource: networkingv1.SchemeGroupVersion.WithResource(resource), Name: name}
	if err := b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// want checks a ServiceCIDR: gone, or its finalizers and the status, reason and message of its condition.
func (b *bench) want(name, want string) {
	b.Helper()
	obj, err := b.api.Others.Get(b.Context(), client.Target{Resource: networkingv1.SchemeGroupVersion.WithResource("servicecidrs"), Name: name})
	got := "gone"
	if err == nil {
		cidr := obj.(*networkingv1.ServiceCIDR)
		got = strings.Join(cidr.Finalizers, ",")
		for _, c := range cidr.Status.Conditions {
			got += " " + c.Type + "=" + string(c.Status) + " " + c.Reason + ": " + c.Message
			if c.LastTransitionTime.IsZero() {
				b.Error("the condition has no time")
			}
		}
	} else if !apierrors.IsNotFound(err) {
		b.Fatal(err)
	}
	if got != want {
		b.Errorf("ServiceCIDR %s: %s, want %s", name, got, want)
	}
}

const (
	isReady = finalizer + " Ready=True : Kubernetes Service CIDR is ready"
	isUsed  = finalizer + " Ready=False Terminating: There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
)

func TestUnused(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(cidr("a", "10.0.0.0/24"))
		b.want("a", isReady)
		b.add(cidr("b", "10.0.0.0/16"))
		time.Sleep(time.Minute)
		synctest.Wait()
		writes := b.writes.Load()
		b.add(address("10.0.0.1")) // after which both are looked at
		if got := b.writes.Load(); got != writes {
			b.Errorf("%d requests without a change", got-writes)
		}
		b.delete("servicecidrs", "a")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		b.want("a", isReady)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.want("a", "gone")
		b.want("b", isReady)
	})
}

// One that is used stays until its addresses are gone, or another one contains them.
func TestUsed(t *testing.T) {
	for name, release := range map[string]func(b *bench){
		"the address goes": func(b *bench) { b.delete("ipaddresses", "10.0.0.1") },
		"another one":      func(b *bench) { b.add(cidr("b", "10.0.0.0/16")) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.add(cidr("a", "10.0.0.0/24"))
				b.add(address("10.0.0.1"))
				b.delete("servicecidrs", "a")
				time.Sleep(time.Hour)
				synctest.Wait()
				b.want("a", isUsed)
				release(b)
				b.want("a", "gone")
			})
		})
	}
}

// An address that comes in the last moment is noticed.
func TestAddressComesLate(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(cidr("a", "10.0.0.0/24"))
		b.delete("servicecidrs", "a")
		time.Sleep(5 * time.Second)
		b.add(address("10.0.0.1"))
		b.want("a", isUsed)
		time.Sleep(time.Hour)
		synctest.Wait()
		b.want("a", isUsed)
	})
}

func TestFinalizersOfOthers(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := cidr("a", "10.0.0.0/24")
		c.Finalizers = []string{"example.com/x"}
		b.add(c)
		obj, err := b.api.Others.Get(b.Context(), client.Target{Resource: networkingv1.SchemeGroupVersion.WithResource("servicecidrs"), Name: "a"})
		if err != nil || len(obj.(*networkingv1.ServiceCIDR).Finalizers) != 2 || !slices.Contains(obj.(*networkingv1.ServiceCIDR).Finalizers, finalizer) {
			b.Fatalf("%v, %v", obj, err)
		}
		b.delete("servicecidrs", "a")
		time.Sleep(time.Minute)
		synctest.Wait()
		b.want("a", "example.com/x Ready=True : Kubernetes Service CIDR is ready")
		b.add(address("10.0.0.1")) // it is no longer the controller's
		b.want("a", "example.com/x Ready=True : Kubernetes Service CIDR is ready")
	})
}

func TestFailures(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.fail.Store(true)
		b.add(cidr("a", "10.0.0.0/24"))
		b.want("a", "")
		b.fail.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		b.want("a", isReady)
		if all := b.events.Events(); len(all) != 0 {
			b.Errorf("events about finalizers: %v", all)
		}
		c := cidr("b", "10.1.0.0/24")
		c.Finalizers = []string{finalizer}
		b.fail.Store(true)
		b.add(c)
		b.fail.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		b.want("b", isReady)
		all := b.events.Events()
		if len(all) == 0 || all[0].Reason != "KubernetesServiceCIDRError" || all[0].Type != "Warning" || all[0].Message != "The ServiceCIDR Status can not be set to Ready=True" || all[0].Regarding.Name != "b" {
			b.Errorf("events %v", all)
		}
	})
}
