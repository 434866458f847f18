package endpoints_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/endpoints"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
)

func web() *corev1.Service { return service("web", port("http", intstr.FromInt32(8080))) }

// writes compares the controller's writes since the last call.
func (b *bench) writes(what, want string) {
	b.Helper()
	var all []string
	for _, w := range b.api.Writes() {
		all = append(all, w.Verb)
	}
	if got := strings.Join(all, " "); got != want {
		b.Errorf("%s: %q, want %q", what, got, want)
	}
	b.api.Reset()
}

// TestEveryFailure: whichever request fails, the failure is reported and made up for.
func TestEveryFailure(t *testing.T) {
	trial.EveryFailure(t, nil, func(c *trial.Client, log *slog.Logger) (state string) {
		(&bench{client: c, log: log}).run(t, nil, func(b *bench) {
			b.put(web(), service("gone"))
			time.Sleep(time.Minute)
			b.put(pod("a", "1.2.3.4"))
			time.Sleep(time.Minute)
			b.remove(at(services, "gone"))
			time.Sleep(time.Hour)
			state = fmt.Sprintf("%s; %s", text(b.endpoints("web")), text(b.endpoints("gone")))
		})
		return state
	})
}

// TestGivenUp: fifteen retries later nothing more is tried until something changes.
func TestGivenUp(t *testing.T) {
	terminating := apierrors.NewForbidden(resource.GroupResource(), "", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tt := range map[string]struct {
		refuse error
		want   int
		events int
	}{"down": {errors.New("down"), 16, 16}, "terminating": {terminating, 1, 0}} {
		inBubble(t, func(b *bench) {
			b.api.Inject(faults.Fault{Resource: "endpoints", Err: tt.refuse, Times: -1})
			b.put(web())
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			if got, events := len(b.api.Writes()), len(b.events.Take()); got != tt.want || events != tt.events {
				b.Errorf("%s: %d creations, %d events", name, got, events)
			}
		})
	}
}

// TestSlowCache: what the cache does not show yet is not done again, and done when it does.
func TestSlowCache(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.feed.Hold()
		b.put(web())
		b.writes("new", "create")
		b.put(pod("a", "1.2.3.4"))
		b.writes("before it is seen", "")
		b.feed.Resume()
		synctest.Wait()
		b.writes("when it is seen, at once", "update")
		b.feed.Hold()
		b.put(pod("b", "1.2.3.5"))
		b.writes("one more", "update")
		b.put(pod("c", "1.2.3.6"))
		b.writes("before the update is seen", "")
		time.Sleep(59 * time.Second)
		synctest.Wait()
		b.writes("a minute later", "")
		b.feed.Resume()
		synctest.Wait()
		b.writes("when it is seen", "update")
		b.want("web", "1.2.3.4,1.2.3.5,1.2.3.6|:http=8080")

		// What went while the cache was late is made again at once, when that is seen.
		b.remove(at(resource, "web"))
		b.writes("deleted by somebody", "create")
		// A service of the same name starts afresh.
		b.feed.Hold()
		b.put(pod("d", "1.2.3.7"))
		b.remove(at(services, "web"))
		b.writes("deleted", "update delete")
		b.feed.Resume()
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		b.api.Reset()
		made := time.Now().UTC().Truncate(time.Second)
		b.put(web())
		b.writes("made again", "create")
		if got := b.endpoints("web").Annotations[corev1.EndpointsLastChangeTriggerTime]; got != made.Format(time.RFC3339Nano) {
			b.Errorf("made again because of %s, want %s", got, made)
		}
	})
}

// TestWatch: which services a change concerns.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		in := b.start(t, controllerstest.Options{})
		b.put(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "before"}})
		var q trial.Queue
		caches := endpoints.New(in, b.api, &b.events, endpoints.Options{BatchPeriod: 2 * time.Second}).Watch(&q)
		controllerstest.Go(t, in.Services, in.Pods, in.Endpoints)
		for _, cache := range caches {
			if err := cache.WaitSynced(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := q.Take(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		want("Endpoints from before", "ns/before")
		b.put(web())
		want("a service", "ns/web")
		b.put(pod("a", "1.2.3.4"))
		want("a pod", "ns/web+2s")
		b.put(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}})
		want("Endpoints", "")
		change(b, at(resource, "web"), func(e *corev1.Endpoints) { e.Labels = map[string]string{"a": "b"} })
		want("Endpoints that change", "")
		b.remove(at(resource, "web"))
		want("Endpoints that go", "ns/web")
		change(b, at(services, "web"), func(s *corev1.Service) { s.Labels = nil })
		want("a service that changes", "ns/web")
		b.remove(at(services, "web"))
		want("a service that goes", "ns/web")
	})
}

