package resourcequota_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/resourcequota"
)

// shelf holds quotas in memory, changed by compare-and-swap. Readers may lag behind by view.
type shelf struct {
	mu     sync.Mutex
	quotas map[string]*corev1.ResourceQuota
	swaps  atomic.Int64
	before func(name string) error // called before a swap, if set
}

func newShelf(quotas ...*corev1.ResourceQuota) *shelf {
	s := &shelf{quotas: map[string]*corev1.ResourceQuota{}}
	for _, q := range quotas {
		s.quotas[q.Name] = q
	}
	return s
}

func (s *shelf) List(namespace string) []*corev1.ResourceQuota {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*corev1.ResourceQuota
	for _, name := range slices.Sorted(maps.Keys(s.quotas)) {
		if s.quotas[name].Namespace == namespace {
			list = append(list, s.quotas[name])
		}
	}
	return list
}

func (s *shelf) Modify(_ context.Context, _, name string, change func(*corev1.ResourceQuota) error) error {
	for {
		s.mu.Lock()
		was := s.quotas[name]
		s.mu.Unlock()
		if was == nil {
			return resourcequota.ErrGone
		}
		next := was.DeepCopy()
		if err := change(next); err != nil {
			return err
		}
		if s.before != nil {
			if err := s.before(name); err != nil {
				return err
			}
		}
		s.mu.Lock()
		same := s.quotas[name] == was
		if same {
			s.quotas[name] = next
			s.swaps.Add(1)
		}
		s.mu.Unlock()
		if same {
			return nil
		}
	}
}

func (s *shelf) used(name string) string { return text(s.quotas[name].Status.Used) }

func text(list corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		parts = append(parts, string(name)+"="+quantity.String())
	}
	return strings.Join(parts, " ")
}

func list(text string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for pair := range strings.FieldsSeq(text) {
		name, quantity, _ := strings.Cut(pair, "=")
		l[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return l
}

func quotaOf(name, hard, used string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "1"},
		Spec:       corev1.ResourceQuotaSpec{Hard: list(hard)},
		Status:     corev1.ResourceQuotaStatus{Hard: list(hard), Used: list(used)},
	}
}

func podOf(requests, limits string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Resources: corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)},
	}}}}
}

func request(resource string, op admission.Operation, obj, old runtime.Object) *admission.Request {
	gvr := corev1.SchemeGroupVersion.WithResource(resource)
	if group, name, ok := strings.Cut(resource, "/"); ok {
		gvr = schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}
	}
	return &admission.Request{Operation: op, Resource: gvr, Namespace: "ns", Name: "p", Object: obj, OldObject: old}
}

