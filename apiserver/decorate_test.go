package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/direct"
	"github.com/keelson-dev/keelson/storage/memory"
)

// counted are ResourceQuotas whose status shows how many entries they have; it is never stored.
func counted(decorated *atomic.Int64) registry.Kind {
	parts := registry.Parts[*corev1.ResourceQuota]{
		Spec:   registry.PartOf(func(q *corev1.ResourceQuota) *corev1.ResourceQuotaSpec { return &q.Spec }),
		Status: registry.PartOf(func(q *corev1.ResourceQuota) *corev1.ResourceQuotaStatus { return &q.Status }),
	}
	return registry.Definition[*corev1.ResourceQuota]{
		Names:        registry.Names{Kind: "ResourceQuota", Plural: "resourcequotas", Singular: "resourcequota"},
		GroupVersion: corev1.SchemeGroupVersion, Namespaced: true,
		New:     func() *corev1.ResourceQuota { return &corev1.ResourceQuota{} },
		NewList: func() runtime.Object { return &corev1.ResourceQuotaList{} },
		Columns: registry.Columns[*corev1.ResourceQuota]{
			Definitions: []metav1.TableColumnDefinition{registry.NameColumn(), registry.TextColumn("Entries", "")},
			Cells:       func(q *corev1.ResourceQuota, _ time.Time) []any { return []any{q.Name, entries(q)} },
		},
		Rules: registry.Rules[*corev1.ResourceQuota]{
			Reading: registry.Reading[*corev1.ResourceQuota]{Decorate: func(q *corev1.ResourceQuota) {
				decorated.Add(1)
				q.Status.Used = corev1.ResourceList{"entries": *resource.NewQuantity(int64(len(q.Spec.Hard)), resource.DecimalSI)}
			}},
			PrepareCreate: parts.PrepareCreate, PrepareUpdate: parts.PrepareUpdate,
		},
		Sub: registry.Subresources[*corev1.ResourceQuota]{Views: map[string]registry.View[*corev1.ResourceQuota]{
			"status": {PrepareUpdate: parts.PrepareStatus},
		}},
	}.Kind()
}

// entries is how many entries a ResourceQuota shows.
func entries(q *corev1.ResourceQuota) string {
	if n, ok := q.Status.Used["entries"]; ok {
		return n.String()
	}
	return ""
}

func quota(name string, keys ...corev1.ResourceName) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for _, key := range keys {
		q.Spec.Hard[key] = resource.MustParse("1")
	}
	return q
}

