package podgc_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/podgc"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are an API in
// memory. It ends with its first deletion.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	ended := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "job", Image: "busybox"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodSucceeded},
		}
	}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{ended("first"), ended("second")}, Before: func(r faults.Request) error {
		if r.Verb == faults.Delete {
			fmt.Println(r)
			stop()
		}
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := podgc.Sources{
		Nodes: informer.New(controllerstest.Source[*corev1.Node](api, corev1.SchemeGroupVersion.WithResource("nodes")), informer.Options{}),
		Pods:  informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
	}
	loop := controllers.NewLoop(podgc.New(in, api, podgc.Options{Terminated: 1}), controllers.Options{})
	if err := lifecycle.Group(api, in.Nodes, in.Pods, loop).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// delete pods ns/first
}