func TestValidate(t *testing.T) {
	deadline := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.ActiveDeadlineSeconds = new(int64)
		return p
	}
	scoped := func(q *corev1.ResourceQuota, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
		q.Spec.Scopes = scopes
		return q
	}
	classes := func(q *corev1.ResourceQuota, op corev1.ScopeSelectorOperator, values ...string) *corev1.ResourceQuota {
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
			ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: op, Values: values}}}
		return q
	}
	urgent := podOf("", "")
	urgent.Spec.PriorityClassName = "high"
	service := func(kind corev1.ServiceType, ports int) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, Ports: make([]corev1.ServicePort, ports)}}
	}
	ended := podOf("cpu=1", "")
	ended.Status.Phase = corev1.PodSucceeded
	for name, c := range map[string]struct {
		quota *corev1.ResourceQuota
		r     *admission.Request
		want  string // error
		used  string
	}{
		"counts": {quotaOf("q", "pods=2 count/pods=9", "pods=1 count/pods=3"), request("pods", admission.Create, podOf("", ""), nil),
			"", "count/pods=4 pods=2"},
		"too many": {quotaOf("q", "pods=2 count/pods=9", "pods=2 count/pods=3"), request("pods", admission.Create, podOf("", ""), nil),
			`pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`, "count/pods=3 pods=2"},
		"compute": {quotaOf("q", "requests.cpu=1 memory=1Gi limits.memory=4Gi requests.example.com/gpu=2 hugepages-2Mi=8Mi",
			"requests.cpu=500m memory=0 limits.memory=0 requests.example.com/gpu=0 hugepages-2Mi=0"),
			request("pods", admission.Create, podOf("cpu=250m memory=512Mi example.com/gpu=2 hugepages-2Mi=4Mi", "cpu=1 memory=1Gi"), nil),
			"", "hugepages-2Mi=4Mi limits.memory=1Gi memory=512Mi requests.cpu=750m requests.example.com/gpu=2"},
		"several exceeded": {quotaOf("q", "requests.cpu=1 limits.cpu=2 pods=5", "requests.cpu=500m limits.cpu=1500m pods=0"),
			request("pods", admission.Create, podOf("cpu=600m", "cpu=1"), nil),
			`pods "p" is forbidden: exceeded quota: q, requested: limits.cpu=1,requests.cpu=600m, used: limits.cpu=1500m,requests.cpu=500m, limited: limits.cpu=2,requests.cpu=1`,
			"limits.cpu=1500m pods=0 requests.cpu=500m"},
		"not specified": {quotaOf("q", "limits.cpu=2 cpu=1 pods=1", "limits.cpu=0 cpu=0 pods=0"), request("pods", admission.Create, podOf("", ""), nil),
			`pods "p" is forbidden: failed quota: q: must specify cpu for: c; limits.cpu for: c`, "cpu=0 limits.cpu=0 pods=0"},
		"unknown usage": {quotaOf("q", "pods=2 count/pods=9", "pods=1"), request("pods", admission.Create, podOf("", ""), nil),
			`pods "p" is forbidden: status unknown for quota: q, resources: count/pods,pods`, "pods=1"},
		"negative": {quotaOf("q", "cpu=2", "cpu=0"), request("pods", admission.Create, podOf("cpu=-1", ""), nil),
			`pods "p" is forbidden: quota usage is negative for resource(s): cpu,requests.cpu`, "cpu=0"},
		"an ended pod":     {quotaOf("q", "pods=0 count/pods=1", "pods=0 count/pods=0"), request("pods", admission.Create, ended, nil), "", "count/pods=1 pods=0"},
		"an update":        {quotaOf("q", "pods=0", "pods=0"), request("pods", admission.Update, podOf("", ""), podOf("", "")), "", "pods=0"},
		"into scope":       {scoped(quotaOf("q", "pods=1", "pods=0"), "Terminating"), request("pods", admission.Update, deadline(podOf("", "")), podOf("", "")), "", "pods=1"},
		"no room in scope": {scoped(quotaOf("q", "pods=0", "pods=0"), "Terminating"), request("pods", admission.Update, deadline(podOf("", "")), podOf("", "")), `pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0`, "pods=0"},
		"within scope":     {quotaOf("q", "pods=0", "pods=0"), request("pods", admission.Update, deadline(podOf("", "")), podOf("", "")), "", "pods=0"},
		"out of scope":     {scoped(quotaOf("q", "pods=0", "pods=0"), "NotBestEffort"), request("pods", admission.Create, podOf("", ""), nil), "", "pods=0"},
		"best effort":      {scoped(quotaOf("q", "pods=3", "pods=0"), "BestEffort", "NotTerminating"), request("pods", admission.Create, podOf("", ""), nil), "", "pods=1"},
		"of a class":       {classes(quotaOf("q", "pods=3", "pods=0"), "In", "high"), request("pods", admission.Create, urgent, nil), "", "pods=1"},
		"of no class":      {classes(quotaOf("q", "pods=3", "pods=0"), "In", "high"), request("pods", admission.Create, podOf("", ""), nil), "", "pods=0"},
		"of another class": {classes(quotaOf("q", "pods=3", "pods=0"), "NotIn", "high"), request("pods", admission.Create, podOf("", ""), nil), "", "pods=1"},
		"node ports": {quotaOf("q", "services=5 services.nodeports=3 services.loadbalancers=1", "services=0 services.nodeports=0 services.loadbalancers=0"),
			request("services", admission.Create, service(corev1.ServiceTypeLoadBalancer, 3), nil), "", "services=1 services.loadbalancers=1 services.nodeports=3"},
		"another type": {quotaOf("q", "services=1 services.nodeports=3", "services=1 services.nodeports=0"),
			request("services", admission.Update, service(corev1.ServiceTypeNodePort, 2), service(corev1.ServiceTypeClusterIP, 2)), "", "services=1 services.nodeports=2"},
		"more ports": {quotaOf("q", "services=1 services.nodeports=3", "services=1 services.nodeports=3"),
			request("services", admission.Update, service(corev1.ServiceTypeNodePort, 4), service(corev1.ServiceTypeNodePort, 3)),
			`services "p" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=3, limited: services.nodeports=3`, "services=1 services.nodeports=3"},
		"fewer ports": {quotaOf("q", "services=1 services.nodeports=3", "services=1 services.nodeports=3"),
			request("services", admission.Update, service(corev1.ServiceTypeNodePort, 2), service(corev1.ServiceTypeNodePort, 3)), "", "services=1 services.nodeports=3"},
		"unknown usage of the last": {quotaOf("q", "pods=2 count/pods=9", "count/pods=1"), request("pods", admission.Create, podOf("", ""), nil),
			`pods "p" is forbidden: status unknown for quota: q, resources: count/pods,pods`, "count/pods=1"},
		"a namespace":     {quotaOf("q", "count/namespaces=0", "count/namespaces=0"), request("namespaces", admission.Create, &corev1.Namespace{}, nil), "", "count/namespaces=0"},
		"by its old name": {quotaOf("q", "secrets=1", "secrets=0"), request("secrets", admission.Create, &corev1.Secret{}, nil), "", "secrets=1"},
		"any kind":        {quotaOf("q", "count/deployments.apps=1", "count/deployments.apps=0"), request("apps/deployments", admission.Create, &appsv1.Deployment{}, nil), "", "count/deployments.apps=1"},
		"events":          {quotaOf("q", "count/events=0", "count/events=0"), request("events", admission.Create, &corev1.Event{}, nil), "", "count/events=0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(c.quota)
			p := resourcequota.New(s, s, resourcequota.Options{})
			dry := *c.r
			dry.DryRun = true
			before := s.used("q")
			for _, r := range []*admission.Request{&dry, c.r} {
				err := p.Validate(t.Context(), r)
				if got := fmt.Sprint(err); c.want != "" && got != c.want || c.want == "" && err != nil {
					t.Errorf("dry run %v: error %v, want %s", r.DryRun, err, c.want)
				}
				if c.want != "" && !errors.Is(err, admission.ErrForbidden) {
					t.Errorf("error %v is not forbidden", err)
				}
				if r.DryRun && s.used("q") != before {
					t.Errorf("a dry run was charged: %s", s.used("q"))
				}
			}
			if got := s.used("q"); got != c.used {
				t.Errorf("used %s, want %s", got, c.used)
			}
		})
	}
}

