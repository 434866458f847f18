package static_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet/static"
	"github.com/keelson-dev/keelson/podspec/origin"
)

// The pods in the files of a directory are followed by an informer, like those of the API.
func Example() {
	dir, err := os.MkdirTemp("", "manifests")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	text := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}`
	if err := os.WriteFile(filepath.Join(dir, "web.json"), []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	directory, err := static.New(dir, "node-1", static.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	pods := informer.New[*corev1.Pod](directory, informer.Options{})
	done := make(chan error)
	go func() { done <- pods.Run(ctx) }()
	if err := pods.WaitSynced(ctx); err != nil {
		fmt.Println(err)
	}
	for _, pod := range pods.List("") {
		fmt.Println(pod.Namespace, pod.Name, origin.Static(pod))
	}
	cancel()
	fmt.Println(<-done)
	// Output:
	// default web-node-1 true
	// <nil>
}
