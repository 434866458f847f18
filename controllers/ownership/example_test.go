package ownership_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A replica set adopts the pod that it selects and nobody owns.
func ExampleClaim() {
	api, err := controllerstest.New(controllerstest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	web := labels.Set{"app": "web"}
	replicaSet := ownership.Kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Resource: "replicasets"}
	pod := ownership.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods"}

	claim := lifecycle.Func(func(ctx context.Context) error {
		defer stop()
		set, err := client.As[*appsv1.ReplicaSet](api.Create(ctx, replicaSet.Target("default", ""),
			controllerstest.Complete(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}), metav1.CreateOptions{}))
		if err != nil {
			return err
		}
		orphan, err := client.As[*corev1.Pod](api.Create(ctx, pod.Target("default", ""),
			controllerstest.Complete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stray", Labels: web}}), metav1.CreateOptions{}))
		if err != nil {
			return err
		}
		owner := ownership.Owner{Object: set, Kind: replicaSet, Selector: labels.SelectorFromSet(web)}
		claimed, err := ownership.Claim(ctx, api, owner, pod, []*corev1.Pod{orphan})
		if err != nil {
			return err
		}
		fmt.Println("claimed:", claimed[0].Name)
		adopted, err := client.As[*corev1.Pod](api.Get(ctx, pod.Target("default", "stray")))
		if err != nil {
			return err
		}
		fmt.Println("controlled:", metav1.IsControlledBy(adopted, set))
		return nil
	})
	fmt.Println(lifecycle.Group(api, claim).Run(ctx))
	// Output:
	// claimed: stray
	// controlled: true
	// <nil>
}
