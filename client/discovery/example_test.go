package discovery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgo "k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client/discovery"
)

func respond(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v1 := metav1.GroupVersionForDiscovery{GroupVersion: "apps/v1", Version: "v1"}
		switch r.URL.Path {
		case "/api":
			respond(w, metav1.APIVersions{})
		case "/apis":
			respond(w, metav1.APIGroupList{Groups: []metav1.APIGroup{{
				Name: "apps", Versions: []metav1.GroupVersionForDiscovery{v1}, PreferredVersion: v1,
			}}})
		default:
			respond(w, metav1.APIResourceList{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{
				Name: "deployments", Kind: "Deployment", ShortNames: []string{"deploy"}, Namespaced: true, Verbs: []string{"create"},
			}}})
		}
	}))
	defer server.Close()

	ctx := context.Background()
	d, err := discovery.New(&clientgo.Config{Host: server.URL}, discovery.Options{}) // in a program with a CacheDir
	if err != nil {
		fmt.Println(err)
		return
	}
	mapping, err := d.Mapping(ctx, "deploy")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(mapping.GroupVersionKind)
	target := discovery.Target(mapping, "default", "web")
	fmt.Println(target.Resource, target.Namespace, target.Name)
	_, err = d.Mapping(ctx, "foo")
	fmt.Println(err)
	// Output:
	// apps/v1, Kind=Deployment
	// apps/v1, Resource=deployments default web
	// the server doesn't have a resource type "foo"
}
