package disruption_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/disruption"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A budget without pods; the API and the caches of it are in memory. The example ends with the first event.
func Example() {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{budget}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	budgets := policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
	deployments, replicaSets := appsv1.SchemeGroupVersion.WithResource("deployments"), appsv1.SchemeGroupVersion.WithResource("replicasets")
	in := disruption.Sources{
		Pods:        informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
		Budgets:     informer.New(controllerstest.Source[*policyv1.PodDisruptionBudget](api, budgets), informer.Options{}),
		Deployments: informer.New(controllerstest.Source[*appsv1.Deployment](api, deployments), informer.Options{}),
		ReplicaSets: informer.New(controllerstest.Source[*appsv1.ReplicaSet](api, replicaSets), informer.Options{}),
	}
	recorder := events.Func(func(e events.Event) {
		fmt.Println(e.Regarding.Name, e.Reason, e.Message)
		stop()
	})
	loop := controllers.NewLoop(disruption.New(in, api, recorder, disruption.Options{}), controllers.Options{})

	fmt.Println(lifecycle.Group(api, in.Pods, in.Budgets, in.Deployments, in.ReplicaSets, loop).Run(ctx))
	// Output:
	// web NoPods No matching pods found
	// <nil>
}
