package daemonset_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/daemonset"
)

// TestNothingIsKept: memory is bounded by the sets, revisions and pods that are there. What a reconciliation leaves behind that
// began before its set went is forgotten by the next one.
func TestNothingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		in, c := b.controller(t, daemonset.Options{Parallel: 1})
		controllerstest.Go(t, in.DaemonSets, in.Revisions, in.Pods, in.Nodes, controllers.NewLoop(c, controllers.Options{}))
		b.nodes("a", "b")
		set := create(b, logs())
		b.after(time.Minute)
		pods, err := client.As[*corev1.PodList](b.api.Others.List(t.Context(), podAt(""), metav1.ListOptions{}))
		if err != nil || len(pods.Items) != 2 {
			t.Fatalf("%v, %v", pods, err)
		}
		revisions, err := client.As[*appsv1.ControllerRevisionList](b.api.Others.List(t.Context(), revisionAt(""), metav1.ListOptions{}))
		if err != nil || len(revisions.Items) != 1 {
			t.Fatalf("%v, %v", revisions, err)
		}
		pod, revision := &pods.Items[0], &revisions.Items[0]
		c.Remember(set, pod, revision)
		b.remove(at(set.Name))
		for _, pod := range pods.Items {
			b.remove(podAt(pod.Name))
		}
		b.remove(revisionAt(revision.Name))
		b.after(time.Minute)
		if got := fmt.Sprint(c.Kept()); got != "map[]" {
			t.Errorf("%s is kept", got)
		}
		c.Remember(set, pod, revision)
		if _, err := c.Reconcile(t.Context(), controllers.KeyOf(set)); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(c.Kept()); got != "map[pods:1 revisions:1]" { // these two are told of when they go
			t.Errorf("%s is kept of a set that went in the meantime", got)
		}
	})
}
