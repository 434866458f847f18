package statefulset_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
)

// TestBatchesCountAll: the pods of a parallel set that need nothing count in the batches that double, so that a pod does not wait
// for one before it whose name is taken.
func TestBatchesCountAll(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "ns"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}})
		create(b, web(1, parallel))
		b.after(time.Minute)
		b.scale(5)
		b.after(time.Second)
		// The second batch fails: it has the second and the third.
		b.wantPods("web-0=web:1+ web-1=x+ web-2=web:1+")
		b.after(time.Hour)
		b.remove(at(controllerstest.Pods(), "web-1"), metav1.DeleteOptions{})
		b.after(time.Hour)
		b.wantPods("web-0=web:1+ web-1=web:1+ web-2=web:1+ web-3=web:1+ web-4=web:1+")
	})
}

// TestClaimsOfAdoptedOnce: a claim is created once for a pod that changes while it is adopted.
func TestClaimsOfAdoptedOnce(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "ns", Labels: app()}})
		b.after(time.Minute)
		b.claims.Hold()
		b.pods.Hold()
		create(b, web(1, withClaims("data")))
		b.after(time.Second)
		for _, e := range b.events.Take() {
			if strings.Contains(e, "already exists") {
				t.Error(e)
			}
		}
		created := 0
		for _, r := range b.api.Requests() {
			if r.Verb == faults.Create && r.Target.Resource.Resource == "persistentvolumeclaims" {
				created++
			}
		}
		if created != 1 {
			t.Errorf("created %d times", created)
		}
		b.claims.Resume()
		b.pods.Resume()
	})
}
