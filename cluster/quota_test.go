package cluster_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
	"github.com/keelson-dev/keelson/storage/memory"
)

func quotaOf(name string, hard map[corev1.ResourceName]string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for name, quantity := range hard {
		q.Spec.Hard[name] = resource.MustParse(quantity)
	}
	return q
}

// used waits until a quota's status has the wanted usage.
func used(t *testing.T, cs kubernetes.Interface, name string, want map[corev1.ResourceName]string) {
	t.Helper()
	eventually(t, "usage of "+name, func() error {
		q, err := cs.CoreV1().ResourceQuotas("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for name, quantity := range want {
			if got, ok := q.Status.Used[name]; !ok || got.Cmp(resource.MustParse(quantity)) != 0 {
				return fmt.Errorf("%s: %s used, want %s; all: %v", name, got.String(), quantity, q.Status)
			}
		}
		return nil
	})
}

// createQuota creates a quota at the first server and waits until it has its status and all servers know it: admission
// from a cache does not enforce a quota that it has not seen.
func createQuota(t *testing.T, servers []kubernetes.Interface, q *corev1.ResourceQuota) {
	t.Helper()
	if _, err := servers[0].CoreV1().ResourceQuotas("default").Create(t.Context(), q, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, cs := range servers {
		eventually(t, "status of the quota", func() error {
			now, err := cs.CoreV1().ResourceQuotas("default").Get(t.Context(), q.Name, metav1.GetOptions{})
			if err == nil && len(now.Status.Used) != len(q.Spec.Hard) {
				err = fmt.Errorf("status is %v", now.Status)
			}
			return err
		})
	}
}

// two starts two servers on one store, with the controllers in the first, and nothing that would
// touch pods.
func two(t *testing.T, stores [2]storage.Store, o cluster.Options) []kubernetes.Interface {
	t.Helper()
	first, second := o, o
	first.Store, second.Store = stores[0], stores[1]
	first.Disable = []string{"scheduler"}
	second.Disable = slices.DeleteFunc(component.Names(cluster.DefaultComponents()), func(name string) bool { return name == "serviceaccount-controller" })
	return []kubernetes.Interface{clientset(t, start(t, first).Config()), clientset(t, start(t, second).Config())}
}

// shared runs a test with two servers on shared state: with the same store in memory, and with separate stores on one
// etcd.
func shared(t *testing.T, test func(t *testing.T, stores [2]storage.Store)) {
	closed := func(t *testing.T, c io.Closer) {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("memory", func(t *testing.T) {
		store := memory.New(memory.Options{})
		closed(t, store)
		test(t, [2]storage.Store{store, store})
	})
	t.Run("etcd", func(t *testing.T) {
		members := etcdtest.Start(t, etcdtest.Options{})
		var stores [2]storage.Store
		for i := range stores {
			store, err := etcd.Open(t.Context(), etcd.Config{Endpoints: members.Endpoints()}, etcd.Options{Trim: registry.Root, Prefix: "/registry/"})
			if err != nil {
				t.Fatal(err)
			}
			closed(t, store)
			stores[i] = store
		}
		test(t, stores)
	})
}

func bare(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
}

// race runs writers on all servers, and returns how many succeeded. All others must fail with an error that allowed
// accepts.
func race(t *testing.T, servers []kubernetes.Interface, writers, each int, do func(cs kubernetes.Interface, writer, i int) error, allowed func(error) error) int {
	t.Helper()
	var done sync.WaitGroup
	var succeeded atomic.Int64
	for w := range writers {
		done.Go(func() {
			for i := range each {
				if err := do(servers[w%len(servers)], w, i); err == nil {
					succeeded.Add(1)
				} else if wrong := allowed(err); wrong != nil {
					t.Error(wrong)
				}
			}
		})
	}
	done.Wait()
	return int(succeeded.Load())
}

func exceeded(err error) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: ") {
		return nil
	}
	return err
}

// TestQuotaTwoServers: however many writers there are, exactly as much is admitted as the quota allows.
func TestQuotaTwoServers(t *testing.T) { shared(t, quotaTwoServers) }