// many is a subset with so many addresses of each kind, on the port.
func many(ready, notReady int, port int32) corev1.EndpointSubset {
	s := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Port: port}}}
	for i := range ready {
		s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: fmt.Sprintf("10.%d.%d.%d", port, i/250, i%250)})
	}
	for i := range notReady {
		s.NotReadyAddresses = append(s.NotReadyAddresses, corev1.EndpointAddress{IP: fmt.Sprintf("11.%d.%d.%d", port, i/250, i%250)})
	}
	return s
}

// TestTruncate: beyond 1000 addresses those that are not ready go first, from each subset in proportion.
func TestTruncate(t *testing.T) {
	for _, tt := range []struct {
		in   []corev1.EndpointSubset
		want string // ready and not ready of each subset; "over" when they were cut
	}{
		{[]corev1.EndpointSubset{many(1000, 0, 1)}, "1000+0"},
		{[]corev1.EndpointSubset{many(600, 400, 1)}, "600+400"},
		{[]corev1.EndpointSubset{many(1001, 0, 1)}, "1000+0 over"},
		{[]corev1.EndpointSubset{many(1000, 1, 1)}, "1000+0 over"},
		{[]corev1.EndpointSubset{many(500, 300, 1), many(200, 100, 2)}, "500+225 200+75 over"},
		{[]corev1.EndpointSubset{many(0, 1001, 1), many(0, 999, 2)}, "0+501 0+499 over"},
		{[]corev1.EndpointSubset{many(0, 1001, 1), many(0, 499, 2)}, "0+668 0+332 over"},
		{[]corev1.EndpointSubset{many(900, 50, 1), many(1100, 50, 2)}, "450+0 550+0 over"},
		{[]corev1.EndpointSubset{many(667, 0, 1), many(667, 0, 2), many(667, 0, 3)}, "334+0 334+0 332+0 over"},
	} {
		service := web()
		next := endpoints.Desired(&corev1.Endpoints{}, service, tt.in, time.Time{})
		var got []string
		for _, s := range next.Subsets {
			got = append(got, fmt.Sprintf("%d+%d", len(s.Addresses), len(s.NotReadyAddresses)))
		}
		if next.Annotations[corev1.EndpointsOverCapacity] == "truncated" {
			got = append(got, "over")
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s, want %s", text, tt.want)
		}
	}
}

// TestUpToDate: which Endpoints need no write.
func TestUpToDate(t *testing.T) {
	subset := func() []corev1.EndpointSubset {
		return []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "1", TargetRef: &corev1.ObjectReference{Name: "a", UID: "u"}}, {IP: "2"}},
			Ports:     []corev1.EndpointPort{{Port: 80}},
		}}
	}
	for name, tt := range map[string]struct {
		change func(*corev1.Endpoints)
		want   bool
	}{
		"as wanted":      {func(*corev1.Endpoints) {}, true},
		"headless label": {func(e *corev1.Endpoints) { e.Labels[corev1.IsHeadlessService] = "" }, true},
		"an odd one":     {func(e *corev1.Endpoints) { e.Labels[corev1.IsHeadlessService] = "x" }, true},
		"more labels":    {func(e *corev1.Endpoints) { e.Labels["more"] = "x" }, false},
		"fewer labels":   {func(e *corev1.Endpoints) { delete(e.Labels, "l") }, false},
		"nobody's":       {func(e *corev1.Endpoints) { delete(e.Labels, "endpoints.kubernetes.io/managed-by") }, false},
		"annotations":    {func(e *corev1.Endpoints) { e.Annotations = map[string]string{"a": "b"} }, true},
		"was too large": {func(e *corev1.Endpoints) {
			e.Annotations = map[string]string{corev1.EndpointsOverCapacity: "truncated"}
		}, false},
		"versions of pods":  {func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].TargetRef.ResourceVersion = "7" }, true},
		"another pod":       {func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].TargetRef.UID = "v" }, false},
		"another address":   {func(e *corev1.Endpoints) { e.Subsets[0].Addresses[1].IP = "3" }, false},
		"none":              {func(e *corev1.Endpoints) { e.Subsets = nil }, false},
		"in another order":  {func(e *corev1.Endpoints) { a := e.Subsets[0].Addresses; a[0], a[1] = a[1], a[0] }, true},
		"not packed":        {func(e *corev1.Endpoints) { e.Subsets = append(e.Subsets, e.Subsets[0]) }, true},
		"not ready anymore": {func(e *corev1.Endpoints) { s := &e.Subsets[0]; s.NotReadyAddresses, s.Addresses = s.Addresses, nil }, false},
	} {
		e := &corev1.Endpoints{Subsets: endpoints.Pack(subset())}
		e.Labels = map[string]string{"l": "v", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
		tt.change(e)
		before := e.DeepCopy()
		if got := endpoints.UpToDate(e, web(), endpoints.Pack(subset())); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
		if before.String() != e.String() {
			t.Errorf("%s: it was changed", name)
		}
	}
	labelled := web()
	labelled.Labels[corev1.IsHeadlessService] = "the service's own"
	next := endpoints.Desired(&corev1.Endpoints{}, labelled, nil, time.Time{})
	if _, ok := next.Labels[corev1.IsHeadlessService]; ok || !endpoints.UpToDate(next, labelled, nil) {
		t.Errorf("the label of headless services comes from the service: %v", next.Labels)
	}
	for n, want := range map[int]bool{1000: true, 1001: false} {
		large := endpoints.Pack([]corev1.EndpointSubset{many(n, 0, 1)})
		e := &corev1.Endpoints{Subsets: large, ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "v", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}}}
		if got := endpoints.UpToDate(e, web(), large); got != want {
			t.Errorf("with %d addresses: %t", n, got)
		}
	}
}

