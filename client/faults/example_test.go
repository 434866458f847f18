package faults_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
)

// server stands for any client.Client.
type server struct{ client.Client }

func (server) Get(context.Context, client.Target) (runtime.Object, error) { return &corev1.Pod{}, nil }

func Example() {
	c := faults.New(server{}, faults.Options{})
	c.Inject(faults.Fault{Verb: faults.Get, Resource: "pods", Skip: 1, Err: errors.New("no route to host")})
	web := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "default", Name: "web"}
	for range 3 {
		_, err := c.Get(context.Background(), web)
		fmt.Println(err)
	}
	fmt.Println(c.Requests()[0])
	// Output:
	// <nil>
	// no route to host
	// <nil>
	// get pods default/web
}
