package kubelet_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/kubelet"
)

// printer is a client that accepts every request and prints the first status of a pod.
type printer struct {
	client.Client
	once sync.Once
	done chan struct{}
}

func (p *printer) Create(_ context.Context, _ client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	return obj, nil
}

func (p *printer) Get(_ context.Context, t client.Target) (runtime.Object, error) {
	return nil, fmt.Errorf("no %s", t.Resource.Resource)
}

func (p *printer) Patch(_ context.Context, t client.Target, _ client.Patch, _ metav1.PatchOptions) (runtime.Object, error) {
	if t.Resource.Resource != "pods" {
		return &corev1.Node{}, nil
	}
	p.once.Do(func() {
		fmt.Printf("%s %s/%s\n", t.Resource.Resource, t.Name, t.Subresource)
		close(p.done)
	})
	return &corev1.Pod{}, nil
}

// A kubelet runs the pods of its informer on a simulated runtime.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	machine := simulated.New(simulated.Options{})
	defer machine.Close()
	store := memory.New[*corev1.Pod]()
	pods := informer.New(store, informer.Options{})
	api := &printer{done: make(chan struct{})}
	node, err := kubelet.New(kubelet.Sources{Pods: pods}, api, machine, nil, kubelet.Options{NodeName: "node-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var group sync.WaitGroup
	group.Go(func() { _ = pods.Run(ctx) })
	group.Go(func() { _ = node.Run(ctx) })

	store.Put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}}},
	})
	<-api.done
	cancel()
	group.Wait()
	// Output: pods web/status
}
