package customresources_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn/inprocess"
	"github.com/keelson-dev/keelson/cluster"
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
			return fmt.Errorf("list: %v", err)
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
