package statefulset_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/statefulset"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are an API in memory. It ends with its
// first event.
func Example() {
	set := controllerstest.Complete(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}})
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{set}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	in := statefulset.Sources{
		StatefulSets: informer.New(controllerstest.Source[*appsv1.StatefulSet](api, appsv1.SchemeGroupVersion.WithResource("statefulsets")), informer.Options{}),
		Pods:         informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
		Claims:       informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](api, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")), informer.Options{}),
		Revisions:    informer.New(controllerstest.Source[*appsv1.ControllerRevision](api, appsv1.SchemeGroupVersion.WithResource("controllerrevisions")), informer.Options{}),
	}
	recorder := events.Func(func(e events.Event) {
		fmt.Println(e.Reason, e.Message)
		stop()
	})
	loop := controllers.NewLoop(statefulset.New(in, api, recorder, statefulset.Options{}), controllers.Options{})

	fmt.Println(lifecycle.Group(api, in.StatefulSets, in.Pods, in.Claims, in.Revisions, loop).Run(ctx))
	// Output:
	// SuccessfulCreate Create Pod web-0 in StatefulSet web successful
	// <nil>
}
