package loadbalancer_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/loadbalancer"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// caches are a controller without a loop, behind a cache that shows what the test puts into it.
type caches struct {
	*testing.T
	services *memory.Store[*corev1.Service]
	server   trial.Server
	queue    trial.Queue
	events   controllerstest.Recorder
	c        *loadbalancer.Controller
}

func withCaches(t *testing.T, o loadbalancer.Options, test func(c *caches)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &caches{T: t, services: memory.New[*corev1.Service]()}
		in := informer.New[*corev1.Service](c.services, informer.Options{})
		var err error
		if c.c, err = loadbalancer.New(in, &c.server, &c.events, o); err != nil {
			t.Fatal(err)
		}
		if synced := c.c.Watch(&c.queue); len(synced) != 1 {
			t.Errorf("it waits for %d caches", len(synced))
		}
		controllerstest.Go(t, in)
		test(c)
	})
}

// put shows services.
func (c *caches) put(all ...*corev1.Service) {
	for _, s := range all {
		c.services.Put(s)
	}
	synctest.Wait()
	c.queue.Take()
}

// reconcile expects the addresses that are written, "none" for no write, and the events' reasons.
func (c *caches) reconcile(name, want string, reasons ...string) error {
	c.Helper()
	result, err := c.c.Reconcile(c.Context(), controllers.Key{Namespace: "ns", Name: name})
	got := "none"
	if asked := c.server.Take(); len(asked) > 0 {
		if !slices.Equal(asked, []string{"patch services/status"}) {
			c.Errorf("%s: requests %q", name, asked)
		}
		got = c.server.Sent().(string)
	}
	ingress := ""
	for _, ip := range strings.Fields(want) {
		ingress += fmt.Sprintf(`,{"ip":"%s","ipMode":"VIP"}`, ip)
	}
	if want != "none" {
		want = `{"status":{"loadBalancer":{"ingress":[` + strings.TrimPrefix(ingress, ",") + `]}}}`
	}
	if got != want || result.RequeueAfter != 0 {
		c.Errorf("%s: wrote %s, want %s; %v", name, got, want, result)
	}
	var told []string
	for _, e := range c.events.Take() {
		told = append(told, strings.Fields(e)[1])
	}
	if !slices.Equal(told, reasons) {
		c.Errorf("%s: events %q, want %q", name, told, reasons)
	}
	return err
}

func (c *caches) queued(what, want string) {
	c.Helper()
	synctest.Wait()
	if got := c.queue.Take(); got != want {
		c.Errorf("%s: queued %q, want %q", what, got, want)
	}
}

const (
	ensuring, ensured = "EnsuringLoadBalancer", "EnsuredLoadBalancer"
	deleting, deleted = "DeletingLoadBalancer", "DeletedLoadBalancer"
	failed            = "SyncLoadBalancerFailed"
)

// TestOlder: of two services with one address the older one keeps it, and of two of the same age the first by name.
func TestOlder(t *testing.T) {
	for name, tt := range map[string]struct {
		ageA, ageB time.Duration
		keeps      string
	}{
		"a": {2 * time.Hour, time.Hour, "a"}, "b": {time.Hour, 2 * time.Hour, "b"}, "of one age": {time.Hour, time.Hour, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, ranges("192.0.2.0/24"), func(c *caches) {
				a, b := service("a", loadbalancer.Class, "192.0.2.7"), service("b", loadbalancer.Class, "192.0.2.7")
				a.CreationTimestamp, b.CreationTimestamp = metav1.NewTime(time.Now().Add(-tt.ageA)), metav1.NewTime(time.Now().Add(-tt.ageB))
				c.put(a, b)
				for _, name := range []string{"b", "a"} {
					if name == tt.keeps {
						_ = c.reconcile(name, "none")
					} else {
						_ = c.reconcile(name, "192.0.2.1", ensuring, ensured)
					}
				}
			})
		})
	}
}

// TestOthers: whose addresses are taken.
func TestOthers(t *testing.T) {
	withCaches(t, ranges("192.0.2.0/24"), func(c *caches) {
		c.put(service("a", loadbalancer.Class), service("has", loadbalancer.Class, "192.0.2.1"), service("foreign", "example.com/x", "192.0.2.2"))
		_ = c.reconcile("a", "192.0.2.2", ensuring, ensured)
		// The cache does not show yet what a has.
		c.put(service("b", loadbalancer.Class))
		_ = c.reconcile("b", "192.0.2.3", ensuring, ensured)
		_ = c.reconcile("a", "192.0.2.2", ensuring, ensured)
		going := service("going", loadbalancer.Class)
		going.DeletionTimestamp = new(metav1.Now())
		c.put(going)
		_ = c.reconcile("going", "none")
		_ = c.reconcile("nobody", "none")
		_ = c.reconcile("foreign", "none")
	})
}

