package controllerstest_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/clienttest"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/informertest"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func at(name string) client.Target {
	return client.Target{Resource: controllerstest.Pods(), Namespace: "default", Name: name}
}

func TestClient(t *testing.T) {
	clienttest.TestClient(t, func(t *testing.T) client.Client { return controllerstest.Start(t, controllerstest.Options{}) })
}

func TestSource(t *testing.T) {
	informertest.TestSource(t, func(t *testing.T) informertest.Backend {
		api := controllerstest.Start(t, controllerstest.Options{})
		maps := corev1.SchemeGroupVersion.WithResource("configmaps")
		return informertest.Backend{
			Source: controllerstest.Source[*corev1.ConfigMap](api, maps),
			Put: func(m *corev1.ConfigMap) {
				target := client.Target{Resource: maps, Namespace: m.Namespace, Name: m.Name}
				_, err := api.Update(t.Context(), target, m, metav1.UpdateOptions{})
				if apierrors.IsNotFound(err) {
					_, err = api.Create(t.Context(), target, m, metav1.CreateOptions{})
				}
				if err != nil {
					t.Error(err)
				}
			},
			Delete: func(namespace, name string) {
				if err := api.Delete(t.Context(), client.Target{Resource: maps, Namespace: namespace, Name: name}, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			},
		}
	})
}

// TestObjects: objects are there from the start, with their status, past the record, and what is invented counts up.
func TestObjects(t *testing.T) {
	running := pod("a")
	running.Status.Phase = corev1.PodRunning
	api := controllerstest.Start(t, controllerstest.Options{Objects: []informer.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, running,
	}})
	p, err := client.As[*corev1.Pod](api.Get(t.Context(), at("a")))
	if err != nil || p.Status.Phase != corev1.PodRunning || p.UID != "uid-00002" {
		t.Errorf("%+v, %v", p, err)
	}
	if len(api.Writes()) != 0 || running.UID != "" {
		t.Errorf("writes %v, object %v", api.Writes(), running)
	}
	generated := pod("")
	generated.GenerateName = "web-"
	if p, err := client.As[*corev1.Pod](api.Create(t.Context(), at(""), generated, metav1.CreateOptions{})); err != nil || p.Name != "web-00001" {
		t.Errorf("%v, %v", p, err)
	}
	if w := api.Writes(); len(w) != 1 || w[0].String() != "create pods default/web-" {
		t.Errorf("writes %v", w)
	}
	for want, obj := range map[string]informer.Object{"no kind is made of it": &corev1.RangeAllocation{}, "already exists": pod("a")} {
		if err := api.Add(t.Context(), obj); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("add %T: %v", obj, err)
		}
	}
}

// TestRun: outside of tests it runs as anything else does, and tells which of its objects is not valid.
func TestRun(t *testing.T) {
	for want, o := range map[string]controllerstest.Options{
		"<nil>":   {Objects: []informer.Object{pod("a")}},
		"invalid": {Objects: []informer.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}},
	} {
		api, err := controllerstest.New(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil {
				if _, err := api.Others.Get(ctx, at("a")); err == nil {
					stop()
				}
			}
		}()
		if err := api.Run(ctx); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("ended with %v, want %s", err, want)
		}
		stop()
	}
}

// TestKinds: a kind of one's own is served as any other; one twice is an error.
func TestKinds(t *testing.T) {
	gadgets := registry.Definition[*corev1.PodTemplate]{
		Names:        registry.Names{Kind: "Gadget", Plural: "gadgets"},
		GroupVersion: schema.GroupVersion{Group: "example.com", Version: "v1"}, Namespaced: true,
		New:     func() *corev1.PodTemplate { return &corev1.PodTemplate{} },
		NewList: func() runtime.Object { return &corev1.PodTemplateList{} },
	}.Kind()
	api := controllerstest.Start(t, controllerstest.Options{Kinds: []registry.Kind{gadgets}})
	target := client.Target{Resource: gadgets.GroupVersion.WithResource("gadgets"), Namespace: "default"}
	if _, err := api.Create(t.Context(), target, &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "g"}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := controllerstest.New(controllerstest.Options{Kinds: []registry.Kind{gadgets, gadgets}}); err == nil {
		t.Error("one kind twice is taken")
	}
	if _, _, err := controllerstest.Source[*corev1.Pod](api, target.Resource).List(t.Context()); err == nil {
		t.Error("a source of objects of another type lists")
	}
}

