package disruption_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/disruption"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A budget without pods; server and caches are in memory. The example ends with the first event.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api := fakeapi.New(fakeapi.Options{})
	in := disruption.Sources{
		Pods:        informer.New(fakeapi.Source[*corev1.Pod](api, fakeapi.Pods), informer.Options{}),
		Budgets:     informer.New(fakeapi.Source[*policyv1.PodDisruptionBudget](api, budgets), informer.Options{}),
		Deployments: informer.New(fakeapi.Source[*appsv1.Deployment](api, deployments), informer.Options{}),
		ReplicaSets: informer.New(fakeapi.Source[*appsv1.ReplicaSet](api, replicaSets), informer.Options{}),
	}
	recorder := events.Func(func(e events.Event) {
		fmt.Println(e.Regarding.Name, e.Reason, e.Message)
		stop()
	})
	loop := controllers.NewLoop(disruption.New(in, api, recorder, disruption.Options{}), controllers.Options{})

	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	if _, err := api.Create(ctx, client.Target{Resource: budgets, Namespace: "default"}, budget, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lifecycle.Group(in.Pods, in.Budgets, in.Deployments, in.ReplicaSets, loop).Run(ctx))
	// Output:
	// web NoPods No matching pods found
	// <nil>
}
