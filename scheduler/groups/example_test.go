package groups_test

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/groups"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// none returns an informer of a kind that the cluster has no objects of.
func none[T informer.Object]() *informer.Informer[T] {
	return informer.New[T](memory.New[T](), informer.Options{})
}

func sources() groups.Sources {
	return groups.Sources{
		Namespaces: none[*corev1.Namespace](), Services: none[*corev1.Service](),
		ReplicationControllers: none[*corev1.ReplicationController](), ReplicaSets: none[*appsv1.ReplicaSet](), StatefulSets: none[*appsv1.StatefulSet](),
	}
}

// Pods of one service are spread by default. Here the informers are filled by hand; in a scheduler they run.
func Example() {
	in := sources()
	in.Services.Put(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	})
	profile := scheduler.Profile{Plugins: plugins.WithGroups([]scheduler.Enabled{{Plugin: plugins.PodTopologySpread{}, Weight: 2}}, groups.New(in))}
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	}
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: node},
		}
	}
	cluster := scheduler.NewSnapshot([]*corev1.Node{node("a"), node("b")}, []*corev1.Pod{pod("first", "a")})
	fmt.Print(profile.Schedule(pod("second", ""), cluster))
	// Output:
	// default/second goes to b: 2/2 nodes are available
	//   NODE  TOTAL  PodTopologySpread×2
	//   b     200    100 (2)
	//   a     132    66 (3)
}
