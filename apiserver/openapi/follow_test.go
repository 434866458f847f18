package openapi_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/storage/memory"
)

// The documents follow the kinds of a registry; what has not changed keeps its entity tag.
func TestFollow(t *testing.T) {
	reg, err := registry.New(memory.New(memory.Options{}), apps.Kinds(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := openapi.Follow(reg.Kinds, openapi.Options{})
	const lease = "io.k8s.api.coordination.v1.Lease"
	paths := func() map[string]any { return document(t, d, "/openapi/v3")["paths"].(map[string]any) }
	state := func() (group, groups, v2 bool) {
		_, group = paths()["apis/coordination.k8s.io/v1"]
		_, groups = paths()["apis/coordination.k8s.io"]
		_, v2 = document(t, d, "/openapi/v2")["definitions"].(map[string]any)[lease]
		return group, groups, v2
	}
	check := func(when string, want bool) {
		t.Helper()
		if group, groups, v2 := state(); group != want || groups != want || v2 != want {
			t.Errorf("%s: in the index %t and %t, in v2 %t", when, group, groups, v2)
		}
		code := http.StatusNotFound
		if want {
			code = http.StatusOK
		}
		if got := get(d, http.MethodGet, "/openapi/v3/apis/coordination.k8s.io/v1").Code; got != code {
			t.Errorf("%s: status %d", when, got)
		}
	}
	check("before", false)
	before, tag := paths()["apis/apps/v1"], get(d, http.MethodGet, "/openapi/v2").Header().Get("Etag")
	res, err := reg.Install(t.Context(), coordination.Kinds()[0])
	if err != nil {
		t.Fatal(err)
	}
	check("installed", true)
	if after := paths()["apis/apps/v1"]; after.(map[string]any)["serverRelativeURL"] != before.(map[string]any)["serverRelativeURL"] {
		t.Errorf("another group's document changed: %v, %v", before, after)
	}
	if get(d, http.MethodGet, "/openapi/v2").Header().Get("Etag") == tag {
		t.Error("v2 changed and kept its entity tag")
	}
	renamed := coordination.Kinds()[0]
	renamed.Names.Kind = "Rental"
	if _, err := reg.Install(t.Context(), renamed); err != nil {
		t.Fatal(err)
	}
	if w := get(d, http.MethodGet, "/openapi/v3/apis/coordination.k8s.io/v1"); !strings.Contains(w.Body.String(), "Rental") {
		t.Error("a kind that was replaced is described as it was")
	}
	reg.Remove(res.GroupResource())
	check("removed", false)
}

// While kinds come and go, each request is answered from one state of them.
func TestFollowConcurrently(t *testing.T) {
	reg, err := registry.New(memory.New(memory.Options{}), apps.Kinds(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := openapi.Follow(reg.Kinds, openapi.Options{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				w := get(d, http.MethodGet, "/openapi/v3/apis/apps/v1")
				if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Deployment") {
					t.Errorf("status %d", w.Code)
				}
				for _, path := range slices.Sorted(maps.Keys(document(t, d, "/openapi/v3")["paths"].(map[string]any))) {
					if code := get(d, http.MethodGet, "/openapi/v3/"+path).Code; code != http.StatusOK && !strings.Contains(path, "coordination") {
						t.Errorf("%s: status %d", path, code)
					}
				}
			}
		})
	}
	all.Go(func() {
		for range 50 {
			res, err := reg.Install(t.Context(), coordination.Kinds()[0])
			if err != nil {
				t.Error(err)
				return
			}
			reg.Remove(res.GroupResource())
		}
	})
	all.Wait()
}