// TestBatch: requests that wait at the same time are charged together, in the order of their arrival.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(quotaOf("q", "pods=100", "pods=0"))
		s.before = func(string) error {
			time.Sleep(time.Second) // while the others arrive
			return nil
		}
		p := resourcequota.New(s, s, resourcequota.Options{})
		var ok atomic.Int64
		var done sync.WaitGroup
		for range 256 {
			done.Go(func() {
				if p.Validate(t.Context(), request("pods", admission.Create, podOf("", ""), nil)) == nil {
					ok.Add(1)
				}
			})
		}
		done.Wait()
		if ok.Load() != 100 || s.used("q") != "pods=100" {
			t.Errorf("%d admitted, used %s", ok.Load(), s.used("q"))
		}
		if n := s.swaps.Load(); n != 2 {
			t.Errorf("%d writes for one request and then 255 that arrived meanwhile", n)
		}
	})
}

// TestRivals: several plugins over one store, like several servers, admit exactly what fits.
func TestRivals(t *testing.T) {
	s := newShelf(quotaOf("a", "pods=100", "pods=0"), quotaOf("b", "pods=70 cpu=50", "pods=0 cpu=0"))
	plugins := []*resourcequota.Plugin{
		resourcequota.New(s, s, resourcequota.Options{}), resourcequota.New(s, s, resourcequota.Options{}), resourcequota.New(s, s, resourcequota.Options{}),
	}
	var ok atomic.Int64
	var done sync.WaitGroup
	for i := range 64 {
		done.Go(func() {
			for range 5 {
				if plugins[i%len(plugins)].Validate(t.Context(), request("pods", admission.Create, podOf("cpu=1", ""), nil)) == nil {
					ok.Add(1)
				}
			}
		})
	}
	done.Wait()
	if ok.Load() != 50 || s.used("a") != "pods=50" || s.used("b") != "cpu=50 pods=50" {
		t.Errorf("%d admitted, used %s and %s", ok.Load(), s.used("a"), s.used("b"))
	}
}

