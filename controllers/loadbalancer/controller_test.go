package loadbalancer_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/loadbalancer"
	"github.com/keelson-dev/keelson/informer"
)

type bench struct {
	*testing.T
	api    *controllerstest.API
	events controllerstest.Recorder
	fail   atomic.Bool
}

func inBubble(t *testing.T, o loadbalancer.Options, existing []informer.Object, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t}
		b.api = controllerstest.Start(t, controllerstest.Options{Objects: existing, Before: func(r faults.Request) error {
			if r.Writes() && b.fail.Load() {
				return errors.New("no")
			}
			return nil
		}})
		in := informer.New(controllerstest.Source[*corev1.Service](b.api, corev1.SchemeGroupVersion.WithResource("services")),
			informer.Options{DetectMutations: func(err error) { t.Error(err) }})
		c, err := loadbalancer.New(in, b.api, &b.events, o)
		if err != nil {
			t.Fatal(err)
		}
		if c.Name() != "service-lb-controller" {
			t.Errorf("named %s", c.Name())
		}
		controllerstest.Go(t, in, controllers.NewLoop(c, controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

// service is a service of type LoadBalancer with what its status has.
func service(name, class string, addresses ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	s.Spec.Type, s.Spec.Ports, s.Spec.ClusterIP = corev1.ServiceTypeLoadBalancer, []corev1.ServicePort{{Port: 80, Protocol: "TCP"}}, "10.96.0.9"
	s.Spec.ClusterIPs, s.Spec.IPFamilies = []string{"10.96.0.9"}, []corev1.IPFamily{corev1.IPv4Protocol}
	if class != "" {
		s.Spec.LoadBalancerClass = &class
	}
	for _, ip := range addresses {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	return s
}

func at(name, subresource string) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource("services"), Namespace: "ns", Name: name, Subresource: subresource}
}

func (b *bench) add(s *corev1.Service) {
	b.Helper()
	controllerstest.Add(b, b.api, s)
	synctest.Wait()
}

func (b *bench) want(name string, addresses ...string) {
	b.Helper()
	obj, err := b.api.Others.Get(b.Context(), at(name, ""))
	if err != nil {
		b.Fatal(err)
	}
	var got []string
	for _, in := range obj.(*corev1.Service).Status.LoadBalancer.Ingress {
		got = append(got, in.IP)
		if in.IPMode == nil || *in.IPMode != corev1.LoadBalancerIPModeVIP {
			b.Errorf("service %s: mode %v", name, in.IPMode)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(addresses) {
		b.Errorf("service %s: %v, want %v", name, got, addresses)
	}
}

// told expects the events since the last call, reason and name of the service.
func (b *bench) told(seen *int, want ...string) {
	b.Helper()
	var got []string
	all := b.events.Events()
	for _, e := range all[*seen:] {
		got = append(got, e.Reason+" "+e.Regarding.Name)
	}
	*seen = len(all)
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		b.Errorf("events %v, want %v", got, want)
	}
}

func ranges(texts ...string) loadbalancer.Options {
	var o loadbalancer.Options
	for _, text := range texts {
		o.Ranges = append(o.Ranges, netip.MustParsePrefix(text))
	}
	return o
}

func TestServices(t *testing.T) {
	inBubble(t, ranges("192.0.2.0/30"), nil, func(b *bench) {
		var seen int
		b.add(service("a", loadbalancer.Class))
		b.want("a", "192.0.2.1")
		b.told(&seen, "EnsuringLoadBalancer a", "EnsuredLoadBalancer a")
		b.add(service("other", "example.com/x"))
		b.add(service("none", ""))
		b.want("other")
		b.want("none")
		b.told(&seen)
		b.add(service("b", loadbalancer.Class))
		b.want("b", "192.0.2.2")
		b.told(&seen, "EnsuringLoadBalancer b", "EnsuredLoadBalancer b")
		b.add(service("c", loadbalancer.Class))
		b.want("c")
		b.told(&seen, "SyncLoadBalancerFailed c")
		if all := b.events.Events(); all[len(all)-1].Message != "Error syncing load balancer: no address is free: IPv4" || all[len(all)-1].Type != "Warning" {
			b.Errorf("%v", all[len(all)-1])
		}
		if err := b.api.Others.Delete(b.Context(), at("a", ""), metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.want("c", "192.0.2.1")
		b.told(&seen, "EnsuringLoadBalancer c", "EnsuredLoadBalancer c")
		time.Sleep(time.Hour)
		synctest.Wait()
		b.told(&seen)
	})
}

// A service without a class is served on request.
func TestDefault(t *testing.T) {
	o := ranges("192.0.2.0/24")
	o.Default, o.Class = true, "example.com/x"
	inBubble(t, o, nil, func(b *bench) {
		b.add(service("none", ""))
		b.want("none", "192.0.2.1")
		b.add(service("x", "example.com/x"))
		b.want("x", "192.0.2.2")
		b.add(service("other", loadbalancer.Class))
		b.want("other")
	})
}

// What services had before the start they keep; of two with one address the older one.
func TestStart(t *testing.T) {
	existing := []informer.Object{
		service("a", loadbalancer.Class), service("b", loadbalancer.Class, "192.0.2.7"), service("c", loadbalancer.Class, "192.0.2.7"),
		service("d", loadbalancer.Class, "192.0.2.1"), service("e", loadbalancer.Class, "198.51.100.1"),
	}
	inBubble(t, ranges("192.0.2.0/29", "192.0.2.7/32"), existing, func(b *bench) {
		b.want("b", "192.0.2.7")
		b.want("d", "192.0.2.1")
		all := map[string]bool{}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			obj, err := b.api.Others.Get(b.Context(), at(name, ""))
			if err != nil {
				b.Fatal(err)
			}
			in := obj.(*corev1.Service).Status.LoadBalancer.Ingress
			if len(in) != 1 || all[in[0].IP] || !strings.HasPrefix(in[0].IP, "192.0.2.") {
				b.Errorf("service %s: %v", name, in)
				continue
			}
			all[in[0].IP] = true
		}
	})
}

// A service that is of another type no longer has an address.
func TestOtherType(t *testing.T) {
	inBubble(t, ranges("192.0.2.1/32"), nil, func(b *bench) {
		b.add(service("a", loadbalancer.Class))
		b.add(service("b", loadbalancer.Class))
		b.want("a", "192.0.2.1")
		b.want("b")
		patch := client.Patch{Type: types.MergePatchType, Data: []byte(`{"spec":{"type":"ClusterIP","loadBalancerClass":null,"allocateLoadBalancerNodePorts":null}}`)}
		if _, err := b.api.Others.Patch(b.Context(), at("a", ""), patch, metav1.PatchOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.want("a")
		b.want("b", "192.0.2.1")
	})
}

func TestFailures(t *testing.T) {
	inBubble(t, ranges("192.0.2.0/24"), nil, func(b *bench) {
		b.fail.Store(true)
		b.add(service("a", loadbalancer.Class))
		b.want("a")
		b.fail.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		b.want("a", "192.0.2.1")
		if all := b.events.Events(); len(all) < 4 || all[1].Reason != "SyncLoadBalancerFailed" || all[1].Message != "Error syncing load balancer: failed to update load balancer status: no" {
			b.Errorf("%v", all)
		}
	})
}

func TestOptions(t *testing.T) {
	for _, o := range []loadbalancer.Options{{}, {Ranges: []netip.Prefix{{}}}} {
		if _, err := loadbalancer.New(nil, nil, nil, o); err == nil {
			t.Errorf("%v", o)
		}
	}
}
