package initializers_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission/initializers"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// journal is a log.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// complaints returns what was written about rejected objects since the last call.
func (j *journal) complaints() (lines []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, "cannot delete rejected objects") {
			lines = append(lines, line)
		}
	}
	j.text.Reset()
	return lines
}

// reluctant is a store that does not delete secrets for a while.
type reluctant struct {
	storage.Store

	mu  sync.Mutex
	err error
	// waits: deletions of secrets return when their context ends.
	waits bool
}

func (r *reluctant) set(err error, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.waits = err, waits
}

func (r *reluctant) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	r.mu.Lock()
	err, waits := r.err, r.waits
	r.mu.Unlock()
	switch {
	case !strings.Contains(key, "/secrets/"):
	case waits:
		<-ctx.Done()
		return 0, ctx.Err()
	case err != nil:
		return 0, err
	}
	return r.Store.Delete(ctx, key, expected)
}

// onReluctant starts a server on such a store, with initializers for secrets, and a log.
func onReluctant(t *testing.T) (*world, *reluctant, *journal) {
	t.Helper()
	inner := memory.New(memory.Options{})
	t.Cleanup(func() { _ = inner.Close() })
	store, log := &reluctant{Store: inner}, &journal{}
	w := start(t, cluster.Options{Store: store, Logger: slog.New(slog.NewTextHandler(log, nil))})
	w.configure(usual)
	return w, store, log
}

// TestSweep: what was rejected and not deleted goes within a minute, when the store can delete it.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, store, log := onReluctant(t)
		ctx, leave := context.WithCancel(t.Context())
		for _, name := range []string{"one", "three", "two"} {
			waits(t, w.secret(ctx, name))
		}
		leave()
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		reject(t, store, "/registry/secrets/default/one")
		reject(t, store, "/registry/secrets/default/two")
		synctest.Wait()
		there := func(name string, want bool) {
			t.Helper()
			if _, err := w.pending(name); err != nil && !apierrors.IsNotFound(err) || (err == nil) != want {
				t.Errorf("%s: %v, want it there: %t", name, err, want)
			}
		}
		there("one", true)
		if lines := log.complaints(); len(lines) != 0 {
			t.Errorf("complains at first: %q", lines)
		}
		store.set(errors.New("disk on fire"), false)
		time.Sleep(time.Minute)
		synctest.Wait()
		there("one", true)
		there("two", true)
		if lines := log.complaints(); len(lines) != 1 || !strings.Contains(lines[0], "resource=secrets") || !strings.Contains(lines[0], "disk on fire") {
			t.Errorf("complains %q", lines)
		}
		store.set(nil, false)
		time.Sleep(time.Minute)
		synctest.Wait()
		there("one", false)
		there("two", false)
		there("three", true) // which waits for its initializers
		if lines := log.complaints(); len(lines) != 0 {
			t.Errorf("complains in the end: %q", lines)
		}
	})
}

// TestSweepEnds: a server that ends while it deletes rejected objects does not complain of that.
func TestSweepEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, store, log := onReluctant(t)
		ctx, leave := context.WithCancel(t.Context())
		waits(t, w.secret(ctx, "one"))
		leave()
		synctest.Wait()
		reject(t, store, "/registry/secrets/default/one")
		store.set(nil, true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if lines := log.complaints(); len(lines) != 0 {
			t.Errorf("complains %q", lines)
		}
	})
}

// TestNeverInitialized: configurations of admission and what is not stored are created at once, whatever is configured.
func TestNeverInitialized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, cluster.Options{})
		const all = `{"kind":"InitializerConfiguration","apiVersion":"admissionregistration.k8s.io/v1alpha1","metadata":{"name":"NAME"},"initializers":[
			{"name":"first.example.com","rules":[{"apiGroups":["*"],"apiVersions":["*"],"resources":["*"]}]}]}`
		w.configure(strings.Replace(all, "NAME", "usual", 1))
		w.configure(strings.Replace(all, "NAME", "another", 1))
		review, err := w.client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}},
		}, metav1.CreateOptions{})
		if err != nil || !review.Status.Allowed || review.Annotations != nil {
			t.Errorf("a review: %v, %v", review, err)
		}
		created := make(chan error, 1)
		go func() {
			_, err := w.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
			created <- err
		}()
		waits(t, created)
		w.configureNothing()
		waits(t, created) // the other one is still there
	})
}

// TestOnlyPodsAreFresh: an initializer may change what is fixed in a pod afterwards, but not in a secret.
func TestOnlyPodsAreFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, cluster.Options{})
		w.configure(usual)
		created := make(chan error, 1)
		go func() {
			s := secretOf("fixed")
			s.Type = corev1.SecretTypeOpaque
			_, err := w.client.CoreV1().Secrets("default").Create(t.Context(), s, metav1.CreateOptions{})
			created <- err
		}()
		waits(t, created)
		s, err := w.pending("fixed")
		if err != nil {
			t.Fatal(err)
		}
		s.Type = "example.com/other"
		if err := initializers.Done(s, first); err != nil {
			t.Fatal(err)
		}
		if _, err := w.client.CoreV1().Secrets("default").Update(t.Context(), s, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("its type is changed: %v", err)
		}
	})
}
