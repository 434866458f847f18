package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
)

// always is a server that knows one object.
type always struct{ runtime.Object }

func (a always) Get(context.Context, client.Target) (runtime.Object, error) { return a.Object, nil }

func TestAs(t *testing.T) {
	failed := errors.New("failed")
	if _, err := client.As[*corev1.Pod](nil, failed); !errors.Is(err, failed) {
		t.Errorf("error: %v", err)
	}
	if _, err := client.As[*corev1.Pod](&corev1.Node{}, nil); err == nil || err.Error() != "the server answered with a *v1.Node, want a *v1.Pod" {
		t.Errorf("another type: %v", err)
	}
	if _, err := client.As[*corev1.Pod](nil, nil); err == nil {
		t.Error("nothing passed for a pod")
	}
}

func ExampleAs() {
	var server client.Getter = always{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}} // in a program, a *rest.Client
	pod, err := client.As[*corev1.Pod](server.Get(context.Background(), client.Target{
		Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "default", Name: "web",
	}))
	fmt.Println(pod.Name, err)
	// Output: web <nil>
}
