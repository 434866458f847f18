package reconciler_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-logr/logr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/reconciler"
	"github.com/keelson-dev/keelson/controllers/replicaset"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

func options() controller.Options {
	yes := true
	return controller.Options{SkipNameValidation: &yes, Logger: logr.Discard()}
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	m.Run()
}

func TestReplicaSetUnderControllerRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sets := appsv1.SchemeGroupVersion.WithResource("replicasets")
		api := controllerstest.Start(t, controllerstest.Options{})
		in := replicaset.Sources{
			ReplicaSets: informer.New(controllerstest.Source[*appsv1.ReplicaSet](api, sets), informer.Options{}),
			Pods:        informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
		}
		var recorder controllerstest.Recorder
		c, err := reconciler.Unmanaged(replicaset.New(in, api, &recorder, replicaset.Options{}), options())
		if err != nil {
			t.Fatal(err)
		}
		node := &controllerstest.Node{API: api, Start: time.Second}
		controllerstest.Go(t, in.ReplicaSets, in.Pods, node, lifecycle.Func(c.Start))

		three := int32(3)
		set := controllerstest.Add(t, api, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns"}, Spec: appsv1.ReplicaSetSpec{Replicas: &three, MinReadySeconds: 30},
		})
		available := func() int32 {
			synctest.Wait()
			got, err := client.As[*appsv1.ReplicaSet](api.Get(t.Context(), client.Target{Resource: sets, Namespace: set.Namespace, Name: set.Name}))
			if err != nil {
				t.Fatal(err)
			}
			return got.Status.AvailableReplicas
		}
		time.Sleep(20 * time.Second)
		if got := available(); got != 0 {
			t.Errorf("%d available after 20 s", got)
		}
		time.Sleep(20 * time.Second)
		if got := available(); got != 3 {
			t.Errorf("%d available after 40 s", got)
		}
	})
}

// scripted is a controller that fails at first and then asks to be called again.
type scripted struct {
	start time.Time
	mu    sync.Mutex
	calls []time.Duration
}

func (s *scripted) Name() string { return "scripted" }

func (s *scripted) Watch(q controllers.Queue) []controllers.Synced {
	q.AddAfter(controllers.Key{Namespace: "ns", Name: "a"}, time.Second)
	q.Add(controllers.Key{Name: "b"})
	return nil
}

func (s *scripted) Reconcile(_ context.Context, k controllers.Key) (controllers.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.Name == "b" {
		return controllers.Result{}, nil
	}
	s.calls = append(s.calls, time.Since(s.start).Round(time.Second))
	switch len(s.calls) {
	case 1:
		return controllers.Result{}, errors.New("not yet")
	case 2, 3:
		return controllers.Result{RequeueAfter: time.Minute}, nil
	default:
		return controllers.Result{}, nil
	}
}

func TestRequeueAfterAndErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{start: time.Now()}
		c, err := reconciler.Unmanaged(s, options())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := c.Start(ctx); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{time.Second, time.Second, time.Minute + time.Second, 2*time.Minute + time.Second}
		if !slices.Equal(s.calls, want) {
			t.Errorf("calls %v, want %v", s.calls, want)
		}
	})
	failed := errors.New("failed")
	r := reconciler.New(failing{failed})
	result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "a"}})
	if !errors.Is(err, failed) || result != (reconcile.Result{}) {
		t.Errorf("%v, %v", result, err)
	}
	src := reconciler.Source(failing{failed})
	if err := src.Start(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := src.WaitForSync(t.Context()); !errors.Is(err, failed) {
		t.Errorf("WaitForSync: %v", err)
	}
	if err := src.Start(t.Context(), nil); !errors.Is(err, controllers.ErrStarted) {
		t.Errorf("second Start: %v", err)
	}
}

func TestUnderManager(t *testing.T) {
	m, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Metrics: server.Options{BindAddress: "0"}, Logger: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	if err := m.Add(reconciler.Runnable(lifecycle.Func(func(context.Context) error { close(ran); return nil }))); err != nil {
		t.Fatal(err)
	}
	once := &stopping{after: ran, stop: cancel}
	if err := reconciler.Add(m, once, options()); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(ctx); err != nil {
		t.Error(err)
	}
	if once.key.String() != "ns/a" {
		t.Errorf("key %v", once.key)
	}
}

// TestRefused: a controller that cannot be made, or that the manager does not take, is an error of its caller.
func TestRefused(t *testing.T) {
	if _, err := reconciler.Unmanaged(nameless{}, options()); err == nil || !strings.Contains(err.Error(), "must specify Name") {
		t.Errorf("without a name: %v", err)
	}
	m, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Metrics: server.Options{BindAddress: "0"}, Logger: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := reconciler.Add(m, nameless{}, options()); err == nil || !strings.Contains(err.Error(), "must specify Name") {
		t.Errorf("without a name: %v", err)
	}
	full := errors.New("full")
	if err := reconciler.Add(refusing{m, full}, failing{}, options()); !errors.Is(err, full) {
		t.Errorf("by the manager: %v", err)
	}
}

// nameless is a controller that does not say its name.
type nameless struct{ failing }

func (nameless) Name() string { return "" }

// refusing is a manager that takes nothing more.
type refusing struct {
	manager.Manager
	err error
}

func (r refusing) Add(manager.Runnable) error { return r.err }

// TestManagersOptions: what the caller's options leave open is as the manager's say.
func TestManagersOptions(t *testing.T) {
	yes := true
	m, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Metrics: server.Options{BindAddress: "0"}, Logger: logr.Discard(), Controller: config.Controller{SkipNameValidation: &yes},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := reconciler.Add(m, failing{}, controller.Options{}); err != nil {
			t.Errorf("two of one name: %v", err)
		}
	}
}

// stopping is a controller that stops everything at its first key, after something else ran.
type stopping struct {
	after <-chan struct{}
	stop  context.CancelFunc
	key   controllers.Key
}

func (s *stopping) Name() string { return "stopping" }

func (s *stopping) Watch(q controllers.Queue) []controllers.Synced {
	q.Add(controllers.Key{Namespace: "ns", Name: "a"})
	return nil
}

func (s *stopping) Reconcile(_ context.Context, k controllers.Key) (controllers.Result, error) {
	<-s.after
	s.key = k
	s.stop()
	return controllers.Result{}, nil
}

// failing is a controller whose caches and reconciliations fail.
type failing struct{ err error }

func (f failing) Name() string                                 { return "failing" }
func (f failing) WaitSynced(context.Context) error             { return f.err }
func (f failing) Watch(controllers.Queue) []controllers.Synced { return []controllers.Synced{f} }
func (f failing) Reconcile(context.Context, controllers.Key) (controllers.Result, error) {
	return controllers.Result{RequeueAfter: time.Second}, f.err
}
