package apiserver_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestSeatIsLeft: a create that waits for others does not keep them from being served.
func TestSeatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := func(obj registry.Object) bool { return obj.GetLabels()["wait"] != "" }
		reg, err := registry.New(memory.New(memory.Options{}), core.Kinds(core.Options{}), registry.Options{Initialization: &registry.Initialization{
			Store: func(registry.Object) {}, Pending: waits, Failed: func(registry.Object) error { return nil },
			Show: func(registry.Object) {}, Fresh: func(schema.GroupResource) bool { return false },
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- reg.Run(ctx) }()
		defer func() { stop(); <-done }()
		s := apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New(), FlowControl: seats(1)})
		const maps = "/api/v1/namespaces/a/configmaps"
		send := func(method, path, contentType, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.Header.Set("Content-Type", contentType)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w
		}
		created := make(chan *httptest.ResponseRecorder, 1)
		go func() {
			created <- send("POST", maps, "application/json", `{"metadata":{"name":"x","labels":{"wait":"yes"}}}`)
		}()
		synctest.Wait()
		if w := call(s, "", "GET", maps); w.Code != 200 {
			t.Errorf("another is not served: %d %s", w.Code, w.Body)
		}
		if w := call(s, "", "GET", maps+"/x"); w.Code != 404 {
			t.Errorf("it is shown: %d %s", w.Code, w.Body)
		}
		if w := send("PUT", maps+"/x", "application/json", `{"metadata":{"name":"x"}}`); w.Code != 200 {
			t.Errorf("it is not completed: %d %s", w.Code, w.Body)
		}
		if w := <-created; w.Code != 201 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if _, err := reg.Access().Get(ctx, registry.ObjectKey{Resource: corev1.Resource("configmaps"), Namespace: "a", Name: "x"}); err != nil {
			t.Error(err)
		}
		// An object that is created by its name waits, too, and one that is not wanted any more is told to its creator.
		go func() {
			created <- send("PATCH", maps+"/y?fieldManager=m", "application/apply-patch+yaml",
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y","labels":{"wait":"yes"}}}`)
		}()
		synctest.Wait()
		if w := call(s, "", "DELETE", maps); w.Code != 200 {
			t.Errorf("the collection is not deleted: %d %s", w.Code, w.Body)
		}
		if w := <-created; w.Code != 500 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