// TestRefund: a charge is refunded when another quota, changed meanwhile, refuses the request.
func TestRefund(t *testing.T) {
	s := newShelf(quotaOf("a", "pods=9", "pods=0"), quotaOf("b", "pods=9", "pods=0"))
	s.before = func(name string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if b := s.quotas["b"]; name == "a" && s.used("b") == "pods=0" {
			b = b.DeepCopy()
			b.Status.Used = list("pods=9")
			s.quotas["b"] = b
		}
		return nil
	}
	err := resourcequota.New(s, s, resourcequota.Options{}).Validate(t.Context(), request("pods", admission.Create, podOf("", ""), nil))
	if got := fmt.Sprint(err); got != `pods "p" is forbidden: exceeded quota: b, requested: pods=1, used: pods=9, limited: pods=9` {
		t.Error(got)
	}
	if s.used("a") != "pods=0" || s.used("b") != "pods=9" {
		t.Errorf("used %s and %s", s.used("a"), s.used("b"))
	}
}

// TestFailures: a deleted quota limits nothing; one that cannot be written fails the request.
func TestFailures(t *testing.T) {
	broken := errors.New("disk full")
	for name, c := range map[string]struct {
		modify error
		want   string
	}{
		"gone":     {resourcequota.ErrGone, "<nil>"},
		"broken":   {broken, "Internal error occurred: disk full"},
		"too slow": {context.DeadlineExceeded, "Internal error occurred: resource quota evaluation timed out"},
	} {
		s := newShelf(quotaOf("q", "pods=9", "pods=0"))
		p := resourcequota.New(s, resourcequota.ChargerFunc(func(context.Context, string, string, func(*corev1.ResourceQuota) error) error {
			return c.modify
		}), resourcequota.Options{})
		if got := fmt.Sprint(p.Validate(t.Context(), request("pods", admission.Create, podOf("", ""), nil))); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestContextEndsInQueue: a request whose context ends leaves the queue uncharged, and blocks no other.
func TestContextEndsInQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(quotaOf("q", "pods=9", "pods=0"))
		s.before = func(string) error {
			time.Sleep(2 * time.Second)
			return nil
		}
		p := resourcequota.New(s, s, resourcequota.Options{})
		var done sync.WaitGroup
		validate := func(after, patience time.Duration) *error {
			var err error
			done.Go(func() {
				time.Sleep(after)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				err = p.Validate(ctx, request("pods", admission.Create, podOf("", ""), nil))
			})
			return &err
		}
		served := validate(0, 100*time.Millisecond) // serves itself, whatever its deadline
		left := validate(time.Second, 500*time.Millisecond)
		last := validate(1100*time.Millisecond, time.Minute)
		done.Wait()
		if *served != nil || *last != nil || !errors.Is(*left, context.DeadlineExceeded) || s.used("q") != "pods=2" {
			t.Errorf("errors %v, %v, %v, used %s", *served, *left, *last, s.used("q"))
		}
	})
}

// TestNoRefundToRecreatedQuota: a quota that was recreated with the same name was not charged, so it gets no refund.
func TestNoRefundToRecreatedQuota(t *testing.T) {
	s := newShelf(quotaOf("a", "pods=9", "pods=0"), quotaOf("b", "pods=9", "pods=0"))
	s.before = func(name string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch name {
		case "a":
			s.quotas["b"] = quotaOf("b", "pods=9", "pods=9")
		case "b":
			s.quotas["a"] = quotaOf("a", "pods=9", "pods=3")
			s.quotas["a"].UID = "2"
		}
		return nil
	}
	err := resourcequota.New(s, s, resourcequota.Options{}).Validate(t.Context(), request("pods", admission.Create, podOf("", ""), nil))
	if !errors.Is(err, admission.ErrForbidden) || s.used("a") != "pods=3" || s.used("b") != "pods=9" {
		t.Errorf("%v; used %s and %s", err, s.used("a"), s.used("b"))
	}
}

// TestRefundTogether: charges for several requests at once are refunded for exactly those that were refused.
func TestRefundTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(quotaOf("a", "pods=9", "pods=0"), quotaOf("b", "pods=9", "pods=0"))
		round := 0
		s.before = func(name string) error {
			time.Sleep(time.Second) // while the others arrive
			if name != "a" {
				return nil
			}
			if round++; round == 2 { // there is room for only one of three by now
				s.mu.Lock()
				defer s.mu.Unlock()
				s.quotas["b"] = quotaOf("b", "pods=9", "pods=8")
			}
			return nil
		}
		p := resourcequota.New(s, s, resourcequota.Options{})
		var ok atomic.Int64
		var done sync.WaitGroup
		for range 4 {
			done.Go(func() {
				if p.Validate(t.Context(), request("pods", admission.Create, podOf("", ""), nil)) == nil {
					ok.Add(1)
				}
			})
		}
		done.Wait()
		if ok.Load() != 2 || s.used("a") != "pods=2" || s.used("b") != "pods=9" {
			t.Errorf("%d admitted, used %s and %s", ok.Load(), s.used("a"), s.used("b"))
		}
	})
}

