package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clientgo "k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/rest"
)

func Example() {
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(pod())
	})
	c, err := rest.New(&clientgo.Config{Host: "http://in.process", Transport: inProcess{server}}, scheme.Scheme)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := client.As[*corev1.Pod](c.Get(context.Background(), client.Target{Resource: pods, Namespace: "ns", Name: "p"}))
	fmt.Println(p.Namespace, p.Name, err)
	// Output: ns p <nil>
}
