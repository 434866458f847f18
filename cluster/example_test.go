package cluster_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
)

// A cluster with one node runs a pod. In a test, put this into a testing/synctest bubble: then
// waiting costs no time.
func Example() {
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.Options{Nodes: cluster.Nodes{Count: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	clientset, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	pods := clientset.CoreV1().Pods("default")
	w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=web"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1.27"}}},
	}, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	for event := range w.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning {
			fmt.Println(pod.Name, "is Running on", pod.Spec.NodeName)
			w.Stop()
		}
	}
	fmt.Println(c.Close())
	// Output:
	// web is Running on node-0
	// <nil>
}
