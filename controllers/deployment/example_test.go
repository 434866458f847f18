package deployment_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/deployment"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are an API in
// memory. It ends with its first event.
func Example() {
	apps := appsv1.SchemeGroupVersion
	three, labels := int32(3), map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &three,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			},
		},
	}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{d}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	in := deployment.Sources{
		Deployments: informer.New(controllerstest.Source[*appsv1.Deployment](api, apps.WithResource("deployments")), informer.Options{}),
		ReplicaSets: informer.New(controllerstest.Source[*appsv1.ReplicaSet](api, apps.WithResource("replicasets")), informer.Options{}),
		Pods:        informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
	}
	recorder := events.Func(func(e events.Event) {
		fmt.Println(e.Reason, e.Message[:len("Scaled up replica set web-")])
		stop()
	})
	loop := controllers.NewLoop(deployment.New(in, api, recorder, deployment.Options{}), controllers.Options{})

	fmt.Println(lifecycle.Group(api, in.Deployments, in.ReplicaSets, in.Pods, loop).Run(ctx))
	// Output:
	// ScalingReplicaSet Scaled up replica set web-
	// <nil>
}