// TestWaiting: who waits for an address is looked at when one is given back, and not before.
func TestWaiting(t *testing.T) {
	o := ranges("192.0.2.0/30")
	withCaches(t, o, func(c *caches) {
		waiting := service("waiting", loadbalancer.Class)
		waiting.Spec.LoadBalancerIP = "192.0.2.1"
		first := service("first", loadbalancer.Class)
		c.put(first, waiting)
		_ = c.reconcile("first", "192.0.2.1", ensuring, ensured)
		_ = c.reconcile("waiting", "none", failed)
		c.queued("after a failure", "")
		c.put(service("first", loadbalancer.Class, "192.0.2.1"), service("second", loadbalancer.Class))
		_ = c.reconcile("second", "192.0.2.2", ensuring, ensured)
		c.queued("another was given one", "")
		c.services.Delete("ns", "second")
		c.queued("one is gone", "ns/waiting")
		_ = c.reconcile("waiting", "none", failed)

		moved := service("first", loadbalancer.Class, "192.0.2.1")
		moved.Spec.LoadBalancerIP = "192.0.2.2"
		c.put(moved)
		_ = c.reconcile("first", "192.0.2.2", ensuring, ensured)
		c.queued("one has another", "ns/waiting")
		_ = c.reconcile("waiting", "none", failed) // the cache shows the old one
		moved.Status.LoadBalancer.Ingress[0].IP = "192.0.2.2"
		c.put(moved)
		_ = c.reconcile("first", "none")
		_ = c.reconcile("waiting", "192.0.2.1", ensuring, ensured)
		c.put(service("third", loadbalancer.Class))
		_ = c.reconcile("third", "none", failed)
		plain := service("first", "", "192.0.2.2")
		plain.Spec.Type = corev1.ServiceTypeClusterIP
		c.put(plain)
		_ = c.reconcile("first", "", deleting, deleted)
		c.queued("one is of another type", "ns/third")
		plain.Status.LoadBalancer.Ingress = nil
		c.put(plain)
		_ = c.reconcile("third", "192.0.2.2", ensuring, ensured)
		_ = c.reconcile("first", "none")
		c.queued("one that had none", "")

		c.put(service("fourth", loadbalancer.Class))
		_ = c.reconcile("fourth", "none", failed)
		c.services.Delete("ns", "fourth")
		c.queued("one that waits is gone", "")
	})
}

// TestAnswers: what becomes of the server's answers.
func TestAnswers(t *testing.T) {
	missing := apierrors.NewNotFound(corev1.Resource("services"), "a")
	for name, tt := range map[string]struct {
		kind    corev1.ServiceType
		err     error
		want    string
		failure string
		reasons []string
	}{
		"given":          {corev1.ServiceTypeLoadBalancer, nil, "192.0.2.1", "", []string{ensuring, ensured}},
		"gone meanwhile": {corev1.ServiceTypeLoadBalancer, missing, "192.0.2.1", "", []string{ensuring, ensured}},
		"not given":      {corev1.ServiceTypeLoadBalancer, trial.ErrDown, "192.0.2.1", "failed to update load balancer status: down", []string{ensuring, failed}},
		"taken":          {corev1.ServiceTypeClusterIP, nil, "", "", []string{deleting, deleted}},
		"not taken":      {corev1.ServiceTypeClusterIP, trial.ErrDown, "", "failed to update load balancer status: down", []string{deleting}},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, ranges("192.0.2.0/30"), func(c *caches) {
				s := service("a", loadbalancer.Class, "192.0.2.9", "192.0.2.2")
				if s.Spec.Type = tt.kind; tt.kind == corev1.ServiceTypeLoadBalancer {
					s.Status = corev1.ServiceStatus{}
				}
				c.put(s)
				c.server.Fail("patch services/status", tt.err)
				if err := c.reconcile("a", tt.want, tt.reasons...); (err == nil) != (tt.failure == "") || err != nil && err.Error() != tt.failure {
					t.Error(err)
				}
			})
		})
	}
}

// TestMany: a range of IPv6 is given up after 65536 addresses.
func TestMany(t *testing.T) {
	s := service("a", "")
	s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	var asked int
	_, err := loadbalancer.Assign(s, ranges("fd00::/64").Ranges, func(netip.Addr) bool {
		if asked++; asked > 1<<16 {
			t.Fatal("it goes on")
		}
		return true
	})
	if err == nil || asked != 1<<16 {
		t.Errorf("%d addresses, %v", asked, err)
	}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "x"}, {IP: "fd00::1"}}
	if all := loadbalancer.Addresses(s); fmt.Sprint(all) != "[fd00::1]" {
		t.Errorf("addresses %v", all)
	}
}
