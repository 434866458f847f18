package namespacelifecycle_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/namespacelifecycle"
	"github.com/keelson-dev/keelson/informer/memory"
)

func Example() {
	namespaces := memory.New[*corev1.Namespace]() // in a server, an informer of namespaces
	namespaces.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "here"}})
	plugin := namespacelifecycle.New(namespaces, namespacelifecycle.Options{})

	for _, namespace := range []string{"here", "nowhere"} {
		err := plugin.Admit(context.Background(), &admission.Request{
			Operation: admission.Create, Namespace: namespace, Name: "p",
			Kind:     schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
			Object:   &corev1.Pod{},
		})
		fmt.Println(namespace, err)
	}
	// Output:
	// here <nil>
	// nowhere namespaces "nowhere" not found
}
