package clientgo_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/informer/clientgo"
	"github.com/keelson-dev/keelson/informer/memory"
)

// A controller that takes client-go's informer and lister runs on any source.
func Example() {
	store := memory.New[*corev1.Pod]() // or the registry in process, or package wire
	store.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}})

	var pods cache.SharedIndexInformer = clientgo.New(store, clientgo.Options{
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	told, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { fmt.Println("added", obj.(*corev1.Pod).Name) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		pods.RunWithContext(ctx)
	}()
	cache.WaitFor(ctx, "", told.HasSyncedChecker())
	found, err := listers.NewPodLister(pods.GetIndexer()).Pods("ns").List(labels.Everything())
	fmt.Println(len(found), err)
	cancel()
	<-done
	// Output:
	// added web
	// 1 <nil>
}
