package csrcleaner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/csrcleaner"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/pki"
)

type request = certificatesv1.CertificateSigningRequest

// fixed is a source whose objects do not change.
type fixed []*request

func (f fixed) List(context.Context) ([]*request, string, error) { return f, "1", nil }

func (fixed) Watch(ctx context.Context, _ string) (informer.Stream[*request], error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// deleted are the names of requests that were deleted, and when first.
type deleted struct {
	began time.Time
	times map[string]time.Duration
	fail  error
	each  func(client.Target)
}

func (d *deleted) Delete(_ context.Context, at client.Target, _ metav1.DeleteOptions) error {
	if _, known := d.times[at.Name]; !known {
		d.times[at.Name] = time.Since(d.began)
	}
	if d.each != nil {
		d.each(at)
	}
	return d.fail
}

func condition(kind certificatesv1.RequestConditionType, age time.Duration) certificatesv1.CertificateSigningRequestCondition {
	c := certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: "True"}
	if age >= 0 {
		c.LastUpdateTime = metav1.NewTime(time.Now().Add(-age))
	}
	return c
}

// TestAges: requests are deleted in the first round after they have come of age, which is looked at every hour.
func TestAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := pki.New("ca")
		if err != nil {
			t.Fatal(err)
		}
		pair, err := authority.Issue(pki.Subject{Name: "a"}, 90*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		const hour = time.Hour
		signed, endless := pair.Certificate, []byte("x")
		want := map[string]time.Duration{}
		var all fixed
		add := func(name string, when time.Duration, age time.Duration, certificate []byte, conditions ...certificatesv1.CertificateSigningRequestCondition) {
			r := &request{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-age))}}
			r.Status.Certificate, r.Status.Conditions = certificate, conditions
			all = append(all, r)
			if when >= 0 {
				want[name] = when
			}
		}
		const never = -1
		add("pending", 25*hour, 0, nil)
		add("pending for a day", hour, 24*hour, nil)
		add("pending for more than a day", 0, 24*hour+1, nil)
		add("with an own condition", never, 100*hour, nil, condition("x", 100*hour))
		add("denied", 2*hour, 100*hour, nil, condition("Denied", 0))
		add("denied long ago", 0, 0, nil, condition("Denied", hour+1))
		add("denied at no time", never, 100*hour, nil, condition("Denied", -1))
		add("failed", hour, 100*hour, nil, condition("Approved", 0), condition("Failed", hour))
		add("approved", 25*hour, 100*hour, nil, condition("Approved", 0))
		add("approved long ago", 0, 0, nil, condition("Approved", 24*hour+1))
		add("signed", 2*hour, 100*hour, endless, condition("Approved", 0))
		add("signed long ago", 0, 0, endless, condition("Approved", hour+1))
		add("signed, expires", 2*hour, 0, signed, condition("Approved", -1))
		add("signed with nothing", never, 0, []byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), condition("Approved", -1))
		add("signed, not approved", 0, 100*hour, signed)
		add("signed, approved at no time", never, 100*hour, endless, condition("Approved", -1))
		d := &deleted{began: time.Now(), times: map[string]time.Duration{}, fail: errors.New("down")}
		in := csrcleaner.Sources{Requests: informer.New[*request](all, informer.Options{})}
		var log trial.Text
		controllerstest.Go(t, in.Requests, controllers.NewLoop(csrcleaner.New(in, d, csrcleaner.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}), controllers.Options{}))
		synctest.Wait()
		if got := strings.Count(log.String(), "deleting a request failed"); got != 5 {
			t.Errorf("%d failures in the first round", got)
		}
		time.Sleep(30 * hour)
		synctest.Wait()
		if !maps.Equal(d.times, want) {
			for _, name := range slices.Sorted(maps.Keys(want)) {
				if got, ok := d.times[name]; !ok || got != want[name] {
					t.Errorf("%s was deleted after %v (%t), not %v", name, got, ok, want[name])
				}
			}
			t.Errorf("deleted were %v", d.times)
		}
	})
}

// TestEnds: a failure needs no log, and nothing is deleted after the end.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		denied := condition("Denied", 24*time.Hour)
		var all fixed
		for _, name := range []string{"a", "b"} {
			r := &request{ObjectMeta: metav1.ObjectMeta{Name: name}}
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{denied}
			all = append(all, r)
		}
		in := csrcleaner.Sources{Requests: informer.New[*request](all, informer.Options{})}
		controllerstest.Go(t, in.Requests)
		synctest.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		d := &deleted{times: map[string]time.Duration{}, fail: errors.New("down"), each: func(client.Target) { stop() }}
		if _, err := csrcleaner.New(in, d, csrcleaner.Options{}).Reconcile(ctx, controllers.Key{}); err != nil || len(d.times) != 1 {
			t.Errorf("deleted were %v, %v", d.times, err)
		}
	})
}

// A request that was denied yesterday is deleted.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	r := &request{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{condition("Denied", 24*time.Hour)}
	in := csrcleaner.Sources{Requests: informer.New[*request](fixed{r}, informer.Options{})}
	d := &deleted{times: map[string]time.Duration{}, each: func(at client.Target) {
		fmt.Println("delete", at.Name)
		stop()
	}}
	loop := controllers.NewLoop(csrcleaner.New(in, d, csrcleaner.Options{}), controllers.Options{})
	fmt.Println(lifecycle.Group(in.Requests, loop).Run(ctx))
	// Output:
	// delete r
	// <nil>
}