// TestOrder: subsets, and the ports in each, have upstream's order, however they come; ports differ by all that they say.
func TestOrder(t *testing.T) {
	app := "h2c"
	all := []corev1.EndpointPort{{Name: "a", Port: 1}, {Name: "b", Port: 2}, {Name: "c", Port: 3}, {Name: "a", Port: 1, Protocol: "UDP"}, {Name: "a", Port: 1, AppProtocol: &app}, {}}
	var apart, together []corev1.EndpointSubset
	for i := range all {
		apart = append(apart, corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{{IP: fmt.Sprint(i)}}, Ports: all[i : i+1]})
		together = append(together, corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{{IP: "1"}}, Ports: all[i : i+1]})
	}
	show := func(subsets []corev1.EndpointSubset) string {
		var out []string
		for _, s := range subsets {
			for _, p := range s.Ports {
				out = append(out, fmt.Sprintf("%s%d%s%t", p.Name, p.Port, p.Protocol, p.AppProtocol != nil))
			}
			out = append(out, fmt.Sprintf("%d.", len(s.Addresses)))
		}
		return strings.Join(out, " ")
	}
	wantApart, wantTogether := show(endpoints.Pack(apart)), show(endpoints.Pack(together))
	if strings.Count(wantApart, "1.") != len(all) || len(strings.Fields(wantTogether)) != len(all)+1 {
		t.Errorf("%q, %q", wantApart, wantTogether)
	}
	for range 20 { // maps are walked in any order
		if a, b := show(endpoints.Pack(apart)), show(endpoints.Pack(together)); a != wantApart || b != wantTogether {
			t.Fatalf("%q and %q, then %q and %q", wantApart, wantTogether, a, b)
		}
	}
	if wantTogether != "a1UDPfalse a1false 0false a1true b2false c3false 1." {
		t.Errorf("order %q", wantTogether)
	}
	none := endpoints.Pack([]corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "1"}}}, {Addresses: []corev1.EndpointAddress{{IP: "1"}}, Ports: []corev1.EndpointPort{{}}}})
	if len(none) != 1 || len(none[0].Ports) != 1 {
		t.Errorf("no port and one that says nothing: %v", none)
	}
}

// TestAddresses: a pod whose addresses make no sense, or are of another family, is no endpoint.
func TestAddresses(t *testing.T) {
	six, bare := service("web", port("http", intstr.FromInt32(8080))), service("web")
	six.Name, six.Spec.IPFamilies, six.Spec.ClusterIP = "six", nil, "None"
	bare.Name, bare.Spec.ClusterIP = "bare", "10.0.0.9"
	old := &bench{services: []*corev1.Service{six, bare}, pods: []*corev1.Pod{pod("a", "nonsense", "1.2.3.4")}}
	old.run(t, func(b *bench) { b.put(pod("b", "fd00::1"), web()) }, func(b *bench) {
		b.want("web", "1.2.3.4|:http=8080")
		b.put(pod("c", "fd00::2", "1.2.3.5"))
		b.want("six", "1.2.3.4,fd00::1,fd00::2|:http=8080") // each pod has its own first family
		if got := b.endpoints("six").Subsets; len(got) != 1 {
			b.Errorf("subsets %v", got)
		}
		b.want("bare", "") // no ports, and not headless
	})
}

