package serviceaccount_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/serviceaccount"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

var (
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
	accounts   = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
)

// bench is a running controller with a server, in a bubble.
type bench struct {
	*testing.T
	api *fakeapi.Server
}

func inBubble(t *testing.T, o serviceaccount.Options, before func(fakeapi.Action) error, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t, fakeapi.New(fakeapi.Options{Before: before})}
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := serviceaccount.Sources{
			Namespaces:      informer.New(fakeapi.Source[*corev1.Namespace](b.api, namespaces), detect),
			ServiceAccounts: informer.New(fakeapi.Source[*corev1.ServiceAccount](b.api, accounts), detect),
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			loop := controllers.NewLoop(serviceaccount.New(in, b.api, o), controllers.Options{})
			done <- lifecycle.Group(in.Namespaces, in.ServiceAccounts, loop).Run(ctx)
		}()
		synctest.Wait()
		test(t, b)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// namespace creates one, or changes its phase.
func (b *bench) namespace(name string, phase corev1.NamespacePhase) {
	b.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: phase}}
	_, err := b.api.Create(b.Context(), client.Target{Resource: namespaces}, ns, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = b.api.Update(b.Context(), client.Target{Resource: namespaces, Name: name, Subresource: "status"}, ns, metav1.UpdateOptions{})
	}
	if err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) delete(namespace, name string) {
	b.Helper()
	if err := b.api.Delete(b.Context(), client.Target{Resource: accounts, Namespace: namespace, Name: name}, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// wantActions holds the writes on accounts since the last call to what is wanted.
func (b *bench) wantActions(want ...string) {
	b.Helper()
	var got []string
	for _, a := range b.api.Actions() {
		if a.Target.Resource == accounts {
			got = append(got, a.String())
		}
	}
	b.api.Reset()
	if !slices.Equal(got, want) {
		b.Errorf("did %q, want %q", got, want)
	}
}

func TestAccounts(t *testing.T) {
	inBubble(t, serviceaccount.Options{}, nil, func(t *testing.T, b *bench) {
		b.namespace("a", corev1.NamespaceActive)
		b.wantActions("create serviceaccounts a/default")
		b.delete("a", "default")
		b.wantActions("delete serviceaccounts a/default", "create serviceaccounts a/default")
		b.namespace("b", "")
		b.wantActions()
		b.namespace("b", corev1.NamespaceActive)
		b.wantActions("create serviceaccounts b/default")
		b.namespace("b", corev1.NamespaceTerminating)
		b.delete("b", "default")
		b.wantActions("delete serviceaccounts b/default")
		time.Sleep(time.Hour)
		b.wantActions()
	})
}

// TestNoNamespace: an account that goes with its namespace is not missed.
func TestNoNamespace(t *testing.T) {
	inBubble(t, serviceaccount.Options{}, nil, func(t *testing.T, b *bench) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if _, err := b.api.Create(b.Context(), client.Target{Resource: accounts, Namespace: "gone"}, account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.delete("gone", "default")
		b.wantActions("create serviceaccounts gone/default", "delete serviceaccounts gone/default")
	})
}

func TestNames(t *testing.T) {
	inBubble(t, serviceaccount.Options{Names: []string{"one", "two"}}, nil, func(t *testing.T, b *bench) {
		b.namespace("a", corev1.NamespaceActive)
		b.wantActions("create serviceaccounts a/one", "create serviceaccounts a/two")
		b.delete("a", "one")
		b.wantActions("delete serviceaccounts a/one", "create serviceaccounts a/one")
	})
}

// TestFailures: what cannot be created is tried again, unless it need not be.
func TestFailures(t *testing.T) {
	terminating := apierrors.NewForbidden(accounts.GroupResource(), "default", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tt := range map[string]struct {
		err  error
		want int // creations
	}{
		"down":        {errors.New("down"), 2},
		"there":       {apierrors.NewAlreadyExists(accounts.GroupResource(), "default"), 1},
		"terminating": {terminating, 1},
	} {
		t.Run(name, func(t *testing.T) {
			fail := tt.err
			inBubble(t, serviceaccount.Options{}, func(a fakeapi.Action) error {
				if a.Target.Resource != accounts {
					return nil
				}
				err := fail
				fail = nil
				return err
			}, func(t *testing.T, b *bench) {
				b.namespace("a", corev1.NamespaceActive)
				time.Sleep(5 * time.Millisecond)
				synctest.Wait()
				if got := len(b.api.Actions()) - 1; got != tt.want {
					t.Errorf("%d creations, want %d", got, tt.want)
				}
			})
		})
	}
}