// TestServingOutlivesContext: a request that serves others continues when its own context ends, but not forever.
func TestServingOutlivesContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(quotaOf("q", "pods=9", "pods=0"))
		takes := time.Second
		slow := resourcequota.ChargerFunc(func(ctx context.Context, namespace, name string, change func(*corev1.ResourceQuota) error) error {
			select {
			case <-time.After(takes):
				return s.Modify(ctx, namespace, name, change)
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		p := resourcequota.New(s, slow, resourcequota.Options{Timeout: 3 * time.Second})
		impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := p.Validate(impatient, request("pods", admission.Create, podOf("", ""), nil)); err != nil {
			t.Error(err)
		}
		takes = time.Hour
		began := time.Now()
		err := p.Validate(t.Context(), request("pods", admission.Create, podOf("", ""), nil))
		if got := fmt.Sprint(err); got != "Internal error occurred: resource quota evaluation timed out" || time.Since(began) != 3*time.Second {
			t.Errorf("%s after %v", got, time.Since(began))
		}
	})
}

// slowToEnd is a context that has ended, which is noticed only later.
type slowToEnd struct{ context.Context }

func (c slowToEnd) Done() <-chan struct{} {
	time.Sleep(3 * time.Second)
	return c.Context.Done()
}

// TestContextEndsWhenChosen: a request whose context ends when it is chosen to serve serves all the same: no other
// will.
func TestContextEndsWhenChosen(t *testing.T) {
	for range 20 { // which of the two happens first is random
		synctest.Test(t, func(t *testing.T) {
			s := newShelf(quotaOf("q", "pods=9", "pods=0"))
			s.before = func(string) error {
				time.Sleep(2 * time.Second)
				return nil
			}
			p := resourcequota.New(s, s, resourcequota.Options{})
			over, cancel := context.WithCancel(t.Context())
			cancel()
			var done sync.WaitGroup
			for i, ctx := range []context.Context{t.Context(), slowToEnd{over}, t.Context()} {
				done.Go(func() {
					time.Sleep(time.Duration(i))
					if err := p.Validate(ctx, request("pods", admission.Create, podOf("", ""), nil)); err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait() // synctest reports a deadlock
			if s.used("q") != "pods=3" {
				t.Errorf("used %s", s.used("q"))
			}
		})
	}
}

// behind is the quotas in the cache of a server that lags behind another server's writes.
type behind []*corev1.ResourceQuota

func (b behind) List(string) []*corev1.ResourceQuota { return b }

// TestStaleCache: charges and limits depend on the stored quota, not on the cached one.
func TestStaleCache(t *testing.T) {
	for name, c := range map[string]struct {
		seen, stored *corev1.ResourceQuota
		want, used   string
	}{
		"more is used by now": {quotaOf("q", "pods=2", "pods=0"), quotaOf("q", "pods=2", "pods=2"),
			`pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`, "pods=2"},
		"somewhat more is used by now": {quotaOf("q", "pods=2", "pods=0"), quotaOf("q", "pods=2", "pods=1"), "<nil>", "pods=2"},
		"less is allowed by now": {quotaOf("q", "pods=2", "pods=0"), quotaOf("q", "pods=0", "pods=0"),
			`pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0`, "pods=0"},
		"something else is limited, too": {quotaOf("q", "pods=2", "pods=0"), quotaOf("q", "pods=2 count/pods=2", "pods=0 count/pods=1"),
			"<nil>", "count/pods=2 pods=1"},
		"it limits nothing of the kind by now": {quotaOf("q", "pods=2", "pods=0"), quotaOf("q", "services=2", "services=0"), "<nil>", "services=0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(c.stored)
			p := resourcequota.New(behind{c.seen}, s, resourcequota.Options{})
			if got := fmt.Sprint(p.Validate(t.Context(), request("pods", admission.Create, podOf("", ""), nil))); got != c.want {
				t.Error(got)
			}
			if got := s.used("q"); got != c.used {
				t.Errorf("used %s, want %s", got, c.used)
			}
		})
	}
}
