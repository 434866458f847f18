package deployment_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/deployment"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are a server in
// memory. It ends with its first event.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	apps := appsv1.SchemeGroupVersion
	api := fakeapi.New(fakeapi.Options{})
	in := deployment.Sources{
		Deployments: informer.New(fakeapi.Source[*appsv1.Deployment](api, apps.WithResource("deployments")), informer.Options{}),
		ReplicaSets: informer.New(fakeapi.Source[*appsv1.ReplicaSet](api, apps.WithResource("replicasets")), informer.Options{}),
		Pods:        informer.New(fakeapi.Source[*corev1.Pod](api, fakeapi.Pods), informer.Options{}),
	}
	recorder := events.Func(func(e events.Event) {
		fmt.Println(e.Reason, e.Message[:len("Scaled up replica set web-")])
		stop()
	})
	loop := controllers.NewLoop(deployment.New(in, api, recorder, deployment.Options{}), controllers.Options{})

	three, labels := int32(3), map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &three,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType},
		},
	}
	target := client.Target{Resource: apps.WithResource("deployments"), Namespace: "default"}
	if _, err := api.Create(ctx, target, d, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lifecycle.Group(in.Deployments, in.ReplicaSets, in.Pods, loop).Run(ctx))
	// Output:
	// ScalingReplicaSet Scaled up replica set web-
	// <nil>
}
