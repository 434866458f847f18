package cluster_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
)

// bounds watches the pods of an app and records the maximum number of pods, and the minimum number of available ones.
type bounds struct {
	watch watch.Interface
	done  sync.WaitGroup
	most  int
	least int
	// at describes the moment of the minimum, for messages.
	at string
}

// observe starts with the existing pods.
func (w *world) observe(app string) *bounds {
	w.t.Helper()
	list, err := w.pods.List(w.ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	w.check(err)
	watching, err := w.pods.Watch(w.ctx, metav1.ListOptions{LabelSelector: "app=" + app, ResourceVersion: list.ResourceVersion})
	w.check(err)
	now := map[string]*corev1.Pod{}
	for i := range list.Items {
		now[list.Items[i].Name] = &list.Items[i]
	}
	b := &bounds{watch: watching, least: len(list.Items)}
	began := time.Now()
	b.done.Go(func() {
		for e := range watching.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			now[pod.Name] = pod
			if e.Type == watch.Deleted {
				delete(now, pod.Name)
			}
			b.note(now, fmt.Sprintf("after %v, as %s was %s", time.Since(began), pod.Name, e.Type))
		}
	})
	return b
}

func (b *bounds) note(now map[string]*corev1.Pod, at string) {
	there, serving := 0, 0
	for _, p := range now {
		if p.DeletionTimestamp == nil {
			there++
		}
		if available(p) {
			serving++
		}
	}
	b.most = max(b.most, there)
	if serving < b.least {
		b.least, b.at = serving, at
	}
}

func (b *bounds) stop() {
	b.watch.Stop()
	b.done.Wait()
}

// TestRollingUpdate: there are never more pods than maxSurge allows, nor fewer available ones than maxUnavailable
// allows, and both limits are reached.
func TestRollingUpdate(t *testing.T) {
	for _, test := range []struct {
		replicas           int32
		surge, unavailable intstr.IntOrString
		most, least        int
	}{
		{4, intstr.FromString("25%"), intstr.FromString("25%"), 5, 3},
		{5, intstr.FromInt32(2), intstr.FromInt32(0), 7, 5},
		{5, intstr.FromInt32(0), intstr.FromInt32(2), 5, 3},
		{10, intstr.FromString("45%"), intstr.FromString("25%"), 15, 8},
		{1, intstr.FromString("25%"), intstr.FromString("25%"), 2, 1},
		{3, intstr.FromString("100%"), intstr.FromString("0%"), 6, 3},
	} {
		t.Run(fmt.Sprintf("%d surge %s unavailable %s", test.replicas, test.surge.String(), test.unavailable.String()), func(t *testing.T) {
			inBubble(t, nodes(3), func(t *testing.T, w *world) {
				d := deploymentOf("web", test.replicas)
				d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &test.surge, MaxUnavailable: &test.unavailable}
				w.create(d)
				time.Sleep(5 * time.Second)
				w.running("web", int(test.replicas), "nginx")
				b := w.observe("web")
				w.change("web", image("nginx:2"))
				time.Sleep(time.Minute)
				b.stop()
				w.running("web", int(test.replicas), "nginx:2")
				if b.most != test.most || b.least != test.least {
					t.Errorf("at most %d pods and at least %d available (%s), want %d and %d", b.most, b.least, b.at, test.most, test.least)
				}
			})
		})
	}
}

