package tokencleaner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/tokencleaner"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

var secrets = corev1.SchemeGroupVersion.WithResource("secrets")

// bench is a running controller with an API, in a bubble.
type bench struct {
	*testing.T
	api *controllerstest.API
}

func inBubble(t *testing.T, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{})}
		in := tokencleaner.Sources{Secrets: informer.New(controllerstest.Source[*corev1.Secret](b.api, secrets),
			informer.Options{DetectMutations: func(err error) { t.Error(err) }})}
		controllerstest.Go(t, in.Secrets, controllers.NewLoop(tokencleaner.New(in, b.api), controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

// token returns the secret of a token with an expiration.
func token(name, expiration string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Type: "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{"expiration": []byte(expiration)},
	}
}

// in returns a time from now on.
func in(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339) }

func (b *bench) at(name string) client.Target {
	return client.Target{Resource: secrets, Namespace: "kube-system", Name: name}
}

func (b *bench) wants(name string, there bool) {
	b.Helper()
	_, err := b.api.Others.Get(b.Context(), b.at(name))
	if there != (err == nil) || err != nil && !apierrors.IsNotFound(err) {
		b.Errorf("%s: %v", name, err)
	}
}

func TestExpiration(t *testing.T) {
	inBubble(t, func(b *bench) {
		elsewhere, other := token("x", in(-time.Hour)), token("other", in(-time.Hour))
		elsewhere.Namespace, other.Type = "default", "Opaque"
		for _, s := range []*corev1.Secret{
			token("expired", in(-time.Hour)), token("now", in(0)), token("odd", "soon"), token("endless", ""), token("hour", in(time.Hour)),
			token("longer", in(time.Hour)), token("soon", in(100*time.Hour)), elsewhere, other,
		} {
			controllerstest.Add(b, b.api, s)
		}
		synctest.Wait()
		for name, there := range map[string]bool{"expired": false, "now": false, "odd": false, "endless": true, "hour": true, "longer": true, "other": true} {
			b.wants(name, there)
		}
		if _, err := b.api.Others.Update(b.Context(), b.at("longer"), token("longer", in(2*time.Hour)), metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		b.wants("hour", true)
		time.Sleep(time.Second)
		synctest.Wait()
		b.wants("hour", false)
		b.wants("longer", true)
		time.Sleep(time.Hour)
		synctest.Wait()
		b.wants("longer", false)
		if _, err := b.api.Others.Update(b.Context(), b.at("soon"), token("soon", in(time.Hour)), metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		b.wants("soon", false)
		time.Sleep(20 * time.Hour)
		synctest.Wait()
		b.wants("endless", true)
		b.wants("other", true)
		if _, err := b.api.Others.Get(b.Context(), client.Target{Resource: secrets, Namespace: "default", Name: "x"}); err != nil {
			b.Error(err)
		}
	})
}

// TestFailures: a failed request to the server is made again, unless the secret is another by now.
func TestFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		there bool
	}{
		"down":    {errors.New("down"), false},
		"another": {apierrors.NewConflict(secrets.GroupResource(), "x", errors.New("uid")), true},
		"gone":    {apierrors.NewNotFound(secrets.GroupResource(), "x"), true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.api.Inject(faults.Fault{Verb: faults.Delete, Err: tt.err})
				controllerstest.Add(b, b.api, token("x", in(time.Minute)))
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				b.wants("x", tt.there)
			})
		})
	}
}

// TestUID: a newer secret of the same name is not deleted.
func TestUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := token("x", in(-time.Minute))
		s.UID = "1"
		other := token("other", in(-time.Minute)) // another kind of secret by now
		other.UID, other.Type = "2", "Opaque"
		in := tokencleaner.Sources{Secrets: informer.New[*corev1.Secret](fixed{other, s}, informer.Options{})}
		controllerstest.Go(t, in.Secrets)
		synctest.Wait()
		asked := deleter{}
		c := tokencleaner.New(in, asked)
		if _, err := c.Reconcile(t.Context(), controllers.KeyOf(s)); err != nil || asked["x"] != "1" {
			t.Errorf("deletes %v, %v", asked, err)
		}
		for _, name := range []string{"gone", "other"} {
			result, err := c.Reconcile(t.Context(), controllers.Key{Namespace: "kube-system", Name: name})
			if result != (controllers.Result{}) || err != nil || len(asked) != 1 {
				t.Errorf("%s: %+v, %v; deletes %v", name, result, err, asked)
			}
		}
	})
}

// deleter keeps the UIDs that are to be deleted.
type deleter map[string]string

func (d deleter) Delete(_ context.Context, at client.Target, o metav1.DeleteOptions) error {
	if o.Preconditions != nil && o.Preconditions.UID != nil {
		d[at.Name] = string(*o.Preconditions.UID)
	}
	return nil
}

// fixed is a source whose objects do not change.
type fixed []*corev1.Secret

func (f fixed) List(context.Context) ([]*corev1.Secret, string, error) { return f, "1", nil }

func (fixed) Watch(ctx context.Context, _ string) (informer.Stream[*corev1.Secret], error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A token that expired yesterday is deleted.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api, err := controllerstest.New(controllerstest.Options{
		Objects: []informer.Object{token("bootstrap-token-abcdef", in(-24*time.Hour))},
		Before: func(r faults.Request) error {
			fmt.Println(r)
			stop()
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := tokencleaner.Sources{Secrets: informer.New(controllerstest.Source[*corev1.Secret](api, secrets), informer.Options{})}
	loop := controllers.NewLoop(tokencleaner.New(in, api), controllers.Options{})
	fmt.Println(lifecycle.Group(api, in.Secrets, loop).Run(ctx))
	// Output:
	// delete secrets kube-system/bootstrap-token-abcdef
	// <nil>
}