// TestPackedOrder: an address that is ready and not ready for a port is not ready; two ports, or two subsets, have one order.
func TestPackedOrder(t *testing.T) {
	at := []corev1.EndpointAddress{{IP: "1"}}
	ports := []corev1.EndpointPort{{Port: 80}}
	ready, unready := corev1.EndpointSubset{Addresses: at, Ports: ports}, corev1.EndpointSubset{NotReadyAddresses: at, Ports: ports}
	for _, loose := range [][]corev1.EndpointSubset{{ready, unready}, {unready, ready}} {
		if got := endpoints.Pack(loose); len(got) != 1 || len(got[0].Addresses) != 0 || len(got[0].NotReadyAddresses) != 1 {
			t.Errorf("ready and not: %v", got)
		}
	}
	h2c, grpc := "h2c", "grpc"
	for _, two := range [][]corev1.EndpointPort{
		{{Port: 1, AppProtocol: &h2c}, {Port: 1, AppProtocol: &grpc}}, {{Port: 2}, {Port: 3}}, {{Port: 4}, {Port: 5}},
	} {
		order := func(apart bool, ports ...corev1.EndpointPort) string {
			var loose []corev1.EndpointSubset
			for _, p := range ports {
				s := corev1.EndpointSubset{Addresses: at, Ports: []corev1.EndpointPort{p}}
				if apart && p == two[0] {
					s.Addresses = []corev1.EndpointAddress{{IP: "2"}}
				}
				loose = append(loose, s)
			}
			var out []string
			for _, s := range endpoints.Pack(loose) {
				for _, p := range s.Ports {
					out = append(out, fmt.Sprintf("%d-%t", p.Port, p.AppProtocol == &h2c))
				}
			}
			return strings.Join(out, " ")
		}
		for _, apart := range []bool{false, true} {
			first, second := order(apart, two[0], two[1]), order(apart, two[1], two[0])
			if first != second || len(strings.Fields(first)) != 2 {
				t.Errorf("%v, in subsets of their own %t: %s, the other way round %s", two, apart, first, second)
			}
		}
	}
}

// TestOwnWrites: what the controller wrote itself, once it is seen, is no reason to look again; while it is not, the service waits a
// minute at most. A service that is made again waits for nothing.
func TestOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		in := b.start(t, controllerstest.Options{Before: func(r faults.Request) error {
			if r.Verb == faults.Create && r.Target.Name != "" {
				t.Errorf("created at %s", r.Target.Name)
			}
			return nil
		}})
		var q trial.Queue
		c := endpoints.New(in, b.api, &b.events, endpoints.Options{})
		c.Watch(&q)
		controllerstest.Go(t, in.Services, in.Pods, in.Endpoints)
		synctest.Wait()
		want := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := q.Take(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		reconcile := func(what string, again time.Duration, writes string) {
			t.Helper()
			b.api.Reset()
			result, err := c.Reconcile(t.Context(), controllers.Key{Namespace: "ns", Name: "web"})
			if err != nil || result.RequeueAfter != again {
				t.Errorf("%s: %v, %v", what, result, err)
			}
			b.writes(what, writes)
		}
		relabel := func(value string) {
			change(b, at(services, "web"), func(s *corev1.Service) { s.Labels = map[string]string{"l": value} })
		}
		b.put(web())
		want("a service", "ns/web")
		reconcile("a service", 0, "create")
		want("its Endpoints", "")
		relabel("w")
		want("a change", "ns/web")
		reconcile("a change", 0, "update")
		want("and of the Endpoints", "")
		b.feed.Hold()
		relabel("x")
		reconcile("another change", 0, "update")
		want("which is not seen", "ns/web")
		reconcile("before it is seen", time.Minute, "")
		b.feed.Resume()
		want("when it is", "ns/web")
		reconcile("when it is", 0, "")

		b.feed.Hold()
		b.remove(at(services, "web"))
		reconcile("the service is gone", 0, "delete")
		reconcile("its Endpoints, too", 0, "delete") // which answers that they are
		b.feed.Resume()
		want("both are gone", "ns/web")
		b.feed.Hold()
		b.put(web())
		reconcile("made again", 0, "create")
		reconcile("before its Endpoints are seen", 5*time.Minute, "")
		b.remove(at(services, "web"))
		reconcile("and gone again", 0, "delete")
		b.put(web())
		reconcile("and made a third time", 0, "create")
		b.feed.Resume()
	})
}
