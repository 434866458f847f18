package customresources_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn/inprocess"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/customresources"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestLife takes a definition and its objects through their lives, over HTTP.
func TestLife(t *testing.T) {
	c := start(t, cluster.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.Handler().ServeHTTP(w, r.WithContext(inprocess.Attach(r.Context(), cluster.Admin())))
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, QPS: -1}
	a, ctx := clients(t, config), t.Context()
	a.define(backup())
	a.established("backups.example.com")
	crd := a.definition("backups.example.com")
	want := []string{"NamesAccepted True NoConflicts: no conflicts found", "Established True InitialNamesAccepted: the initial names have been accepted"}
	if got := conditions(crd); !slices.Equal(got, want) {
		t.Errorf("conditions:\n%s", strings.Join(got, "\n"))
	}
	if s := crd.Status; s.AcceptedNames.Kind != "Backup" || !slices.Equal(s.StoredVersions, []string{"v1"}) {
		t.Errorf("status: %+v", s)
	}
	in := a.backups("default")
	w, err := in.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	made := a.create(in, object("a"))
	if got := fmt.Sprint(made.Object["spec"]); got != "map[copies:1 target:disk]" {
		t.Errorf("created with %s", got)
	}
	if _, err := in.Create(ctx, object("b", func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, int64(10), "spec", "copies")
	}), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("ten copies: %v", err)
	}
	patched, err := in.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"copies":2}}`), metav1.PatchOptions{})
	if err != nil || fmt.Sprint(patched.Object["spec"]) != "map[copies:2 target:disk]" {
		t.Errorf("patched: %v, %v", patched, err)
	}
	if l, err := a.backups("").List(ctx, metav1.ListOptions{}); err != nil || len(l.Items) != 1 || l.Items[0].GetName() != "a" {
		t.Errorf("list: %v, %v", l, err)
	}
	for _, kind := range []watch.EventType{watch.Added, watch.Modified} {
		if e := <-w.ResultChan(); e.Type != kind || e.Object.(*unstructured.Unstructured).GetName() != "a" {
			t.Errorf("event %v, want %s", e, kind)
		}
	}
	if got := discovered(t, config); got != "backups/Backup(bk) backups/status/Backup()" {
		t.Errorf("discovery: %s", got)
	}
	a.delete(a.any.Resource(definitions), "backups.example.com")
	a.gone(a.any.Resource(definitions), "backups.example.com")
	a.unserved()
	if got := discovered(t, config); got != "" {
		t.Errorf("discovery of a deleted kind: %s", got)
	}
	// Another definition of the same name begins without objects.
	a.define(backup())
	a.established("backups.example.com")
	if l, err := in.List(ctx, metav1.ListOptions{}); err != nil || len(l.Items) != 0 {
		t.Errorf("objects of a deleted kind: %v, %v", l, err)
	}
}

// unserved waits until requests for backups are not answered.
func (a *api) unserved() {
	a.t.Helper()
	eventually(a.t, func() error {
		_, err := a.backups("default").List(a.t.Context(), metav1.ListOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("they are served: %w", err)
		}
		return nil
	})
}

// discovered returns what discovery shows of the group, in either form.
func discovered(t *testing.T, config *rest.Config) string {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	text := func(all []*metav1.APIResourceList) string {
		var list []string
		for _, l := range all {
			if l.GroupVersion != "example.com/v1" {
				continue
			}
			for _, r := range l.APIResources {
				list = append(list, fmt.Sprintf("%s/%s(%s)", r.Name, r.Kind, strings.Join(r.ShortNames, ",")))
			}
		}
		return strings.Join(list, " ")
	}
	_, aggregated, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	d.UseLegacyDiscovery = true
	_, single, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	if text(single) != text(aggregated) {
		t.Errorf("discovery shows %s, aggregated %s", text(single), text(aggregated))
	}
	return text(aggregated)
}

// TestConflict: a definition whose names are taken waits until they are free.
func TestConflict(t *testing.T) {
	a := clients(t, start(t, cluster.Options{}).Config())
	a.define(backup())
	a.established("backups.example.com")
	a.define(called("Book", "bk"))
	a.condition("books.example.com", `NamesAccepted False ShortNamesConflict: "bk" is already in use`)
	crd := a.definition("books.example.com")
	if got := conditions(crd); got[1] != "Established False NotAccepted: not all names are accepted" || crd.Status.AcceptedNames.Kind != "Book" {
		t.Errorf("conditions %s, accepted %+v", got, crd.Status.AcceptedNames)
	}
	books := a.any.Resource(backups.GroupVersion().WithResource("books")).Namespace("default")
	if _, err := books.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what is not established: %v", err)
	}
	a.delete(a.any.Resource(definitions), "backups.example.com")
	a.established("books.example.com")
	if _, err := books.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// TestChange: a changed definition is served as it is now, without a moment in which its objects are not.
func TestChange(t *testing.T) {
	a, ctx := clients(t, start(t, cluster.Options{}).Config()), t.Context()
	a.define(backup())
	a.established("backups.example.com")
	in := a.backups("default")
	a.create(in, object("a"))
	stop, answered := make(chan struct{}), make(chan error)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				answered <- nil
				return
			default:
			}
			_, err := in.Get(ctx, "a", metav1.GetOptions{})
			if err == nil {
				_, err = in.Patch(ctx, "a", types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, n), metav1.PatchOptions{})
			}
			if err == nil {
				err = in.Delete(ctx, "none", metav1.DeleteOptions{})
			}
			if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `"none"`) {
				answered <- err
				return
			}
		}
	}()
	for range 20 {
		a.change("backups.example.com", func(crd *definition) {
			crd.Spec.Names.ShortNames = append(crd.Spec.Names.ShortNames, fmt.Sprintf("b%d", len(crd.Spec.Names.ShortNames)))
		})
	}
	a.change("backups.example.com", func(crd *definition) {
		v2 := crd.Spec.Versions[0].DeepCopy()
		v2.Name = "v2"
		delete(v2.Schema.OpenAPIV3Schema.Properties["spec"].Properties, "target")
		crd.Spec.Versions[0].Storage = false
		crd.Spec.Versions = append(crd.Spec.Versions, *v2)
		crd.Spec.Names.ShortNames = []string{"bp"}
	})
	second := a.any.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "backups"}).Namespace("default")
	eventually(t, func() error { _, err := second.Get(ctx, "a", metav1.GetOptions{}); return err })
	close(stop)
	if err := <-answered; err != nil {
		t.Errorf("while the definition changed: %v", err)
	}
	eventually(t, func() error {
		if crd := a.definition("backups.example.com"); !slices.Equal(crd.Status.StoredVersions, []string{"v1", "v2"}) || !slices.Equal(crd.Status.AcceptedNames.ShortNames, []string{"bp"}) {
			return fmt.Errorf("status: %+v", crd.Status)
		}
		return nil
	})
}

// TestRestart: kinds whose definitions the store has are served before the cluster is ready.
func TestRestart(t *testing.T) {
	store := memory.New(memory.Options{})
	t.Cleanup(func() { _ = store.Close() }) // after the clusters
	first, err := cluster.Start(t.Context(), cluster.Options{Store: store, Extensions: []cluster.Extension{customresources.Extension(customresources.Options{})}})
	if err != nil {
		t.Fatal(err)
	}
	a := clients(t, first.Config())
	a.define(backup())
	a.established("backups.example.com")
	a.create(a.backups("default"), object("a"))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	var late *prepared
	a = clients(t, start(t, cluster.Options{Store: store, Extensions: []cluster.Extension{
		customresources.Extension(customresources.Options{}),
		{Name: "late", New: func(p *cluster.ExtensionParts) (cluster.Extended, error) {
			late = &prepared{registry: p.Registry}
			return late, nil
		}},
	}}).Config())
	if !late.served {
		t.Error("the kind was not served before the cluster began to run")
	}
	if u, err := a.backups("default").Get(t.Context(), "a", metav1.GetOptions{}); err != nil || u.GetKind() != "Backup" {
		t.Errorf("after a restart: %v, %v", u, err)
	}
	a.delete(a.any.Resource(definitions), "backups.example.com")
	a.gone(a.any.Resource(definitions), "backups.example.com")
}

// prepared is an extension that notes whether backups are served when it is prepared.
type prepared struct {
	registry *registry.Registry
	served   bool
}

func (p *prepared) Prepare(context.Context) error {
	_, p.served = p.registry.Resource(backups.GroupResource())
	return nil
}

func (*prepared) Run(context.Context) error { return nil }

// TestUnservable: a definition that cannot be served says why and is established once it can be; meanwhile, its objects
// stay.
func TestUnservable(t *testing.T) {
	a, ctx := clients(t, start(t, cluster.Options{}).Config()), t.Context()
	a.define(backup(unservable))
	a.condition("backups.example.com", "Established False Unservable: the definition leaves conversion to a webhook, and there is no converter")
	a.change("backups.example.com", servable)
	a.established("backups.example.com")
	a.create(a.backups("default"), object("a"))
	a.change("backups.example.com", unservable)
	a.condition("backups.example.com", "Established False Unservable: the definition leaves conversion to a webhook, and there is no converter")
	a.unserved()
	a.change("backups.example.com", servable)
	a.established("backups.example.com")
	if _, err := a.backups("default").Get(ctx, "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	// Its objects are deleted with it, though it cannot be served.
	a.change("backups.example.com", unservable)
	a.unserved()
	a.delete(a.any.Resource(definitions), "backups.example.com")
	a.gone(a.any.Resource(definitions), "backups.example.com")
	a.define(backup())
	a.established("backups.example.com")
	if l, err := a.backups("default").List(ctx, metav1.ListOptions{}); err != nil || len(l.Items) != 0 {
		t.Errorf("objects: %v, %v", l, err)
	}
}

// TestDeletionWithoutVersions: a definition that serves no version any more is deleted with its objects, which requests do not
// see meanwhile.
func TestDeletionWithoutVersions(t *testing.T) {
	a, ctx := clients(t, start(t, cluster.Options{}).Config()), t.Context()
	a.define(backup())
	a.established("backups.example.com")
	a.create(a.backups("default"), object("a"))
	a.change("backups.example.com", func(crd *definition) { crd.Spec.Versions[0].Served = false })
	a.unserved()
	a.delete(a.any.Resource(definitions), "backups.example.com")
	a.gone(a.any.Resource(definitions), "backups.example.com")
	a.define(backup())
	a.established("backups.example.com")
	if l, err := a.backups("default").List(ctx, metav1.ListOptions{}); err != nil || len(l.Items) != 0 {
		t.Errorf("objects: %v, %v", l, err)
	}
}

// TestBuiltIn: a definition of a kind that the cluster has anyway neither replaces it nor deletes its objects.
func TestBuiltIn(t *testing.T) {
	a, ctx := clients(t, start(t, cluster.Options{}).Config()), t.Context()
	policies := a.cs.NetworkingV1().NetworkPolicies("default")
	if _, err := policies.Create(ctx, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.define(backup(func(crd *definition) {
		crd.Name, crd.Spec.Group = "networkpolicies.networking.k8s.io", "networking.k8s.io"
		crd.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, a test"}
		crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "networkpolicies", Singular: "backup", Kind: "Backup", ListKind: "BackupList"}
	}))
	a.established("networkpolicies.networking.k8s.io")
	want := `KubernetesAPIApprovalPolicyConformant False UnapprovedAnnotation: not approved: "unapproved, a test"`
	if got := conditions(a.definition("networkpolicies.networking.k8s.io")); !slices.Contains(got, want) {
		t.Errorf("conditions: %s", got)
	}
	a.delete(a.any.Resource(definitions), "networkpolicies.networking.k8s.io")
	a.gone(a.any.Resource(definitions), "networkpolicies.networking.k8s.io")
	if _, err := policies.Get(ctx, "p", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestTwoServers: a definition that one server establishes is served by the other, too, and withdrawn by both.
func TestTwoServers(t *testing.T) {
	store := memory.New(memory.Options{})
	t.Cleanup(func() { _ = store.Close() }) // after the clusters
	var all [2]*api
	for i := range all {
		all[i] = clients(t, start(t, cluster.Options{Store: store}).Config())
	}
	for round := range 3 {
		all[0].define(backup())
		for i, a := range all {
			a.established("backups.example.com")
			eventually(t, func() error {
				_, err := a.backups("default").Create(t.Context(), object(fmt.Sprint("b", i)), metav1.CreateOptions{})
				return err
			})
		}
		all[round%2].delete(all[1].any.Resource(definitions), "backups.example.com")
		for _, a := range all {
			a.gone(a.any.Resource(definitions), "backups.example.com")
			a.unserved()
		}
	}
}