func quotaTwoServers(t *testing.T, stores [2]storage.Store) {
	ctx, cs := t.Context(), two(t, stores, cluster.Options{})
	createQuota(t, cs, quotaOf("q", map[corev1.ResourceName]string{"pods": "100", "count/pods": "100"}))
	create := func(prefix string) func(kubernetes.Interface, int, int) error {
		return func(cs kubernetes.Interface, w, i int) error {
			_, err := cs.CoreV1().Pods("default").Create(ctx, bare(fmt.Sprintf("%s-%d-%d", prefix, w, i)), metav1.CreateOptions{})
			return err
		}
	}
	if n := race(t, cs, 64, 4, create("a"), exceeded); n != 100 {
		t.Fatalf("%d pods were created, want 100", n)
	}
	used(t, cs[1], "q", map[corev1.ResourceName]string{"pods": "100"})
	pods, err := cs[1].CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) != 100 {
		t.Fatalf("%d pods, error %v", len(pods.Items), err)
	}
	for _, p := range pods.Items[:30] {
		if err := cs[1].CoreV1().Pods("default").Delete(ctx, p.Name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
	}
	used(t, cs[0], "q", map[corev1.ResourceName]string{"pods": "70"})
	used(t, cs[1], "q", map[corev1.ResourceName]string{"pods": "70"})
	if n := race(t, cs, 64, 2, create("b"), exceeded); n != 30 {
		t.Fatalf("%d pods were created in place of 30 that were deleted", n)
	}
}

// TestQuotaHammer: writers create and delete on both servers while the controller releases quota. There are never more
// pods than the quota allows, and in the end its usage is correct.
func TestQuotaHammer(t *testing.T) { shared(t, quotaHammer) }

func quotaHammer(t *testing.T, stores [2]storage.Store) {
	ctx, cs := t.Context(), two(t, stores, cluster.Options{})
	createQuota(t, cs, quotaOf("q", map[corev1.ResourceName]string{"pods": "20"}))
	stop, cancel := context.WithCancel(ctx)
	var watched sync.WaitGroup
	watched.Go(func() {
		for stop.Err() == nil {
			l, err := cs[1].CoreV1().Pods("default").List(stop, metav1.ListOptions{})
			if err == nil && len(l.Items) > 20 {
				t.Errorf("%d pods at once", len(l.Items))
				return
			}
			if err != nil && stop.Err() == nil {
				t.Error(err)
			}
		}
	})
	var created atomic.Int64
	// How much is released meanwhile depends on speed: they continue until something was.
	for round := 0; round == 0 || created.Load() < 20 && round < 50; round++ {
		race(t, cs, 16, 40, func(cs kubernetes.Interface, w, i int) error {
			name := fmt.Sprintf("p-%d-%d-%d", round, w, i)
			_, err := cs.CoreV1().Pods("default").Create(ctx, bare(name), metav1.CreateOptions{})
			if err != nil || round == 0 && i%8 == 0 && w == 0 {
				return err
			}
			created.Add(1)
			return cs.CoreV1().Pods("default").Delete(ctx, name, *metav1.NewDeleteOptions(0))
		}, exceeded)
	}
	cancel()
	watched.Wait()
	l, err := cs[0].CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d were created and deleted, %d are left", created.Load(), len(l.Items))
	used(t, cs[1], "q", map[corev1.ResourceName]string{"pods": fmt.Sprint(len(l.Items))})
	if created.Load() < 20 {
		t.Error("quota was hardly given back")
	}
}

// TestQuotaDeployment: a Deployment scales as far as the quota allows, reports why not further, and continues when the
// quota grows.
func TestQuotaDeployment(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		quotas := w.cs.CoreV1().ResourceQuotas("default")
		_, err := quotas.Create(w.ctx, quotaOf("small", map[corev1.ResourceName]string{"pods": "3", "count/replicasets.apps": "5"}), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Second)
		w.create(deploymentOf("web", 5))
		time.Sleep(10 * time.Second)
		w.running("web", 3, "")
		w.usage("small", "count/replicasets.apps=1 pods=3")
		d := w.deployment("web")
		if got := deploymentCondition(d, appsv1.DeploymentReplicaFailure); got != "True FailedCreate" {
			t.Errorf("ReplicaFailure is %q", got)
		}
		l, err := w.cs.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
		w.check(err)
		refused := func(e corev1.Event) bool {
			return strings.HasPrefix(e.Message, `Error creating: pods "web-`) &&
				strings.HasSuffix(e.Message, `" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3`)
		}
		if !slices.ContainsFunc(l.Items, refused) {
			t.Errorf("no event tells of the quota: %v", l.Items)
		}
		q, err := quotas.Get(w.ctx, "small", metav1.GetOptions{})
		w.check(err)
		q.Spec.Hard["pods"] = resource.MustParse("4")
		_, err = quotas.Update(w.ctx, q, metav1.UpdateOptions{})
		w.check(err)
		time.Sleep(20 * time.Minute)
		w.running("web", 4, "")
		w.usage("small", "count/replicasets.apps=1 pods=4")
		w.change("web", func(d *appsv1.Deployment) { *d.Spec.Replicas = 1 })
		time.Sleep(time.Minute)
		w.usage("small", "count/replicasets.apps=1 pods=1")
	})
}

