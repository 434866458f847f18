package daemonset_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/daemonset"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are an API in
// memory. It ends with its first event.
func Example() {
	labels := map[string]string{"app": "log"}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "log"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "log", Image: "fluentd"}}},
			},
		},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{node, set}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	in := daemonset.Sources{
		DaemonSets: informer.New(controllerstest.Source[*appsv1.DaemonSet](api, appsv1.SchemeGroupVersion.WithResource("daemonsets")), informer.Options{}),
		Revisions:  informer.New(controllerstest.Source[*appsv1.ControllerRevision](api, appsv1.SchemeGroupVersion.WithResource("controllerrevisions")), informer.Options{}),
		Pods:       informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
		Nodes:      informer.New(controllerstest.Source[*corev1.Node](api, corev1.SchemeGroupVersion.WithResource("nodes")), informer.Options{}),
	}
	recorder := events.Func(func(e events.Event) {
		fmt.Println(e.Reason, e.Message)
		stop()
	})
	loop := controllers.NewLoop(daemonset.New(in, api, recorder, daemonset.Options{}), controllers.Options{})

	fmt.Println(lifecycle.Group(api, in.DaemonSets, in.Revisions, in.Pods, in.Nodes, loop).Run(ctx))
	// Output:
	// SuccessfulCreate Created pod: log-00001
	// <nil>
}
