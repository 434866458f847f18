package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
)

// A control plane with three nodes, and a Deployment that client-go rolls out on it.
func Example() {
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.Options{Nodes: cluster.Nodes{Count: 3}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		fmt.Println(err)
		return
	}

	replicas, labels := int32(3), map[string]string{"app": "web"}
	deployments := client.AppsV1().Deployments("default")
	watch, err := deployments.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer watch.Stop()
	_, err = deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1.27"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for event := range watch.ResultChan() {
		if d, ok := event.Object.(*appsv1.Deployment); ok && d.Status.AvailableReplicas == replicas {
			fmt.Println(d.Name, "has", d.Status.AvailableReplicas, "available pods")
			return
		}
	}
	// Output: web has 3 available pods
}

// In a bubble the whole control plane runs in virtual time: this test waits within milliseconds for the six minutes in
// which a lost node's pods are evicted.
func Example_virtualTime() {
	test := func(t *testing.T) { // in a real test: func TestNodeLoss(t *testing.T)
		synctest.Test(t, func(t *testing.T) {
			c, err := cluster.Start(t.Context(), cluster.Options{Nodes: cluster.Nodes{Count: 2}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			node, err := c.Node("node-0")
			if err != nil {
				t.Fatal(err)
			}
			node.Stop()
			time.Sleep(6 * time.Minute)
			// … check, through c.Config(), what happened to the pods of node-0 …
		})
	}
	_ = test
}

// A user who is not an administrator has the permissions that RBAC grants.
func ExampleCluster_ConfigFor() {
	c, err := cluster.Start(context.Background(), cluster.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	jane, err := kubernetes.NewForConfig(c.ConfigFor(cluster.User("jane")))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = jane.CoreV1().Secrets("kube-system").List(context.Background(), metav1.ListOptions{})
	fmt.Println(err)
	// Output: secrets is forbidden: User "jane" cannot list resource "secrets" in API group "" in the namespace "kube-system"
}
