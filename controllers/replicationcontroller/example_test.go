package replicationcontroller_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/replicationcontroller"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are an API in
// memory. It ends with its first event.
func Example() {
	resource := corev1.SchemeGroupVersion.WithResource("replicationcontrollers")
	rc := &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
		}},
	}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{rc}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	in := replicationcontroller.Sources{
		ReplicationControllers: informer.New(controllerstest.Source[*corev1.ReplicationController](api, resource), informer.Options{}),
		Pods:                   informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
	}
	recorder := events.Func(func(e events.Event) {
		fmt.Println(e.Reason, e.Message)
		stop()
	})
	loop := controllers.NewLoop(replicationcontroller.New(in, api, recorder, replicationcontroller.Options{}), controllers.Options{})

	fmt.Println(lifecycle.Group(api, in.ReplicationControllers, in.Pods, loop).Run(ctx))
	// Output:
	// SuccessfulCreate Created pod: web-00001
	// <nil>
}
