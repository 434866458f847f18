package resourcequota_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/resourcequota"
)

func creation(change ...func(*admission.Request)) *admission.Request {
	r := request("pods", admission.Create, podOf("", ""), nil)
	for _, c := range change {
		c(r)
	}
	return r
}

func TestHandles(t *testing.T) {
	p := resourcequota.New(newShelf(), newShelf(), resourcequota.Options{})
	for op, want := range map[admission.Operation]bool{admission.Create: true, admission.Update: true, admission.Delete: false, admission.Connect: false} {
		if p.Handles(op) != want {
			t.Errorf("%s: %t", op, !want)
		}
	}
}

// TestNotCounted: requests that no quota counts pass, even without room.
func TestNotCounted(t *testing.T) {
	full := quotaOf("q", "pods=0 count/pods=0 services=0", "pods=0 count/pods=0 services=0")
	ignored := resourcequota.Options{Ignored: func(gr schema.GroupResource) bool { return gr.Resource == "pods" }}
	negative := func(r *admission.Request) { r.Object = podOf("cpu=-1", "") }
	for name, tt := range map[string]struct {
		options resourcequota.Options
		quotas  []*corev1.ResourceQuota
		r       *admission.Request
		refused bool
	}{
		"counted":                    {quotas: []*corev1.ResourceQuota{full}, r: creation(), refused: true},
		"ignored":                    {options: ignored, quotas: []*corev1.ResourceQuota{full}, r: creation()},
		"another than is ignored":    {options: ignored, quotas: []*corev1.ResourceQuota{full}, r: request("services", admission.Create, &corev1.Service{}, nil), refused: true},
		"a part":                     {quotas: []*corev1.ResourceQuota{full}, r: creation(func(r *admission.Request) { r.Subresource = "binding" })},
		"no quotas":                  {r: creation(negative)},
		"created with an old object": {quotas: []*corev1.ResourceQuota{full}, r: creation(func(r *admission.Request) { r.OldObject = podOf("", "") }), refused: true},
	} {
		s := newShelf(tt.quotas...)
		if err := resourcequota.New(s, s, tt.options).Validate(t.Context(), tt.r); (err != nil) != tt.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Cluster-scoped objects have no quotas, whatever the cache contains.
	s := newShelf(full)
	everywhere := creation(func(r *admission.Request) { r.Namespace = "" })
	if err := resourcequota.New(behind{full}, s, resourcequota.Options{}).Validate(t.Context(), everywhere); err != nil {
		t.Errorf("in no namespace: %v", err)
	}
}

// TestWrites: a quota is written only when it is charged; nothing is charged only to be refunded.
func TestWrites(t *testing.T) {
	t.Run("one of two", func(t *testing.T) {
		s := newShelf(quotaOf("a", "pods=9", "pods=0"), quotaOf("b", "services=9", "services=0"))
		if err := resourcequota.New(s, s, resourcequota.Options{}).Validate(t.Context(), creation()); err != nil || s.swaps.Load() != 1 {
			t.Errorf("%d writes, %v", s.swaps.Load(), err)
		}
	})
	t.Run("more than fits together", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newShelf(quotaOf("a", "pods=9", "pods=0"), quotaOf("b", "pods=2", "pods=0"))
			s.before = func(string) error { time.Sleep(time.Second); return nil }
			p := resourcequota.New(s, s, resourcequota.Options{})
			var done sync.WaitGroup
			var refused []string
			var mu sync.Mutex
			for i := range 3 {
				done.Go(func() {
					time.Sleep(time.Duration(i))
					if err := p.Validate(t.Context(), creation()); err != nil {
						mu.Lock()
						defer mu.Unlock()
						refused = append(refused, err.Error())
					}
				})
			}
			done.Wait()
			want := []string{`pods "p" is forbidden: exceeded quota: b, requested: pods=1, used: pods=2, limited: pods=2`}
			if s.swaps.Load() != 4 || s.used("a") != "pods=2" || s.used("b") != "pods=2" || !slices.Equal(refused, want) {
				t.Errorf("%d writes, used %s and %s, refused %q", s.swaps.Load(), s.used("a"), s.used("b"), refused)
			}
		})
	})
	t.Run("nothing to refund", func(t *testing.T) {
		s := newShelf(quotaOf("a", "services=2", "services=0"), quotaOf("b", "pods=2", "pods=2"))
		seen := behind{quotaOf("a", "pods=2", "pods=0"), quotaOf("b", "pods=2", "pods=0")}
		err := resourcequota.New(seen, s, resourcequota.Options{}).Validate(t.Context(), creation())
		if !errors.Is(err, admission.ErrForbidden) || s.swaps.Load() != 2 {
			t.Errorf("%d writes, %v", s.swaps.Load(), err)
		}
	})
}

// TestTimeout: by default, writing usage may take ten seconds.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(quotaOf("q", "pods=9", "pods=0"))
		stuck := resourcequota.ChargerFunc(func(ctx context.Context, _, _ string, _ func(*corev1.ResourceQuota) error) error {
			<-ctx.Done()
			return ctx.Err()
		})
		began := time.Now()
		err := resourcequota.New(s, stuck, resourcequota.Options{}).Validate(t.Context(), creation())
		if got := fmt.Sprint(err); got != "Internal error occurred: resource quota evaluation timed out" || time.Since(began) != 10*time.Second {
			t.Errorf("%s after %v", got, time.Since(began))
		}
	})
}

// TestContextEndsWhileServed: a request that is being served gets the decision, even if its context ends before.
func TestContextEndsWhileServed(t *testing.T) {
	for room, want := range map[string]string{
		"pods=2": `pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`,
		"pods=3": "<nil>",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShelf(quotaOf("q", room, "pods=0"))
			s.before = func(string) error { time.Sleep(2 * time.Second); return nil }
			p := resourcequota.New(s, s, resourcequota.Options{})
			var done sync.WaitGroup
			for i, patience := range []time.Duration{time.Minute, time.Minute, 3 * time.Second} {
				done.Go(func() {
					time.Sleep(time.Duration(i))
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					if err := p.Validate(ctx, creation()); i == 2 && fmt.Sprint(err) != want || i < 2 && err != nil {
						t.Errorf("room for %s: request %d: %v", room, i, err)
					}
				})
			}
			done.Wait()
			if s.used("q") != room {
				t.Errorf("room for %s: used %s", room, s.used("q"))
			}
		})
	}
}

// TestUnchargedDoesNotWait: a request without a charge does not wait for others.
func TestUnchargedDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(quotaOf("q", "pods=9", "pods=0"))
		s.before = func(string) error { time.Sleep(2 * time.Second); return nil }
		p := resourcequota.New(s, s, resourcequota.Options{})
		var done sync.WaitGroup
		done.Go(func() {
			if err := p.Validate(t.Context(), creation()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		began := time.Now()
		if err := p.Validate(t.Context(), request("services", admission.Create, &corev1.Service{}, nil)); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		done.Wait()
	})
}
