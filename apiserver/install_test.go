package apiserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// serveRegistry starts a server of the core kinds, and returns its registry and how to reach it.
func serveRegistry(t *testing.T, paths map[string]http.Handler) (*registry.Registry, *rest.Config) {
	t.Helper()
	reg, err := registry.New(memory.New(memory.Options{}), core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	transport := apiserver.NewTransport(apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New(), Paths: paths}), nil)
	t.Cleanup(func() {
		transport.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return reg, &rest.Config{Host: "http://keelson", Transport: transport, QPS: -1}
}

// A kind that is installed while the server runs is served, discovered and listed among the paths at once, and gone at once
// when it is removed.
func TestKindsComeAndGo(t *testing.T) {
	mine := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"kind":"mine"}`)) })
	reg, config := serveRegistry(t, map[string]http.Handler{"/apis/coordination.k8s.io": mine})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		t.Helper()
		body, err := client.RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return string(body)
	}
	index := func() []string {
		t.Helper()
		return decode[metav1.RootPaths](t, []byte(read("/"))).Paths
	}
	leases := client.CoordinationV1().Leases("default")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	discovered := func() bool {
		t.Helper()
		_, all, err := client.Discovery().ServerGroupsAndResources()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(all, func(l *metav1.APIResourceList) bool { return l.GroupVersion == "coordination.k8s.io/v1" })
	}
	absent := func(when string) {
		t.Helper()
		if _, err := leases.Create(t.Context(), lease.DeepCopy(), metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: a create: %v", when, err)
		}
		if discovered() || slices.Contains(index(), "/apis/coordination.k8s.io/v1") {
			t.Errorf("%s: it is discovered", when)
		}
		if got := read("/apis/coordination.k8s.io"); got != `{"kind":"mine"}` {
			t.Errorf("%s: the group's document: %s", when, got)
		}
	}
	absent("before")
	maps, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Stop()

	res, err := reg.Install(t.Context(), coordination.Kinds()[0])
	if err != nil || res.Plural != "leases" {
		t.Fatalf("%v, %v", res, err)
	}
	if !discovered() || !slices.Contains(index(), "/apis/coordination.k8s.io/v1") {
		t.Error("it is not discovered")
	}
	if got := decode[metav1.APIGroup](t, []byte(read("/apis/coordination.k8s.io"))); got.Name != "coordination.k8s.io" {
		t.Errorf("the group's document: %v", got)
	}
	events, err := leases.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	if _, err := leases.Create(t.Context(), lease.DeepCopy(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := <-events.ResultChan(); e.Type != watch.Added {
		t.Errorf("event: %v", e)
	}
	applied, err := leases.Patch(t.Context(), "a", types.ApplyPatchType, []byte(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a","labels":{"l":"v"}}}`), metav1.PatchOptions{FieldManager: "m"})
	if err != nil || applied.Labels["l"] != "v" || len(applied.ManagedFields) != 1 {
		t.Errorf("applied: %v, %v", applied, err)
	}
	<-events.ResultChan()

	if !reg.Remove(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}) {
		t.Error("it was not served")
	}
	if e, more := <-events.ResultChan(); more {
		t.Errorf("the watch of a kind that is gone ended with %v", e)
	}
	absent("after")
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := <-maps.ResultChan(); e.Type != watch.Added {
		t.Errorf("a watch of another kind: %v", e)
	}
}

func decode[T any](t *testing.T, body []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v
}
