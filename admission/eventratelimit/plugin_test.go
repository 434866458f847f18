package eventratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/eventratelimit"
)

func plugin(t *testing.T, limits ...eventratelimit.Limit) *eventratelimit.Plugin {
	t.Helper()
	p, err := eventratelimit.New(limits)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// event is one that a source writes about a pod.
func event(t *testing.T, ns, source, about string, changes ...func(*admission.Request)) *admission.Request {
	return admissiontest.Create(t, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "e"},
		Source:     corev1.EventSource{Component: source}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: about},
	}, changes...)
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plugin(t, eventratelimit.Limit{Type: eventratelimit.Server, QPS: 2, Burst: 3})
		allowed := func(want int) {
			t.Helper()
			n := 0
			for p.Validate(t.Context(), event(t, "ns", "s", "p")) == nil {
				n++
			}
			if n != want {
				t.Errorf("%d events at once, want %d", n, want)
			}
		}
		allowed(3)
		time.Sleep(time.Second)
		allowed(2)
		time.Sleep(time.Minute)
		allowed(3)
		admissiontest.Refuses(t, p, event(t, "ns", "s", "p"), "limit reached on type Server for key ")
	})
}

// Events count together that have in common what a limit is about.
func TestTypes(t *testing.T) {
	first := event(t, "a", "kubelet", "p", admissiontest.By("u"))
	for name, c := range map[string]struct {
		kind  eventratelimit.Type
		other *admission.Request
		apart bool
	}{
		"all":               {eventratelimit.Server, event(t, "b", "scheduler", "q", admissiontest.By("v")), false},
		"namespaces":        {eventratelimit.Namespace, event(t, "b", "kubelet", "p", admissiontest.By("u")), true},
		"one namespace":     {eventratelimit.Namespace, event(t, "a", "scheduler", "q", admissiontest.By("v")), false},
		"users":             {eventratelimit.User, event(t, "a", "kubelet", "p", admissiontest.By("v")), true},
		"one user":          {eventratelimit.User, event(t, "b", "scheduler", "q", admissiontest.By("u")), false},
		"sources":           {eventratelimit.SourceAndObject, event(t, "a", "scheduler", "p", admissiontest.By("u")), true},
		"objects":           {eventratelimit.SourceAndObject, event(t, "a", "kubelet", "q", admissiontest.By("u")), true},
		"one about another": {eventratelimit.SourceAndObject, event(t, "a", "kubelet", "p", admissiontest.By("v")), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plugin(t, eventratelimit.Limit{Type: c.kind, QPS: 1, Burst: 1})
				if err := p.Validate(t.Context(), first); err != nil {
					t.Fatal(err)
				}
				if err := p.Validate(t.Context(), c.other); (err == nil) != c.apart {
					t.Errorf("another: %v", err)
				}
				if err := p.Validate(t.Context(), first); !errors.Is(err, eventratelimit.ErrTooMany) {
					t.Errorf("again: %v", err)
				}
			})
		})
	}
}

func TestSeveralLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plugin(t, eventratelimit.Limit{Type: eventratelimit.Namespace, QPS: 1, Burst: 1}, eventratelimit.Limit{Type: eventratelimit.User, QPS: 1, Burst: 1})
		r := event(t, "ns", "s", "p", admissiontest.By("u"))
		if err := p.Validate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		refusal := admissiontest.Refuses(t, p, r, "[limit reached on type Namespace for key ns, limit reached on type User for key u]")
		if refusal.Code != 429 {
			t.Errorf("code %d", refusal.Code)
		}
		// One limit does not keep another from counting.
		if err := p.Validate(t.Context(), event(t, "ns", "s", "p", admissiontest.By("v"))); err == nil {
			t.Error("the namespace has more")
		}
		if err := p.Validate(t.Context(), event(t, "other", "s", "p", admissiontest.By("v"))); err == nil || err.Error() != "limit reached on type User for key v" {
			t.Errorf("got %v", err)
		}
	})
}

// The bucket that was not used for longest is forgotten.
func TestCacheSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plugin(t, eventratelimit.Limit{Type: eventratelimit.Namespace, QPS: 1, Burst: 1, CacheSize: 2})
		var got []bool
		for _, ns := range []string{"a", "b", "a", "c", "a", "b"} {
			got = append(got, p.Validate(t.Context(), event(t, ns, "s", "p")) == nil)
		}
		if want := "[true true false true false true]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

func TestOtherRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plugin(t, eventratelimit.Limit{Type: eventratelimit.SourceAndObject, QPS: 1, Burst: 1})
		for _, r := range []*admission.Request{
			admissiontest.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}),
			event(t, "ns", "s", "p", admissiontest.DryRun),
			event(t, "ns", "s", "p", func(r *admission.Request) { r.Kind.Group = "events.k8s.io" }),
		} {
			for range 3 {
				admissiontest.Admits(t, p, r, r.Object)
			}
		}
		if p.Handles(admission.Delete) || !p.Handles(admission.Update) {
			t.Error("it does not handle just creates and updates")
		}
	})
}

func TestBadLimits(t *testing.T) {
	for name, c := range map[string]struct {
		limits []eventratelimit.Limit
		want   string
	}{
		"none":     {nil, `limits: Invalid value: null: must not be empty`},
		"type":     {[]eventratelimit.Limit{{Type: "x", QPS: 1, Burst: 1}}, `limits[0].type: Unsupported value: "x": supported values: "Namespace", "Server", "SourceAndObject", "User"`},
		"no rates": {[]eventratelimit.Limit{{Type: eventratelimit.Server}}, `[limits[0].burst: Invalid value: 0: must be positive, limits[0].qps: Invalid value: 0: must be positive]`},
		"size":     {[]eventratelimit.Limit{{Type: eventratelimit.User, QPS: 1, Burst: 1, CacheSize: -1}}, `limits[0].cacheSize: Invalid value: -1: must not be negative`},
	} {
		if _, err := eventratelimit.New(c.limits); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	if _, err := eventratelimit.New([]eventratelimit.Limit{{Type: eventratelimit.Server, QPS: 1, Burst: 1, CacheSize: -1}}); err != nil {
		t.Errorf("the size counts for a limit that has one bucket: %v", err)
	}
}

func Example() {
	p, err := eventratelimit.New([]eventratelimit.Limit{{Type: eventratelimit.Namespace, QPS: 1, Burst: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := &admission.Request{Operation: admission.Create, Kind: corev1.SchemeGroupVersion.WithKind("Event"), Namespace: "noisy", Object: &corev1.Event{}}
	fmt.Println(p.Validate(context.Background(), r))
	fmt.Println(p.Validate(context.Background(), r))
	// Output:
	// <nil>
	// limit reached on type Namespace for key noisy
}