// serveKind serves one kind.
func serveKind(t *testing.T, kind registry.Kind) (*registry.Registry, *rest.Config) {
	t.Helper()
	reg, err := registry.New(memory.New(memory.Options{}), []registry.Kind{kind}, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	transport := apiserver.NewTransport(apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()}), nil)
	t.Cleanup(func() {
		transport.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return reg, &rest.Config{Host: "http://keelson", Transport: transport, QPS: -1}
}

// TestDecorated: every answer shows the decoration, and nothing stored has it.
func TestDecorated(t *testing.T) {
	reg, config := serveKind(t, counted(new(atomic.Int64)))
	res, _ := reg.Resource(schema.GroupResource{Resource: "resourcequotas"})
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(media, func(t *testing.T) {
			ctx, name := t.Context(), strings.NewReplacer("/", "-", ".", "-").Replace(media)
			config := rest.CopyConfig(config)
			config.ContentType = media
			set, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			quotas := set.CoreV1().ResourceQuotas("ns")
			check := func(what, want string, q *corev1.ResourceQuota, err error) {
				t.Helper()
				if err != nil || entries(q) != want {
					t.Errorf("%s: %v, %v, want %s", what, q, err, want)
				}
				if item, err := res.Get(ctx, "ns", name, ""); err == nil && entries(item.Object.(*corev1.ResourceQuota)) != "" {
					t.Errorf("%s: the decoration is in the cache", what)
				}
			}
			w, err := quotas.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			created, err := quotas.Create(ctx, quota(name, "a"), metav1.CreateOptions{})
			check("create", "1", created, err)
			got, err := quotas.Create(ctx, quota("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			check("dry run", "0", got, err)
			got, err = quotas.Get(ctx, name, metav1.GetOptions{})
			check("get", "1", got, err)
			list, err := quotas.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
			check("list", "1", &list.Items[0], err)

			same, err := quotas.Update(ctx, got, metav1.UpdateOptions{}) // it sends the decoration back
			check("update without effect", "1", same, err)
			if same.ResourceVersion != created.ResourceVersion {
				t.Error("the decoration was taken for a change")
			}
			got.Spec.Hard["b"] = resource.MustParse("1")
			got, err = quotas.Update(ctx, got, metav1.UpdateOptions{})
			check("update", "2", got, err)
			got, err = quotas.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"hard":{"c":"3"}}}`), metav1.PatchOptions{})
			check("patch", "3", got, err)
			_, err = quotas.Patch(ctx, name, types.JSONPatchType, []byte(`[{"op":"test","path":"/status/used/entries","value":"3"}]`), metav1.PatchOptions{})
			if err == nil {
				t.Error("a patch sees the decoration")
			}
			if err := quotas.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			for _, want := range []string{"ADDED 1", "MODIFIED 2", "MODIFIED 3", "DELETED 3"} {
				e, ok := <-w.ResultChan()
				if !ok || e.Type == watch.Error || fmt.Sprint(e.Type, " ", entries(e.Object.(*corev1.ResourceQuota))) != want {
					t.Errorf("watch: %v, want %s", e, want)
				}
			}
		})
	}
}

// TestDecoratedForms: tables, YAML, clients in the process and informers see the decoration, too, which is made once for a
// state.
func TestDecoratedForms(t *testing.T) {
	var decorated atomic.Int64
	reg, config := serveKind(t, counted(&decorated))
	ctx := t.Context()
	inside := direct.New(reg, direct.Options{})
	target := client.Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}, Namespace: "ns"}
	made, err := inside.Create(ctx, target, quota("m", "a"), metav1.CreateOptions{})
	if err != nil || entries(made.(*corev1.ResourceQuota)) != "1" {
		t.Errorf("direct: %v, %v", made, err)
	}
	for accept, want := range map[string]string{asTable: `"cells":["m","1"]`, "application/yaml": `entries: "1"`} {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/namespaces/ns/resourcequotas", nil)
		r.Header.Set("Accept", accept)
		answer, err := config.Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v, want %s", accept, body, err, want)
		}
	}
	source, err := registry.Source[*corev1.ResourceQuota](reg, schema.GroupResource{Resource: "resourcequotas"}, registry.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	items, version, err := source.List(ctx)
	if err != nil || len(items) != 1 || entries(items[0]) != "1" {
		t.Errorf("informer: %v, %v", items, err)
	}
	if n := decorated.Load(); n != 1 {
		t.Errorf("decorated %d times", n)
	}
	stream, err := source.Watch(ctx, version)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	q := items[0].DeepCopy()
	q.Spec.Hard["b"] = resource.MustParse("1")
	target.Name = "m"
	if _, err := inside.Update(ctx, target, q, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	events, err := stream.Next(ctx)
	if err != nil || events[0].Type != informer.Modified || entries(events[0].Object) != "2" {
		t.Errorf("informer: %v, %v", events, err)
	}
}

// TestDecoratedBatches: versions whose objects are converted together show the decoration, too.
func TestDecoratedBatches(t *testing.T) {
	kind := counted(new(atomic.Int64))
	copied := func(_ context.Context, obj registry.Object) (registry.Object, error) {
		return obj.DeepCopyObject().(registry.Object), nil
	}
	kind.Also = []registry.Version{{
		Names: kind.Names, GroupVersion: schema.GroupVersion{Group: "quota.example.com", Version: "v2"},
		New:        func() registry.Object { return &corev1.ResourceQuota{} },
		NewList:    func() runtime.Object { return &corev1.ResourceQuotaList{} },
		FromStored: copied, ToStored: copied,
		AllFromStored: func(ctx context.Context, objs []registry.Object) ([]registry.Object, error) {
			all := make([]registry.Object, len(objs))
			for i, obj := range objs {
				all[i], _ = copied(ctx, obj)
			}
			return all, nil
		},
	}}
	reg, config := serveKind(t, kind)
	inside := direct.New(reg, direct.Options{})
	target := client.Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}, Namespace: "ns"}
	for _, name := range []string{"m", "n"} {
		if _, err := inside.Create(t.Context(), target, quota(name, "a"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]int{"/m": 1, "": 2} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/apis/quota.example.com/v2/namespaces/ns/resourcequotas"+path, nil)
		answer, err := config.Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || strings.Count(string(body), `"used":{"entries":"1"}`) != want {
			t.Errorf("%s: %s, %v, want %d entries", path, body, err, want)
		}
	}
}
