package tainteviction_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/tainteviction"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are an API in
// memory. It ends with its first event.
func Example() {
	web := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Spec.Taints = []corev1.Taint{{Key: "example.com/maintenance", Effect: corev1.TaintEffectNoExecute}}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{node, web}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	nodes := corev1.SchemeGroupVersion.WithResource("nodes")
	in := tainteviction.Sources{
		Nodes: informer.New(controllerstest.Source[*corev1.Node](api, nodes), informer.Options{}),
		Pods:  informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
	}
	recorder := events.Func(func(e events.Event) {
		fmt.Println(e.Reason, e.Message)
		stop()
	})
	loop := controllers.NewLoop(tainteviction.New(in, api, recorder), controllers.Options{})

	if err := lifecycle.Group(api, in.Nodes, in.Pods, loop).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// TaintManagerEviction Marking for deletion Pod ns/web
}
