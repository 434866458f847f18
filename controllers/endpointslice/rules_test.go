package endpointslice_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/endpointslice"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
)

// TestEveryFailure: whichever request fails, the failure is reported and made up for.
func TestEveryFailure(t *testing.T) {
	trial.EveryFailure(t, nil, func(c *trial.Client, log *slog.Logger) (state string) {
		(&bench{client: c, log: log}).run(t, nil, func(b *bench) {
			b.put(dual(corev1.IPv4Protocol, corev1.IPv6Protocol))
			time.Sleep(time.Minute)
			b.put(pod("a", "1.2.3.4", "fd00::4"))
			time.Sleep(time.Minute)
			older := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "older", Labels: b.slices()[0].Labels}, AddressType: discoveryv1.AddressTypeIPv4}
			b.put(older) // of an older service: not owned by this one
			time.Sleep(time.Minute)
			change(b, at(services, "web"), single)
			time.Sleep(time.Hour)
			var all []string
			for _, slice := range b.slices() {
				all = append(all, text(&slice))
			}
			state = strings.Join(all, ", ")
		})
		return state
	})
}

// TestSlowCache: what the cache does not show yet is not done again, and done when it does.
func TestSlowCache(t *testing.T) {
	inBubble(t, func(b *bench) {
		writes := func(what, want string) {
			b.Helper()
			var all []string
			for _, w := range b.api.Writes() {
				all = append(all, w.Verb)
			}
			if got := strings.Join(all, " "); got != want {
				b.Errorf("%s: %s, want %s", what, got, want)
			}
			b.api.Reset()
		}
		b.feed.Hold()
		b.put(service(http()))
		writes("new", "create")
		b.put(pod("a", "1.2.3.4"))
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		writes("before the slice is seen", "")
		b.feed.Resume()
		synctest.Wait()
		writes("when it is seen, at once", "update")
		b.want("IPv4 1.2.3.4(rs):http=8080")
		b.feed.Hold()
		b.put(pod("b", "1.2.3.5"))
		writes("one more", "update")
		b.put(pod("c", "1.2.3.6"))
		writes("before the update is seen", "")
		b.feed.Resume()
		synctest.Wait()
		writes("when it is seen", "update")
		b.want("IPv4 1.2.3.4(rs),1.2.3.5(rs),1.2.3.6(rs):http=8080")

		// A service of the same name starts afresh.
		b.feed.Hold()
		b.put(pod("d", "1.2.3.7"))
		b.remove(at(services, "web"))
		b.api.Reset()
		again := service(http())
		again.Labels = nil
		b.put(again)
		writes("made again", "create delete")
		b.feed.Resume()
		time.Sleep(time.Minute)
		b.want("IPv4 1.2.3.4(rs),1.2.3.5(rs),1.2.3.6(rs),1.2.3.7(rs):http=8080")
	})
}

// TestEnding: nothing is made for a service that is being deleted, nor tried again in a namespace that is.
func TestEnding(t *testing.T) {
	terminating := apierrors.NewForbidden(resource.GroupResource(), "", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tt := range map[string]struct {
		refuse error
		delete bool
		want   int
	}{"namespace": {terminating, false, 1}, "service": {nil, true, 0}, "another error": {errors.New("no"), false, 16}} {
		inBubble(t, func(b *bench) {
			b.api.Inject(faults.Fault{Resource: "endpointslices", Err: tt.refuse, Times: -1})
			s := service(http())
			if tt.delete { // before the controller sees it
				s.Spec.Selector = nil
				s.Finalizers = []string{"x/y"}
			}
			b.put(s)
			if tt.delete {
				b.remove(at(services, "web"))
				change(b, at(services, "web"), func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} })
			}
			time.Sleep(24 * time.Hour)
			if got := len(b.api.Writes()); got != tt.want {
				b.Errorf("%s: %d creations, want %d", name, got, tt.want)
			}
		})
	}
}

// TestTriggerTime: slices say which change brought them about.
func TestTriggerTime(t *testing.T) {
	inBubble(t, func(b *bench) {
		trigger := func() string { return b.slices()[0].Annotations[corev1.EndpointsLastChangeTriggerTime] }
		created := time.Now().UTC().Truncate(time.Second).Format(time.RFC3339Nano)
		b.put(service(http()))
		if got := trigger(); got != created {
			b.Errorf("made because of %q, want %s", got, created)
		}
		time.Sleep(time.Minute)
		ready := time.Now().UTC().Format(time.RFC3339Nano)
		b.put(pod("a", "1.2.3.4"))
		if got := trigger(); got != ready {
			b.Errorf("changed because of %q, want %s", got, ready)
		}
		change(b, at(services, "web"), func(s *corev1.Service) { s.Labels = nil })
		if got := trigger(); got != "" {
			b.Errorf("changed because of %q, but by no pod", got)
		}
	})
}

