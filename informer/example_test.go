package informer_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

func Example() {
	store := memory.New[*corev1.Node]() // or the registry in process, or package wire
	store.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}})

	nodes := informer.New(store, informer.Options{})
	nodes.AddIndex("zone", func(n *corev1.Node) []string { return []string{n.Labels["zone"]} })
	nodes.AddHandler(informer.Handler[*corev1.Node]{
		Added: func(n *corev1.Node) { fmt.Println("added", n.Name) },
	})

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- nodes.Run(ctx) }()
	if err := nodes.WaitSynced(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println("in zone a:", len(nodes.ByIndex("zone", "a")))
	cancel()
	fmt.Println(<-done)
	// Output:
	// added n1
	// in zone a: 1
	// <nil>
}
