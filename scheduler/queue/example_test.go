package queue_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler/queue"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func Example() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	q := queue.New(now, queue.Options[string]{
		MayHelp: func(_ *corev1.Pod, _ []string, event string) bool { return event == "node added" },
	})
	q.Add(pod("web"), now)

	item := q.Pop(now)
	q.Return(item, item.Pod, []string{"NodeResourcesFit"}, now) // no node had room
	fmt.Printf("%+v\n", q.Counts())

	q.Event("node added", now.Add(time.Minute))
	fmt.Println(q.Pop(now.Add(time.Minute)).Pod.Name)
	// Output:
	// {Active:0 Backoff:0 Waiting:1 Gated:0}
	// web
}
