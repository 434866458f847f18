package podcertificaterequestcleaner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/podcertificaterequestcleaner"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

type request = certificatesv1.PodCertificateRequest

// fixed is a source whose objects do not change.
type fixed []*request

func (f fixed) List(context.Context) ([]*request, string, error) { return f, "1", nil }

func (fixed) Watch(ctx context.Context, _ string) (informer.Stream[*request], error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// deleter answers deletions.
type deleter func(client.Target, metav1.DeleteOptions) error

func (d deleter) Delete(_ context.Context, at client.Target, o metav1.DeleteOptions) error {
	return d(at, o)
}

func made(name string, age time.Duration) *request {
	return &request{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID("uid of " + name), CreationTimestamp: metav1.NewTime(time.Now().Add(-age)),
	}}
}

// TestAges: requests are deleted in the first round after they have come of age, whatever became of them.
func TestAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, times := time.Now(), map[string]time.Duration{}
		var log trial.Text
		denied := made("denied", 0)
		denied.Status.Conditions = []metav1.Condition{{Type: "Denied", Status: "True"}}
		in := podcertificaterequestcleaner.Sources{Requests: informer.New[*request](fixed{
			denied, made("new", 0), made("not old", 15*time.Minute-1), made("old", 15*time.Minute), made("gone", time.Hour),
		}, informer.Options{})}
		c := podcertificaterequestcleaner.New(in, deleter(func(at client.Target, o metav1.DeleteOptions) error {
			if o.Preconditions == nil || o.Preconditions.UID == nil || string(*o.Preconditions.UID) != "uid of "+at.Name || at.Namespace != "ns" {
				t.Errorf("deletes %+v with %+v", at, o)
			}
			if _, known := times[at.Name]; !known {
				times[at.Name] = time.Since(began)
			}
			if at.Name == "gone" {
				return apierrors.NewNotFound(at.Resource.GroupResource(), at.Name)
			}
			return errors.New("down")
		}), podcertificaterequestcleaner.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		controllerstest.Go(t, in.Requests, controllers.NewLoop(c, controllers.Options{}))
		synctest.Wait()
		if got := strings.Count(log.String(), "deleting a request failed"); got != 1 {
			t.Errorf("%d failures in the first round", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		want := map[string]time.Duration{"old": 0, "gone": 0, "not old": 5 * time.Minute, "new": 15 * time.Minute, "denied": 15 * time.Minute}
		if !maps.Equal(times, want) {
			t.Errorf("deleted after %v, want %v", times, want)
		}
	})
}

// TestEnds: a failure needs no log, and nothing is deleted after the end; what succeeds is not logged.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := podcertificaterequestcleaner.Sources{Requests: informer.New[*request](fixed{made("a", time.Hour), made("b", time.Hour)}, informer.Options{})}
		controllerstest.Go(t, in.Requests)
		synctest.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var log trial.Text
		for _, test := range []struct {
			fails   error
			o       podcertificaterequestcleaner.Options
			stop    func()
			deletes int
		}{
			{nil, podcertificaterequestcleaner.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func() {}, 2},
			{errors.New("down"), podcertificaterequestcleaner.Options{}, stop, 1},
		} {
			deletes := 0
			c := podcertificaterequestcleaner.New(in, deleter(func(client.Target, metav1.DeleteOptions) error {
				deletes++
				test.stop()
				return test.fails
			}), test.o)
			if _, err := c.Reconcile(ctx, controllers.Key{}); err != nil || deletes != test.deletes || log.String() != "" {
				t.Errorf("%d deletions, %v; logged %q", deletes, err, log.String())
			}
		}
	})
}

// A request that was made yesterday is deleted.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	in := podcertificaterequestcleaner.Sources{Requests: informer.New[*request](fixed{made("r", 24*time.Hour)}, informer.Options{})}
	c := podcertificaterequestcleaner.New(in, deleter(func(at client.Target, _ metav1.DeleteOptions) error {
		fmt.Println("delete", at.Namespace+"/"+at.Name)
		stop()
		return nil
	}), podcertificaterequestcleaner.Options{})
	fmt.Println(lifecycle.Group(in.Requests, controllers.NewLoop(c, controllers.Options{})).Run(ctx))
	// Output:
	// delete ns/r
	// <nil>
}
