package cluster_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// greeter is a custom controller: it greets every config map.
type greeter struct {
	maps  *informer.Informer[*corev1.ConfigMap]
	greet func(string)
}

func (g greeter) Name() string { return "greeter" }

func (g greeter) Watch(q controllers.Queue) []controllers.Synced {
	g.maps.AddHandler(informer.Handler[*corev1.ConfigMap]{Added: func(m *corev1.ConfigMap) { q.Add(controllers.KeyOf(m)) }})
	return []controllers.Synced{g.maps}
}

func (g greeter) Reconcile(_ context.Context, key controllers.Key) (controllers.Result, error) {
	if _, ok := g.maps.Get(key.Namespace, key.Name); ok && key.Name == "world" {
		g.greet(key.Name)
	}
	return controllers.Result{}, nil
}

// A custom controller beside upstream's: a component has an identity and a constructor.
func ExampleComponent() {
	greeted := make(chan string)
	c, err := cluster.Start(context.Background(), cluster.Options{
		Components: append(cluster.DefaultComponents(), cluster.Component{
			Name: "greeter", Identity: authn.ServiceAccountIdentity("default", "greeter"),
			New: func(p *component.Parts) (lifecycle.Runnable, error) {
				maps := component.Informer[*corev1.ConfigMap](p.Informers, corev1.SchemeGroupVersion.WithResource("configmaps"))
				if err := p.Informers.Err(); err != nil {
					return nil, err
				}
				return p.Loop(greeter{maps, func(name string) { greeted <- name }}), nil
			},
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	api, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	world := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "world"}}
	if _, err := api.CoreV1().ConfigMaps("default").Create(context.Background(), world, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("hello", <-greeted)
	// Output: hello world
}