// TestHistory: each template has a replica set with its revision; a template that is used again gets its old set under
// a new revision; sets beyond the limit are deleted.
func TestHistory(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		d := deploymentOf("web", 2)
		d.Annotations = map[string]string{"kubernetes.io/change-cause": "first"}
		d.Spec.RevisionHistoryLimit = new(int32(2))
		w.create(d)
		time.Sleep(10 * time.Second)
		roll := func(to, cause string) {
			w.change("web", func(d *appsv1.Deployment) {
				image(to)(d)
				d.Annotations["kubernetes.io/change-cause"] = cause
			})
			time.Sleep(30 * time.Second)
			w.running("web", 2, to)
		}
		history := func(want ...string) {
			t.Helper()
			sets := w.replicaSets("web")
			var got []string
			for i := range sets {
				got = append(got, fmt.Sprintf("%d %s %d %s", w.revision(&sets[i]), sets[i].Spec.Template.Spec.Containers[0].Image,
					sets[i].Status.Replicas, sets[i].Annotations["kubernetes.io/change-cause"]))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("history is\n%q, want\n%q", got, want)
			}
		}
		roll("nginx:2", "second")
		history("1 nginx 0 first", "2 nginx:2 2 second")
		first := w.replicaSets("web")[0]
		if a := first.Annotations; a["deployment.kubernetes.io/desired-replicas"] != "2" || a["deployment.kubernetes.io/max-replicas"] != "3" {
			t.Errorf("annotations are %v", a)
		}

		roll("nginx", "back to the first")
		history("2 nginx:2 0 second", "3 nginx 2 back to the first")
		again := w.replicaSets("web")[1]
		if again.UID != first.UID || again.Annotations["deployment.kubernetes.io/revision-history"] != "1" {
			t.Errorf("the old set was not used again: %s, not %s, annotations %v", again.Name, first.Name, again.Annotations)
		}
		if got := w.revision(w.deployment("web")); got != 3 {
			t.Errorf("the deployment is at revision %d", got)
		}

		roll("nginx:3", "third")
		roll("nginx:4", "fourth")
		history("3 nginx 0 back to the first", "4 nginx:3 0 third", "5 nginx:4 2 fourth")
		w.change("web", func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32(0)) })
		time.Sleep(10 * time.Second)
		history("5 nginx:4 2 fourth")
	})
}

// TestPause: a paused deployment scales but does not roll out until it is resumed.
func TestPause(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		w.create(deploymentOf("web", 2))
		time.Sleep(10 * time.Second)
		w.change("web", func(d *appsv1.Deployment) { d.Spec.Paused = true })
		time.Sleep(time.Second)
		if got := deploymentCondition(w.deployment("web"), appsv1.DeploymentProgressing); got != "Unknown DeploymentPaused" {
			t.Errorf("Progressing is %s", got)
		}
		w.change("web", image("nginx:2"))
		time.Sleep(time.Hour)
		w.running("web", 2, "nginx")
		if sets := w.replicaSets("web"); len(sets) != 1 {
			t.Errorf("%d replica sets while paused", len(sets))
		}
		w.change("web", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(4)) })
		time.Sleep(10 * time.Second)
		w.running("web", 4, "nginx")
		w.change("web", func(d *appsv1.Deployment) { d.Spec.Paused = false })
		time.Sleep(30 * time.Second)
		w.running("web", 4, "nginx:2")
		if got := deploymentCondition(w.deployment("web"), appsv1.DeploymentProgressing); got != "True NewReplicaSetAvailable" {
			t.Errorf("Progressing is %s", got)
		}
	})
}

// TestPauseHalfWay: a paused rollout stays where it is, and scales in proportion.
func TestPauseHalfWay(t *testing.T) {
	inBubble(t, nodes(3), func(t *testing.T, w *world) {
		w.create(deploymentOf("web", 8))
		time.Sleep(10 * time.Second)
		w.change("web", image("nginx:2"))
		time.Sleep(time.Second)
		w.change("web", func(d *appsv1.Deployment) { d.Spec.Paused = true })
		time.Sleep(time.Minute)
		count := func() (before, after int32) {
			sets := w.replicaSets("web")
			return *sets[0].Spec.Replicas, *sets[1].Spec.Replicas
		}
		if before, after := count(); before != 6 || after != 4 {
			t.Errorf("paused at %d and %d, want the surge of 2 and 2 fewer", before, after)
		}
		w.change("web", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(16)) })
		time.Sleep(time.Minute)
		if before, after := count(); before != 12 || after != 8 {
			t.Errorf("scaled to %d and %d, want both doubled with a surge of 4", before, after)
		}
		w.change("web", func(d *appsv1.Deployment) { d.Spec.Paused = false })
		time.Sleep(time.Minute)
		w.running("web", 16, "nginx:2")
	})
}