// TestServices: services have no addresses, and one family; but those of a cluster that has more, if a test asks for it.
func TestServices(t *testing.T) {
	dual := corev1.IPFamilyPolicyPreferDualStack
	for want, o := range map[string]controllerstest.Options{
		"0 [IPv4]": {},
		"2 [IPv4 IPv6]": {
			Services: core.Services{Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/30"), netip.MustParsePrefix("fd00::/127")}},
			Objects: []informer.Object{&networkingv1.ServiceCIDR{
				ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/30", "fd00::/127"}},
			}},
		},
	} {
		s := controllerstest.Add(t, controllerstest.Start(t, o), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, IPFamilyPolicy: &dual},
		})
		if got := fmt.Sprint(len(s.Spec.ClusterIPs), s.Spec.IPFamilies); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestFaults: what befalls the client under test befalls nobody else.
func TestFaults(t *testing.T) {
	down := errors.New("down")
	seen := 0
	api := controllerstest.Start(t, controllerstest.Options{Before: func(faults.Request) error { seen++; return nil }})
	api.Inject(faults.Fault{Verb: faults.Create, Resource: "pods", Err: down, Times: -1})
	if _, err := api.Create(t.Context(), at(""), pod("a"), metav1.CreateOptions{}); !errors.Is(err, down) {
		t.Error(err)
	}
	if _, err := api.Others.Create(t.Context(), at(""), pod("a"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if seen != 1 {
		t.Errorf("%d requests were seen", seen)
	}
}

// TestGo: what is run ends with the test, which fails for it if it failed.
func TestGo(t *testing.T) {
	var ended atomic.Int32
	t.Run("fine", func(t *testing.T) {
		for range 2 {
			controllerstest.Go(t, lifecycle.Func(func(ctx context.Context) error {
				<-ctx.Done()
				ended.Add(1)
				return nil
			}))
		}
	})
	if ended.Load() != 2 {
		t.Errorf("%d of 2 had ended with the test", ended.Load())
	}
	failing := &failures{TB: t}
	t.Run("failing", func(t *testing.T) {
		failing.TB = t
		controllerstest.Go(failing, lifecycle.Func(func(context.Context) error { return errors.New("down") }))
	})
	if len(failing.all) != 1 || !strings.Contains(failing.all[0], "down") {
		t.Errorf("failures %q", failing.all)
	}
}

// failures is a test that keeps its failures for itself.
type failures struct {
	testing.TB
	all []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.all = append(f.all, fmt.Sprintf(format, args...))
}

// TestShared: a controller that changes what a Source handed out is found out by its informer.
func TestShared(t *testing.T) {
	var found []string
	t.Run("careless", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api := controllerstest.Start(t, controllerstest.Options{Objects: []informer.Object{pod("a")}})
			pods := informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{
				DetectMutations: func(err error) { found = append(found, err.Error()) },
			})
			controllerstest.Go(t, pods)
			synctest.Wait()
			p, _ := pods.Get("default", "a")
			p.Labels = map[string]string{"a": "b"}
		})
	})
	if len(found) != 1 || !strings.Contains(found[0], "default/a") {
		t.Errorf("found %q", found)
	}
}

