package informer_test

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

func configMap(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string]string{"k": value},
	}
}

// run runs the informer until the test's bubble ends.
func run(t *testing.T, i interface{ Run(context.Context) error }) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// recorder records what a handler receives.
type recorder struct{ seen []string }

func (r *recorder) handler() informer.Handler[*corev1.ConfigMap] {
	return informer.Handler[*corev1.ConfigMap]{
		Added: func(o *corev1.ConfigMap) { r.seen = append(r.seen, "added "+o.Name+" "+o.Data["k"]) },
		Updated: func(old, o *corev1.ConfigMap) {
			r.seen = append(r.seen, "updated "+o.Name+" "+old.Data["k"]+">"+o.Data["k"])
		},
		Deleted: func(o *corev1.ConfigMap) { r.seen = append(r.seen, "deleted "+o.Name+" "+o.Data["k"]) },
	}
}

func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if len(r.seen) != len(want) {
		t.Fatalf("told %q, want %q", r.seen, want)
	}
	for n := range want {
		if r.seen[n] != want[n] {
			t.Fatalf("told %q, want %q", r.seen, want)
		}
	}
	r.seen = nil
}

func TestHandlersFollowTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[*corev1.ConfigMap]()
		store.Put(configMap("b", "two", "1"))
		store.Put(configMap("a", "one", "1"))
		i := informer.New(store, informer.Options{DetectMutations: func(err error) { t.Error(err) }})
		var early, late recorder
		i.AddHandler(early.handler())
		run(t, i)
		if err := i.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		early.expect(t, "added one 1", "added two 1")
		store.Put(configMap("a", "one", "2"))
		early.expect(t, "updated one 1>2")
		i.AddHandler(late.handler())
		if err := i.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		late.expect(t, "added one 2", "added two 1")
		store.Delete("b", "two")
		early.expect(t, "deleted two 1")
		late.expect(t, "deleted two 1")
	})
}
