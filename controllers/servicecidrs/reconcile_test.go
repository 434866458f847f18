package servicecidrs_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/servicecidrs"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// caches are a controller without a loop, behind caches that show what the test puts into them.
type caches struct {
	*testing.T
	cidrs     *memory.Store[*networkingv1.ServiceCIDR]
	addresses *memory.Store[*networkingv1.IPAddress]
	server    trial.Server
	queue     trial.Queue
	events    controllerstest.Recorder
	c         *servicecidrs.Controller
}

func withCaches(t *testing.T, test func(c *caches)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &caches{T: t, cidrs: memory.New[*networkingv1.ServiceCIDR](), addresses: memory.New[*networkingv1.IPAddress]()}
		in := servicecidrs.Sources{
			CIDRs: informer.New[*networkingv1.ServiceCIDR](c.cidrs, informer.Options{}), Addresses: informer.New[*networkingv1.IPAddress](c.addresses, informer.Options{}),
		}
		c.c = servicecidrs.New(in, &c.server, &c.events)
		if synced := c.c.Watch(&c.queue); len(synced) != 2 {
			t.Errorf("it waits for %d caches", len(synced))
		}
		controllerstest.Go(t, in.CIDRs, in.Addresses)
		test(c)
	})
}

// TestAnswers: what is asked of the server, and what becomes of its answers.
func TestAnswers(t *testing.T) {
	const finalizers, status = "patch servicecidrs", "patch servicecidrs/status"
	ready := metav1.Condition{Type: "Ready", Status: "True", Message: "Kubernetes Service CIDR is ready"}
	has := func(change func(c *metav1.Condition)) func(*caches, *networkingv1.ServiceCIDR) {
		return func(_ *caches, cidr *networkingv1.ServiceCIDR) {
			condition := ready
			change(&condition)
			cidr.Finalizers, cidr.Status.Conditions = []string{finalizer}, []metav1.Condition{condition}
		}
	}
	answers := func(what string, err error) func(*caches, *networkingv1.ServiceCIDR) {
		return func(c *caches, _ *networkingv1.ServiceCIDR) { c.server.Fail(what, err) }
	}
	going := func(ago time.Duration, what string, err error) func(*caches, *networkingv1.ServiceCIDR) {
		return func(c *caches, cidr *networkingv1.ServiceCIDR) {
			cidr.Finalizers, cidr.DeletionTimestamp = []string{finalizer}, new(metav1.NewTime(time.Now().Add(-ago)))
			c.server.Fail(what, err)
		}
	}
	missing := apierrors.NewNotFound(networkingv1.Resource("servicecidrs"), "a")
	for name, tt := range map[string]struct {
		to      func(c *caches, cidr *networkingv1.ServiceCIDR)
		failure string
		later   time.Duration
		asked   []string
		events  string
	}{
		"new":               {asked: []string{finalizers, status}},
		"another time":      {to: has(func(c *metav1.Condition) { c.LastTransitionTime = metav1.NewTime(time.Unix(1, 0)) })},
		"another status":    {to: has(func(c *metav1.Condition) { c.Status = "False" }), asked: []string{status}},
		"another reason":    {to: has(func(c *metav1.Condition) { c.Reason = "Why" }), asked: []string{status}},
		"another message":   {to: has(func(c *metav1.Condition) { c.Message = "hello" }), asked: []string{status}},
		"another condition": {to: has(func(c *metav1.Condition) { c.Type = "Other" }), asked: []string{status}},
		"no finalizer":      {to: answers(finalizers, trial.ErrDown), failure: "changing the finalizers: down", asked: []string{finalizers}},
		"gone":              {to: answers(finalizers, missing), asked: []string{finalizers, status}},
		"no condition":      {to: answers(status, trial.ErrDown), failure: "setting the condition: down", asked: []string{finalizers, status}, events: "Warning KubernetesServiceCIDRError The ServiceCIDR Status can not be set to Ready=True"},
		"going":             {to: going(4*time.Second, "", nil), later: 6 * time.Second},
		"going for long":    {to: going(10*time.Second, "", nil), asked: []string{finalizers}},
		"kept by others": {to: func(c *caches, cidr *networkingv1.ServiceCIDR) {
			going(time.Minute, "", nil)(c, cidr)
			cidr.Finalizers = []string{"x"}
		}},
		"kept by an error": {to: going(time.Minute, finalizers, trial.ErrDown), failure: "changing the finalizers: down", asked: []string{finalizers}},
		"kept by nobody":   {to: going(time.Minute, finalizers, missing), asked: []string{finalizers}},
		"in use and not saying": {to: func(c *caches, cidr *networkingv1.ServiceCIDR) {
			going(time.Minute, status, trial.ErrDown)(c, cidr)
			c.addresses.Put(address("10.0.0.1"))
		}, failure: "setting the condition: down", asked: []string{status}},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, func(c *caches) {
				cidr := cidr("a", "10.0.0.0/24")
				if tt.to != nil {
					tt.to(c, cidr)
				}
				c.cidrs.Put(cidr)
				synctest.Wait()
				result, err := c.c.Reconcile(t.Context(), controllers.Key{Name: "a"})
				if result.RequeueAfter != tt.later || (tt.failure == "") != (err == nil) || err != nil && err.Error() != tt.failure {
					t.Errorf("got %v, %v", result, err)
				}
				if got := c.server.Take(); !slices.Equal(got, tt.asked) {
					t.Errorf("requests %q, want %q", got, tt.asked)
				}
				if got := strings.Join(c.events.Take(), ","); got != tt.events {
					t.Errorf("events %q", got)
				}
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
			if got := c.queue.Take(); got != want {
				t.Errorf("%s: queued %q, want %q", what, got, want)
			}
		}
		c.cidrs.Put(cidr("a", "10.0.0.0/24"))
		expect("new", "a")
		c.cidrs.Put(cidr("b", "10.0.0.0/16,fd00::/112"))
		expect("overlapping", "a b")
		c.cidrs.Put(cidr("c", "10.1.0.0/16,fd00::/120"))
		expect("overlapping in one family", "b c")
		c.cidrs.Put(cidr("a", "10.0.0.0/24"))
		expect("changed", "a")
		c.addresses.Put(address("10.0.0.1"))
		expect("an address", "a b")
		foreign := address("10.0.0.2")
		foreign.Labels = nil
		c.addresses.Put(foreign)
		nonsense := address("x")
		c.addresses.Put(nonsense)
		expect("no address of a service", "")
		c.addresses.Put(address("10.0.0.1"))
		expect("a changed address", "")
		c.addresses.Delete("", "10.0.0.1")
		expect("no address", "a b")
		c.cidrs.Delete("", "a")
		expect("gone", "")
		if result, err := c.c.Reconcile(t.Context(), controllers.Key{Name: "a"}); err != nil || result.RequeueAfter != 0 || len(c.server.Take()) > 0 {
			t.Errorf("gone: %v, %v", result, err)
		}
	})
}
