// Package factory puts informers of keelson into client-go's shared informer factories, so that
// code which takes an informers.SharedInformerFactory works on sources of this module: on the
// registry in process, or on package memory in a test.
//
// The factory remains client-go's: its Start, WaitForCacheSync and Shutdown, its groups and its ForResource work as
// always, and return the informer that was added for the kind. This is a package of its own because it needs the
// clientset's interface and everything behind it.
//
// # Errors
//
// The package has none: failures are reported by the informers.
//
// # Concurrency
//
// Add may be called whenever the factory's InformerFor may.
package factory

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/clientgo"
)

// Factory is what Add needs of an informers.SharedInformerFactory. For factories generated for custom kinds, use
// clientgo.New and their own InformerFor.
type Factory interface {
	InformerFor(obj runtime.Object, construct internalinterfaces.NewInformerFunc) cache.SharedIndexInformer
}

// Add makes the factory return an informer of source for the kind of example, such as &corev1.Pod{}, and returns that
// informer. Call it before anything has asked the factory for the kind: otherwise the existing informer stays, and is
// returned.
//
// The resync period is the factory's unless the options have one, and there is an index by namespace, as the factory's
// listers expect. If all kinds in use have been added, the factory's client may be nil. Its namespace and its tweaks of
// list options have no effect on these kinds: they show what the source shows.
func Add[T informer.Object](f Factory, example T, source informer.Source[T], options clientgo.Options) cache.SharedIndexInformer {
	return f.InformerFor(example, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		if options.ResyncPeriod == 0 {
			options.ResyncPeriod = resync
		}
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		for name, values := range options.Indexers {
			indexers[name] = values
		}
		options.Indexers = indexers
		return clientgo.New(source, options)
	})
}
