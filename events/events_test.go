package events_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/events"
)

func TestAbout(t *testing.T) {
	obj := &metav1.ObjectMeta{Namespace: "ns", Name: "d", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"}}
	kind := metav1.SchemeGroupVersion.WithKind("D")
	want := corev1.ObjectReference{APIVersion: "meta.k8s.io/v1", Kind: "D", Namespace: "ns", Name: "d", UID: "u", ResourceVersion: "7"}
	if got := events.About(kind, obj); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func Example() {
	recorders := []events.Recorder{
		events.Func(func(e events.Event) { fmt.Println(e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Message) }),
		events.Discard(),
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	for _, r := range recorders {
		r.Record(events.Event{
			Regarding: events.About(corev1.SchemeGroupVersion.WithKind("Node"), node),
			Type:      corev1.EventTypeNormal, Reason: "NodeReady", Message: "Node n1 status is now: NodeReady",
		})
	}
	// Output: Node n1 NodeReady Node n1 status is now: NodeReady
}