// TestRecreate: no new pod exists before every old one is gone.
func TestRecreate(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		d := deploymentOf("web", 3)
		d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		w.create(d)
		time.Sleep(10 * time.Second)
		b := w.observe("web")
		w.change("web", image("nginx:2"))
		time.Sleep(time.Second / 2)
		for _, p := range w.listed("web") {
			if p.Spec.Containers[0].Image != "nginx" || p.DeletionTimestamp == nil {
				t.Errorf("%s of %s, deletion %v, while the old ones stop", p.Name, p.Spec.Containers[0].Image, p.DeletionTimestamp)
			}
		}
		time.Sleep(30 * time.Second)
		b.stop()
		w.running("web", 3, "nginx:2")
		if b.most != 3 || b.least != 0 {
			t.Errorf("at most %d pods, at least %d available", b.most, b.least)
		}
	})
}

// TestMinReadySeconds: a pod counts as available only after it has been ready for that long, so each step of an update
// waits for it.
func TestMinReadySeconds(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		d := deploymentOf("web", 2)
		d.Spec.MinReadySeconds = 20
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0))}
		w.create(d)
		at := func(second int, status func(appsv1.DeploymentStatus) bool) {
			t.Helper()
			if s := w.deployment("web").Status; !status(s) {
				t.Errorf("in second %d: %+v", second, s)
			}
		}
		time.Sleep(20 * time.Second)
		at(20, func(s appsv1.DeploymentStatus) bool { return s.ReadyReplicas == 2 && s.AvailableReplicas == 0 })
		time.Sleep(4 * time.Second)
		at(24, func(s appsv1.DeploymentStatus) bool { return s.AvailableReplicas == 2 })
		w.change("web", image("nginx:2"))
		time.Sleep(20 * time.Second)
		at(44, func(s appsv1.DeploymentStatus) bool { return s.UpdatedReplicas == 1 && s.AvailableReplicas == 2 })
		time.Sleep(20 * time.Second)
		at(64, func(s appsv1.DeploymentStatus) bool { return s.UpdatedReplicas == 2 && s.AvailableReplicas == 2 })
		time.Sleep(20 * time.Second)
		at(84, func(s appsv1.DeploymentStatus) bool {
			return s.Replicas == 2 && s.UpdatedReplicas == 2 && s.AvailableReplicas == 2
		})
		w.running("web", 2, "nginx:2")
	})
}

// TestProgressDeadline: a stuck rollout is reported, keeps the old pods, and recovers with the old template.
func TestProgressDeadline(t *testing.T) {
	o := nodes(2)
	inBubble(t, o, func(t *testing.T, w *world) {
		d := deploymentOf("web", 2)
		d.Spec.ProgressDeadlineSeconds = new(int32(60))
		w.create(d)
		time.Sleep(10 * time.Second)
		w.change("web", func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "fast"}
		})
		time.Sleep(59 * time.Second)
		if got := deploymentCondition(w.deployment("web"), appsv1.DeploymentProgressing); got != "True ReplicaSetUpdated" {
			t.Errorf("before the deadline Progressing is %s", got)
		}
		time.Sleep(3 * time.Second)
		d = w.deployment("web")
		if got := deploymentCondition(d, appsv1.DeploymentProgressing); got != "False ProgressDeadlineExceeded" {
			t.Errorf("after the deadline Progressing is %s", got)
		}
		if d.Status.AvailableReplicas != 2 {
			t.Errorf("%d are available", d.Status.AvailableReplicas)
		}
		w.change("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector = nil })
		time.Sleep(10 * time.Second)
		w.running("web", 2, "nginx")
		if got := deploymentCondition(w.deployment("web"), appsv1.DeploymentProgressing); got != "True NewReplicaSetAvailable" {
			t.Errorf("after the rollback Progressing is %s", got)
		}
	})
}
