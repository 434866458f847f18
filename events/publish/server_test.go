package publish_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/events/publish"
	"github.com/keelson-dev/keelson/internal/testserver"
)

// What is written passes the rules that an API server has for events of either version.
func TestAgainstTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, _ := testserver.Start(t)
		c, err := rest.New(config, scheme.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		counts := publish.New(c, publish.Options{Component: "kubelet", Host: "node-1"})
		series := publish.NewSeries(c, publish.Options{Component: "default-scheduler", Host: "host"})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() { done <- counts.Run(ctx) }()
		go func() { done <- series.Run(ctx) }()
		node := corev1.ObjectReference{Kind: "Node", Name: "node-1", UID: "node-1"}
		for range 3 {
			counts.Record(event("p", "BackOff", "Back-off restarting failed container"))
			counts.Record(events.Event{Regarding: node, Type: "Normal", Reason: "Starting", Message: "Starting kubelet."})
			series.Record(events.Event{Regarding: about("p"), Type: "Warning", Reason: "FailedScheduling", Action: "Scheduling", Message: "0/1 nodes are available"})
			time.Sleep(time.Minute)
		}
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := counts.Dropped() + series.Dropped(); n > 0 {
			t.Errorf("%d events were refused", n)
		}
		list, err := client.As[*corev1.EventList](c.List(t.Context(), client.Target{Resource: corev1.SchemeGroupVersion.WithResource("events")}, metav1.ListOptions{}))
		if err != nil || len(list.Items) != 3 {
			t.Fatalf("%d events: %v", len(list.Items), err)
		}
		for _, e := range list.Items {
			if e.Source.Component == "kubelet" && (e.Count != 3 || e.LastTimestamp.Sub(e.FirstTimestamp.Time) != 2*time.Minute) {
				t.Errorf("%s: count %d from %v to %v", e.Reason, e.Count, e.FirstTimestamp, e.LastTimestamp)
			}
			if (e.InvolvedObject.Kind == "Node") != (e.Namespace == "default") {
				t.Errorf("an event about %s is in %s", e.InvolvedObject.Kind, e.Namespace)
			}
		}
		newer, err := client.As[*eventsv1.EventList](c.List(t.Context(),
			client.Target{Resource: eventsv1.SchemeGroupVersion.WithResource("events"), Namespace: "ns"}, metav1.ListOptions{}))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range newer.Items {
			if e.Reason == "FailedScheduling" && (e.Series == nil || e.Series.Count != 2 || e.ReportingInstance != "default-scheduler-host") {
				t.Errorf("series %+v of %s", e.Series, e.ReportingInstance)
			}
		}
	})
}