// TestWatch: which services a change concerns.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		in := b.start(t)
		var q trial.Queue
		endpointslice.New(in, b.api, &b.events, endpointslice.Options{BatchPeriod: 2 * time.Second}).Watch(&q)
		controllerstest.Go(t, in.Services, in.Pods, in.Nodes, in.EndpointSlices)
		want := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := q.Take(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		labels := func(service, by string) map[string]string {
			return map[string]string{"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": by}
		}
		const us = "endpointslice-controller.k8s.io"
		slice := func(name string, labels map[string]string) {
			b.put(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}, AddressType: discoveryv1.AddressTypeIPv4})
		}
		relabel := func(name string, labels map[string]string) {
			change(b, at(resource, name), func(e *discoveryv1.EndpointSlice) { e.Labels = labels })
		}
		b.put(service(http()))
		want("a service", "ns/web")
		b.put(pod("a", "1.2.3.4"))
		want("a pod", "ns/web+2s")
		slice("ours", labels("web", us))
		want("a slice that is ours, and that we did not write", "ns/web+2s")
		slice("theirs", labels("web", "somebody"))
		want("somebody's slice", "")
		slice("nobodys", labels("", us))
		want("of no service", "")
		relabel("theirs", labels("db", "somebody"))
		want("somebody's that changes services", "ns/db+2s ns/web+2s")
		relabel("theirs", labels("db", us))
		want("that becomes ours", "ns/db+2s")
		relabel("theirs", labels("db", "somebody"))
		want("and is no longer", "ns/db+2s")
		change(b, at(resource, "theirs"), func(e *discoveryv1.EndpointSlice) {
			e.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"1.2.3.4"}}}
		})
		want("somebody's that changes", "")
		change(b, at(resource, "ours"), func(e *discoveryv1.EndpointSlice) {
			e.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"1.2.3.4"}}}
		})
		want("ours that somebody changes", "ns/web+2s")
		b.remove(at(resource, "theirs"))
		want("somebody's that goes", "")
		b.remove(at(resource, "ours"))
		want("ours that goes, and that we did not write", "ns/web+2s")
		change(b, at(services, "web"), func(s *corev1.Service) { s.Labels = nil })
		want("a service that changes", "ns/web")
		b.remove(at(services, "web"))
		want("a service that goes", "ns/web")
	})
}

func TestRetry(t *testing.T) {
	want := controllers.Retry{First: time.Second, Max: 1000 * time.Second, Limit: 15}
	if got := endpointslice.New(endpointslice.Sources{EndpointSlices: informer.New[*discoveryv1.EndpointSlice](nil, informer.Options{})}, nil, nil, endpointslice.Options{}).Retry(); got != want {
		t.Errorf("%+v", got)
	}
}

// TestPortsAndNames: pods that have other ports are in slices of their own, and names come from their pods.
func TestPortsAndNames(t *testing.T) {
	named := func(name, ip string, number int32) *corev1.Pod { // with an address that is not valid any more
		p := pod(name, ip, "nonsense")
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: number, Protocol: corev1.ProtocolTCP}}}}
		p.Spec.Hostname, p.Spec.Subdomain = name, "web"
		return p
	}
	old := &bench{pods: []*corev1.Pod{named("a", "1.2.3.4", 80), named("b", "1.2.3.5", 81)}}
	old.run(t, nil, func(b *bench) {
		raw, dns := port("raw", intstr.FromInt32(9)), port("dns", intstr.FromInt32(53))
		raw.Port, dns.Port = 9, 53
		b.put(pod("c", "1.2.3.6"), service(port("web", intstr.FromString("web")), raw, dns))
		b.want("IPv4 1.2.3.4(rs):dns=53,raw=9,web=80", "IPv4 1.2.3.5(rs):dns=53,raw=9,web=81", "IPv4 1.2.3.6(rs):dns=53,raw=9")
		for _, slice := range b.slices() {
			e := slice.Endpoints[0]
			if e.TargetRef.Name != "c" && (e.Hostname == nil || *e.Hostname != e.TargetRef.Name) {
				b.Errorf("%s has the name %v", e.TargetRef.Name, e.Hostname)
			}
		}
	})
}

// TestEarlierProcess: slices that an earlier process wrote are written again when somebody deletes them.
func TestEarlierProcess(t *testing.T) {
	s := service(http())
	new(bench).run(t, func(b *bench) {
		b.put(pod("a", "1.2.3.4"))
		stored := controllerstest.Add(b, b.api, s)
		synctest.Wait()
		p, err := client.As[*corev1.Pod](b.api.Others.Get(b.Context(), at(controllerstest.Pods(), "a")))
		if err != nil {
			b.Fatal(err)
		}
		slice, zone := made("earlier", stored, p), "z"
		slice.Endpoints[0].Zone = &zone
		b.put(slice)
	}, func(b *bench) {
		time.Sleep(time.Minute)
		if writes := b.api.Writes(); len(writes) != 0 {
			b.Fatalf("wrote %v", writes)
		}
		b.remove(at(resource, "earlier"))
		b.want()
		time.Sleep(2 * time.Second)
		b.want("IPv4 1.2.3.4(rs):http=8080")
	})
}