// TestNode: pods are placed, become ready and end, each in its time; broken ones never become ready.
func TestNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{Objects: []informer.Object{pod("early")}})
		node := &controllerstest.Node{API: api, Name: "n", Start: time.Second, Stop: 2 * time.Second, Broken: func(p *corev1.Pod) bool { return p.Name == "broken" }}
		controllerstest.Go(t, node)
		for _, name := range []string{"late", "broken"} {
			if err := api.Add(t.Context(), pod(name)); err != nil {
				t.Fatal(err)
			}
		}
		state := func(name string) string {
			synctest.Wait()
			p, err := client.As[*corev1.Pod](api.Get(t.Context(), at(name)))
			if err != nil {
				return "gone"
			}
			ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
			return fmt.Sprint(p.Spec.NodeName, " ", p.Status.Phase, " ", ready)
		}
		if got := state("early") + ", " + state("late"); got != "n Pending false, n Pending false" {
			t.Error(got)
		}
		time.Sleep(time.Second)
		if got := state("early") + ", " + state("late") + ", " + state("broken"); got != "n Running true, n Running true, n Pending false" {
			t.Error(got)
		}
		if err := api.Delete(t.Context(), at("late"), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if got := state("late"); got == "gone" {
			t.Error("a pod ended before its time")
		}
		time.Sleep(time.Second)
		if got := state("late"); got != "gone" {
			t.Error(got)
		}
		if len(api.Writes()) != 1 {
			t.Errorf("writes %v", api.Writes())
		}
	})
}

func TestRecorder(t *testing.T) {
	var r controllerstest.Recorder
	r.Record(events.Event{Type: "Normal", Reason: "Made", Message: "one"})
	r.Record(events.Event{Type: "Warning", Reason: "Failed", Message: "two"})
	if all := r.Events(); len(all) != 2 || all[1].Reason != "Failed" {
		t.Errorf("%v", all)
	}
	if got := strings.Join(r.Take(), ", "); got != "Normal Made one, Warning Failed two" || len(r.Take()) != 0 {
		t.Error(got)
	}
}

// BenchmarkStart is what a test pays for an API and its first object.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		api, err := controllerstest.New(controllerstest.Options{})
		if err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- api.Run(ctx) }()
		if err := api.Add(ctx, pod("a")); err != nil {
			b.Fatal(err)
		}
		stop()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

// TestComplete: objects that say next to nothing become valid, those that say something keep it, and the ones passed in
// are not changed.
func TestComplete(t *testing.T) {
	api := controllerstest.Start(t, controllerstest.Options{})
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	of := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	empty := &corev1.Pod{ObjectMeta: of("a")}
	for _, obj := range []informer.Object{
		controllerstest.Complete(empty), controllerstest.Complete(&appsv1.ReplicaSet{ObjectMeta: of("a")}),
		controllerstest.Complete(&appsv1.ReplicaSet{ObjectMeta: of("b"), Spec: appsv1.ReplicaSetSpec{Selector: selector}}),
		controllerstest.Complete(&appsv1.DaemonSet{ObjectMeta: of("a")}), controllerstest.Complete(&corev1.ReplicationController{ObjectMeta: of("a")}),
		controllerstest.Complete(&corev1.ReplicationController{
			ObjectMeta: of("b"), Spec: corev1.ReplicationControllerSpec{Selector: selector.MatchLabels},
		}),
		controllerstest.Complete(&appsv1.Deployment{ObjectMeta: of("a")}), controllerstest.Complete(&corev1.Service{ObjectMeta: of("a")}),
		controllerstest.Complete(&corev1.Service{ObjectMeta: of("b"), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}),
		controllerstest.Complete(&discoveryv1.EndpointSlice{ObjectMeta: of("a")}), controllerstest.Complete(&corev1.ConfigMap{ObjectMeta: of("a")}),
	} {
		if err := api.Add(t.Context(), obj); err != nil {
			t.Error(err)
		}
	}
	if len(empty.Spec.Containers) != 0 {
		t.Error("the object passed in was changed")
	}
	full := pod("b")
	if kept := controllerstest.Complete(full); kept.Spec.Containers[0].Name != "c" || len(kept.Spec.Containers) != 1 {
		t.Errorf("%+v", kept.Spec.Containers)
	}
}