// usage fails unless a quota's status has the wanted usage.
func (w *world) usage(quota, want string) {
	w.t.Helper()
	q, err := w.cs.CoreV1().ResourceQuotas("default").Get(w.ctx, quota, metav1.GetOptions{})
	w.check(err)
	var parts []string
	for name, quantity := range q.Status.Used {
		parts = append(parts, fmt.Sprintf("%s=%s", name, quantity.String()))
	}
	slices.Sort(parts)
	if got := strings.Join(parts, " "); got != want {
		w.t.Errorf("quota %s: %s used, want %s", quota, got, want)
	}
}

// withoutResourceQuota: a quota without counted usage limits nothing.
func withoutResourceQuota(w *world) {
	_, err := w.cs.CoreV1().ResourceQuotas("default").Create(w.ctx, quotaOf("none", map[corev1.ResourceName]string{"pods": "0"}), metav1.CreateOptions{})
	w.check(err)
	time.Sleep(10 * time.Second)
	w.usage("none", "")
	_, err = w.pods.Create(w.ctx, bare("one"), metav1.CreateOptions{})
	w.check(err)
}

// TestQuotaFailedWrites: charges for objects that could not be written are released once no write can be pending, but
// not those of pending writes.
func TestQuotaFailedWrites(t *testing.T) {
	inBubble(t, nodes(0), func(t *testing.T, w *world) {
		_, err := w.cs.CoreV1().ResourceQuotas("default").Create(w.ctx, quotaOf("q", map[corev1.ResourceName]string{"configmaps": "10"}), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Second)
		w.usage("q", "configmaps=1") // the root certificate's
		configMaps := w.cs.CoreV1().ConfigMaps("default")
		named := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		_, err = configMaps.Create(w.ctx, named, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		w.check(err)
		w.usage("q", "configmaps=1")
		for i := range 3 {
			if _, err := configMaps.Create(w.ctx, named, metav1.CreateOptions{}); i > 0 && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
		w.check(configMaps.Delete(w.ctx, "a", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		w.usage("q", "configmaps=3")
		time.Sleep(2 * time.Minute)
		w.usage("q", "configmaps=1")
	})
}

// BenchmarkQuota creates pods in a namespace without and with a quota.
func BenchmarkQuota(b *testing.B) {
	for _, writers := range []int{1, 64} {
		for _, limited := range []bool{false, true} {
			b.Run(fmt.Sprintf("writers=%d/quota=%v", writers, limited), func(b *testing.B) {
				c := start(b, cluster.Options{Disable: []string{"scheduler"}})
				cs := clientset(b, c.Config())
				if limited {
					if _, err := cs.CoreV1().ResourceQuotas("default").Create(b.Context(), quotaOf("q", map[corev1.ResourceName]string{"pods": "1000000"}), metav1.CreateOptions{}); err != nil {
						b.Fatal(err)
					}
					eventually(b, "status", func() error {
						q, err := cs.CoreV1().ResourceQuotas("default").Get(b.Context(), "q", metav1.GetOptions{})
						if err == nil && len(q.Status.Used) == 0 {
							err = apierrors.NewServiceUnavailable("not yet")
						}
						return err
					})
				}
				var next atomic.Int64
				var done sync.WaitGroup
				b.ResetTimer()
				for range writers {
					done.Go(func() {
						for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
							if _, err := cs.CoreV1().Pods("default").Create(b.Context(), bare(fmt.Sprintf("p-%d", i)), metav1.CreateOptions{}); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				done.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
			})
		}
	}
}
