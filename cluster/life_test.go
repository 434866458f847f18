package cluster_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestNoGoroutineLeft: no goroutine is left after a run with nodes, pods and a watch that was not stopped, nor after a
// start that was canceled or failed.
func TestNoGoroutineLeft(t *testing.T) {
	before := goleak.IgnoreCurrent()
	for range 3 {
		full(t)
	}
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		c, err := cluster.Start(ctx, cluster.Options{Nodes: cluster.Nodes{Count: 3}})
		if err == nil {
			err = c.Close()
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up after %v: %v", after, err)
		}
		if c == nil && err == nil {
			t.Error("neither cluster nor error")
		}
		cancel()
	}
	broken := errors.New("disk on fire")
	_, err := cluster.Start(t.Context(), cluster.Options{Store: failing{memory.New(memory.Options{}), broken}})
	if !errors.Is(err, broken) {
		t.Errorf("a store that fails half way: %v", err)
	}
	if _, err := cluster.Start(t.Context(), cluster.Options{Nodes: cluster.Nodes{Count: -1}}); !errors.Is(err, cluster.ErrOptions) {
		t.Errorf("bad options: %v", err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// full runs a cluster with everything in it.
func full(t *testing.T) {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Nodes: cluster.Nodes{Count: 2}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cs := t.Context(), clientset(t, c.Config())
	watching, err := cs.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cs.AppsV1().Deployments("default").Create(ctx, deploymentOf("web", 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "rollout", running(ctx, cs, "web", 3))
	n, err := c.Node("node-1")
	if err != nil {
		t.Fatal(err)
	}
	n.Stop() // not restarted
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for range watching.ResultChan() {
	} // ends by itself
}

// failing is a store on which creates fail after a while.
type failing struct {
	storage.Store
	err error
}

func (f failing) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if strings.Contains(key, "clusterrolebindings") {
		return 0, f.err
	}
	return f.Store.Create(ctx, key, value)
}

// TestParallel: twenty clusters side by side do not affect each other.
func TestParallel(t *testing.T) {
	var all sync.WaitGroup
	began := time.Now()
	for i := range 20 {
		all.Go(func() {
			c, err := cluster.Start(t.Context(), cluster.Options{Nodes: cluster.Nodes{Count: 1}})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}()
			cs := clientset(t, c.Config())
			name := fmt.Sprintf("only-%d", i)
			if _, err := cs.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			if _, err := cs.AppsV1().Deployments("default").Create(t.Context(), deploymentOf(name, 1), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			eventually(t, "rollout", running(t.Context(), cs, name, 1))
			pods, err := cs.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(pods.Items) != 1 {
				t.Errorf("cluster %d has %d pods: %v", i, len(pods.Items), err)
			}
			eventually(t, "only its own", left(t.Context(), cs, name))
		})
	}
	all.Wait()
	t.Logf("20 clusters with a pod each in %v", time.Since(began))
}

// TestAfterClose: requests after Close fail at once.
func TestAfterClose(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{Nodes: cluster.Nodes{Count: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	ctx, pods := t.Context(), clientset(t, c.Config()).CoreV1().Pods("default")
	if _, err := pods.Create(ctx, testPod("late"), metav1.CreateOptions{}); !errors.Is(err, cluster.ErrClosed) {
		t.Errorf("a create: %v", err)
	}
	if _, err := pods.Watch(ctx, metav1.ListOptions{}); !errors.Is(err, cluster.ErrClosed) {
		t.Errorf("a watch: %v", err)
	}
	if _, err := clientset(t, c.Anonymous()).CoreV1().Pods("default").Get(ctx, "late", metav1.GetOptions{}); !errors.Is(err, cluster.ErrClosed) {
		t.Errorf("somebody anonymous: %v", err)
	}
	if err := c.WaitReady(ctx); !errors.Is(err, cluster.ErrClosed) {
		t.Errorf("WaitReady: %v", err)
	}
	if err := c.Run(ctx); !errors.Is(err, cluster.ErrStarted) {
		t.Errorf("Run: %v", err)
	}
}

// TestRun: Run works on the caller's goroutine, and only once.
func TestRun(t *testing.T) {
	c, err := cluster.New(cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	if err := c.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); !errors.Is(err, cluster.ErrStarted) {
		t.Errorf("a second Run: %v", err)
	}
	if _, err := clientset(t, c.Config()).CoreV1().Pods("default").Create(t.Context(), testPod("web"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close after Run: %v", err)
	}
}

// TestCloseEndsRun: Close also ends a cluster that never ran, and frees its directory.
func TestCloseEndsRun(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		c, err := cluster.New(cluster.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	c, err := cluster.New(cluster.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Run(t.Context()) }()
	if err := c.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestContextEnds: the context of Start ends the cluster like Close.
func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, err := cluster.Start(ctx, cluster.Options{Nodes: cluster.Nodes{Count: 1}})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if _, err := clientset(t, c.Config()).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !errors.Is(err, cluster.ErrClosed) {
			t.Errorf("a list: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWaits: waits end with their contexts.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := cluster.New(cluster.Options{Nodes: cluster.Nodes{Count: 2}})
		if err != nil {
			t.Fatal(err)
		}
		wait := func(f func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return f(ctx)
		}
		if err := wait(c.WaitReady); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ready before it runs: %v", err)
		}
		if err := wait(c.WaitNodes); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nodes before it runs: %v", err)
		}
		if err := wait(func(ctx context.Context) error {
			_, err := clientset(t, c.Config()).CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			return err
		}); err == nil {
			t.Error("a list before it runs")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}

		if c, err = cluster.New(cluster.Options{Nodes: cluster.Nodes{Count: 2}}); err != nil {
			t.Fatal(err)
		}
		n, err := c.Node("node-1")
		if err != nil {
			t.Fatal(err)
		}
		n.Stop()
		done := make(chan error, 1)
		go func() { done <- c.Run(t.Context()) }()
		if err := wait(c.WaitReady); err != nil {
			t.Errorf("ready: %v", err)
		}
		if err := wait(c.WaitNodes); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 of 2 nodes are not ready, node-1 first") {
			t.Errorf("a node that is silent: %v", err)
		}
		n.Start()
		if err := wait(c.WaitNodes); err != nil {
			t.Errorf("after it began to speak: %v", err)
		}
		if err := errors.Join(c.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
}

// TestHandler serves the cluster to the outside, over TLS.
func TestHandler(t *testing.T) {
	tokens := token.New(token.Static(map[string]*authn.Identity{"s3cret": cluster.Admin()}))
	c := start(t, cluster.Options{Authenticators: []cluster.AuthenticatorStage{cluster.Ready[authn.Authenticator]("tokens", tokens)}, Nodes: cluster.Nodes{Count: 1}})
	server := httptest.NewTLSServer(c.Handler())
	defer server.Close()
	outside := clientset(t, &rest.Config{
		Host: server.URL, BearerToken: "s3cret", TLSClientConfig: rest.TLSClientConfig{CAData: certificate(server)},
	})
	watching, err := outside.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := outside.CoreV1().Pods("default").Create(t.Context(), testPod("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for e := range watching.ResultChan() {
		if pod, ok := e.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning {
			break
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for range watching.ResultChan() {
	} // ends with the cluster
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := outside.CoreV1().Pods("default").Create(ctx, testPod("late"), metav1.CreateOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("after the cluster ended: %v", err)
	}
}

// TestControllerRuntime: controller-runtime's manager and clients work with the unmodified config.
func TestControllerRuntime(t *testing.T) {
	inBubble(t, cluster.Options{Nodes: cluster.Nodes{Count: 1}}, func(t *testing.T, w *world) {
		manager, err := ctrl.NewManager(w.c.Config(), ctrl.Options{
			Scheme: w.c.Scheme(), Metrics: metrics.Options{BindAddress: "0"},
			Controller:     config.Controller{SkipNameValidation: ptr.To(true)},
			LeaderElection: true, LeaderElectionID: "labeller", LeaderElectionNamespace: "default",
			LeaderElectionReleaseOnCancel: true,
		})
		w.check(err)
		cl := manager.GetClient()
		w.check(ctrl.NewControllerManagedBy(manager).For(&corev1.Pod{}).Complete(reconcile(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			var pod corev1.Pod
			if err := cl.Get(ctx, r.NamespacedName, &pod); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			if pod.Status.Phase != corev1.PodRunning || pod.Labels["seen"] != "" {
				return ctrl.Result{}, nil
			}
			patch := client.MergeFrom(pod.DeepCopy())
			pod.Labels = map[string]string{"seen": "running"}
			return ctrl.Result{}, cl.Patch(ctx, &pod, patch)
		})))
		ctx, stop := context.WithCancel(w.ctx)
		done := make(chan error, 1)
		go func() { done <- manager.Start(ctx) }()
		_, err = w.pods.Create(w.ctx, testPod("web"), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Minute)
		pod, err := w.pods.Get(w.ctx, "web", metav1.GetOptions{})
		w.check(err)
		if pod.Labels["seen"] != "running" {
			t.Errorf("labels are %v", pod.Labels)
		}
		if lease, err := w.cs.CoordinationV1().Leases("default").Get(w.ctx, "labeller", metav1.GetOptions{}); err != nil || *lease.Spec.HolderIdentity == "" {
			t.Errorf("the lease: %v", err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type reconcile func(context.Context, ctrl.Request) (ctrl.Result, error)

func (f reconcile) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	return f(ctx, r)
}

// certificate is the PEM of a test server's authority.
func certificate(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
