package serviceaccount_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/serviceaccount"
	"github.com/keelson-dev/keelson/informer"
)

const create = "create serviceaccounts a/default"

var (
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
	accounts   = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
)

// bench is a running controller with its API, in a bubble.
type bench struct {
	*testing.T
	api *controllerstest.API
}

func inBubble(t *testing.T, o serviceaccount.Options, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t, controllerstest.Start(t, controllerstest.Options{})}
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := serviceaccount.Sources{
			Namespaces:      informer.New(controllerstest.Source[*corev1.Namespace](b.api, namespaces), detect),
			ServiceAccounts: informer.New(controllerstest.Source[*corev1.ServiceAccount](b.api, accounts), detect),
		}
		loop := controllers.NewLoop(serviceaccount.New(in, b.api, o), controllers.Options{})
		controllerstest.Go(t, in.Namespaces, in.ServiceAccounts, loop)
		synctest.Wait()
		test(b)
	})
}

// namespace creates the namespace a.
func (b *bench) namespace() {
	b.Helper()
	controllerstest.Add(b, b.api, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	synctest.Wait()
}

// label changes the namespace a.
func (b *bench) label() {
	b.Helper()
	label := client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"labels":{"x":"y"}}}`)}
	if _, err := b.api.Others.Patch(b.Context(), client.Target{Resource: namespaces, Name: "a"}, label, metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// delete is what somebody else deletes.
func (b *bench) delete(t client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), t, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func account(name string) client.Target {
	return client.Target{Resource: accounts, Namespace: "a", Name: name}
}

// wantWrites compares what the controller wrote since the last call.
func (b *bench) wantWrites(want ...string) {
	b.Helper()
	var got []string
	for _, r := range b.api.Writes() {
		got = append(got, r.String())
	}
	b.api.Reset()
	if !slices.Equal(got, want) {
		b.Errorf("wrote %q, want %q", got, want)
	}
}

func TestAccounts(t *testing.T) {
	inBubble(t, serviceaccount.Options{}, func(b *bench) {
		b.namespace()
		b.wantWrites(create)
		b.delete(account("default"))
		b.wantWrites(create)
		b.label()
		b.wantWrites() // there already
		b.delete(client.Target{Resource: namespaces, Name: "a"})
		b.delete(account("default"))
		time.Sleep(time.Hour)
		b.wantWrites() // the namespace is being deleted
	})
}

// TestNoNamespace: an account that goes with its namespace is not missed.
func TestNoNamespace(t *testing.T) {
	inBubble(t, serviceaccount.Options{}, func(b *bench) {
		controllerstest.Add(b, b.api, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "default"}})
		b.delete(account("default"))
		b.wantWrites()
	})
}

func TestNames(t *testing.T) {
	inBubble(t, serviceaccount.Options{Names: []string{"one", "two"}}, func(b *bench) {
		b.namespace()
		b.wantWrites("create serviceaccounts a/one", "create serviceaccounts a/two")
		b.delete(account("one"))
		b.wantWrites("create serviceaccounts a/one")
	})
}

// TestFailures: what cannot be created is tried again, unless it need not be; then it is when the namespace changes.
func TestFailures(t *testing.T) {
	terminating := apierrors.NewForbidden(accounts.GroupResource(), "default", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tt := range map[string]struct {
		err                error
		created, onChanges []string
	}{
		"down":        {errors.New("down"), []string{create, create}, nil},
		"there":       {apierrors.NewAlreadyExists(accounts.GroupResource(), "default"), []string{create}, []string{create}},
		"terminating": {terminating, []string{create}, []string{create}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, serviceaccount.Options{}, func(b *bench) {
				b.api.Inject(faults.Fault{Err: tt.err})
				b.namespace()
				time.Sleep(5 * time.Millisecond)
				synctest.Wait()
				b.wantWrites(tt.created...)
				b.label()
				b.wantWrites(tt.onChanges...)
			})
		})
	}
}
