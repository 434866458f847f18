package deployment_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/deployment"
)

func TestRollout(t *testing.T) {
	inBubble(t, func(b *bench) {
		d := web(3)
		d.Annotations = map[string]string{"kubernetes.io/change-cause": "first", corev1.LastAppliedConfigAnnotation: "{}"}
		create(b, d)
		set := b.sets()["v1"]
		hash := set.Labels["pod-template-hash"]
		if hash == "" || set.Name != "web-"+hash || set.Spec.Selector.MatchLabels["pod-template-hash"] != hash || set.Spec.Template.Labels["pod-template-hash"] != hash {
			b.Errorf("set %+v", set)
		}
		want := map[string]string{
			"deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/desired-replicas": "3",
			"deployment.kubernetes.io/max-replicas": "4", "kubernetes.io/change-cause": "first",
		}
		if !maps.Equal(set.Annotations, want) {
			b.Errorf("annotations %v, want %v", set.Annotations, want)
		}
		ref := metav1.GetControllerOf(set)
		if ref == nil || ref.Kind != "Deployment" || ref.UID != b.deployment().UID || !*ref.BlockOwnerDeletion {
			b.Errorf("owner %+v", ref)
		}
		if got := b.deployment().Annotations["deployment.kubernetes.io/revision"]; got != "1" {
			b.Errorf("revision %q", got)
		}
		b.wantEvents("Normal ScalingReplicaSet Scaled up replica set {v1} from 0 to 3")
		b.wantCondition("Progressing", `True ReplicaSetUpdated: ReplicaSet "{v1}" is progressing.`)
		b.wantCondition("Available", "False MinimumReplicasUnavailable: Deployment does not have minimum availability.")
		b.wantStatus("replicas 3 updated 3 ready 0 available 0 unavailable 3 terminating 0 observed 1")
		b.after(2 * time.Second)
		b.wantCondition("Progressing", `True NewReplicaSetAvailable: ReplicaSet "{v1}" has successfully progressed.`)
		b.wantCondition("Available", "True MinimumReplicasAvailable: Deployment has minimum availability.")
		b.wantStatus("replicas 3 updated 3 ready 3 available 3 unavailable 0 terminating 0 observed 1")
		b.wantEvents()
		b.api.Reset()
		b.beside.Reset()
		b.after(24 * time.Hour)
		if all := append(b.api.Requests(), b.beside.Requests()...); len(all) != 0 {
			b.Errorf("a finished rollout is left alone, but %v", all)
		}
	})
}

func TestRollingUpdateAndRollback(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, web(3))
		b.after(2 * time.Second)
		b.events.Take()

		b.image("v2")
		b.wantSizes("v1=3/3 v2=1/0") // one more than three, none less
		b.after(time.Minute)
		b.wantSizes("v1=0/0 v2=3/3")
		b.wantEvents(
			"Normal ScalingReplicaSet Scaled up replica set {v2} from 0 to 1",
			"Normal ScalingReplicaSet Scaled down replica set {v1} from 3 to 2",
			"Normal ScalingReplicaSet Scaled up replica set {v2} from 1 to 2",
			"Normal ScalingReplicaSet Scaled down replica set {v1} from 2 to 1",
			"Normal ScalingReplicaSet Scaled up replica set {v2} from 2 to 3",
			"Normal ScalingReplicaSet Scaled down replica set {v1} from 1 to 0",
		)
		b.wantStatus("replicas 3 updated 3 ready 3 available 3 unavailable 0 terminating 0 observed 2")
		b.wantCondition("Progressing", `True NewReplicaSetAvailable: ReplicaSet "{v2}" has successfully progressed.`)

		// The template of before makes its set the new one again.
		b.image("v1")
		b.after(time.Minute)
		b.wantSizes("v1=3/3 v2=0/0")
		sets := b.sets()
		if got := sets["v1"].Annotations; got["deployment.kubernetes.io/revision"] != "3" || got["deployment.kubernetes.io/revision-history"] != "1" {
			b.Errorf("annotations %v", got)
		}
		if got := b.deployment().Annotations["deployment.kubernetes.io/revision"]; got != "3" || len(sets) != 2 {
			b.Errorf("revision %s, %d sets", got, len(sets))
		}
	})
}

func TestRollingUpdateKeepsItsBounds(t *testing.T) {
	for _, tt := range []struct {
		replicas           int32
		surge, unavailable intstr.IntOrString
		most, least        int32
	}{
		{10, intstr.FromInt32(3), intstr.FromInt32(2), 13, 8},
		{10, intstr.FromString("25%"), intstr.FromString("25%"), 13, 8},
		{4, intstr.FromInt32(0), intstr.FromInt32(1), 4, 3},
		{2, intstr.FromString("1%"), intstr.FromString("0%"), 3, 2},
		{2, intstr.FromString("0%"), intstr.FromString("1%"), 2, 1},
	} {
		t.Run(fmt.Sprintf("%d+%s-%s", tt.replicas, tt.surge.String(), tt.unavailable.String()), func(t *testing.T) {
			inBubble(t, func(b *bench) {
				d := web(tt.replicas)
				d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &tt.surge, MaxUnavailable: &tt.unavailable}
				create(b, d)
				b.after(2 * time.Second)
				b.image("v2")
				for range 120 {
					b.after(500 * time.Millisecond)
					list, err := client.As[*corev1.PodList](b.api.Others.List(b.Context(), target(controllerstest.Pods(), ""), metav1.ListOptions{}))
					if err != nil {
						b.Fatal(err)
					}
					var all, ready int32
					for _, pod := range list.Items {
						if pod.DeletionTimestamp == nil {
							all++
							if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }) {
								ready++
							}
						}
					}
					if all > tt.most || ready < tt.least {
						b.Errorf("%d pods, %d ready; want at most %d, at least %d", all, ready, tt.most, tt.least)
					}
				}
				b.wantSizes(fmt.Sprintf("v1=0/0 v2=%d/%d", tt.replicas, tt.replicas))
			})
		})
	}
}

func TestProgressDeadline(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.broken = "v2"
		create(b, web(2))
		b.after(2 * time.Second)
		b.image("v2")
		b.after(10 * time.Minute)
		b.wantCondition("Progressing", `True ReplicaSetUpdated: ReplicaSet "{v2}" is progressing.`)
		b.after(2 * time.Second)
		b.wantCondition("Progressing", `False ProgressDeadlineExceeded: ReplicaSet "{v2}" has timed out progressing.`)
		b.wantCondition("Available", "True MinimumReplicasAvailable: Deployment has minimum availability.")
		b.wantSizes("v1=2/2 v2=1/0")
		// A good template ends it: the pods that never were available go without more ado.
		b.image("v3")
		b.after(time.Minute)
		b.wantSizes("v1=0/0 v2=0/0 v3=2/2")
		b.wantCondition("Progressing", `True NewReplicaSetAvailable: ReplicaSet "{v3}" has successfully progressed.`)
	})
}

func TestPauseAndResume(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, web(4))
		b.after(2 * time.Second)
		b.change(func(d *appsv1.Deployment) { d.Spec.Paused = true })
		b.wantCondition("Progressing", "Unknown DeploymentPaused: Deployment is paused")
		b.image("v2")
		b.after(time.Hour)
		b.wantSizes("v1=4/4")
		b.change(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr(int32(6)) })
		b.after(time.Hour)
		b.wantSizes("v1=6/6") // a paused Deployment can be scaled
		b.change(func(d *appsv1.Deployment) { d.Spec.Paused = false })
		b.wantCondition("Progressing", `True ReplicaSetUpdated: ReplicaSet "{v2}" is progressing.`)
		b.after(time.Minute)
		b.wantSizes("v1=0/0 v2=6/6")
	})
}

func TestScaledDuringRolloutKeepsProportions(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.broken = "v2"
		d := web(10)
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: ptr(intstr.FromInt32(3)), MaxUnavailable: ptr(intstr.FromInt32(2))}
		create(b, d)
		b.after(2 * time.Second)
		b.image("v2")
		b.after(time.Minute)
		b.wantSizes("v1=8/8 v2=5/0")
		// The example of the documentation: 15 pods are spread as 11 and 7.
		b.change(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr(int32(15)) })
		b.after(time.Minute)
		b.wantSizes("v1=11/11 v2=7/0")
		if got := b.sets()["v1"].Annotations; got["deployment.kubernetes.io/desired-replicas"] != "15" || got["deployment.kubernetes.io/max-replicas"] != "18" {
			b.Errorf("annotations %v", got)
		}
	})
}

func TestRecreate(t *testing.T) {
	inBubble(t, func(b *bench) {
		d := web(2)
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		create(b, d)
		b.after(2 * time.Second)
		b.events.Take()
		b.image("v2")
		b.after(500 * time.Millisecond)
		b.wantSizes("v1=0/0") // the old pods are still ending
		b.after(time.Minute)
		b.wantSizes("v1=0/0 v2=2/2")
		b.wantEvents(
			"Normal ScalingReplicaSet Scaled down replica set {v1} from 2 to 0",
			"Normal ScalingReplicaSet Scaled up replica set {v2} from 0 to 2",
		)
	})
}

func TestHistoryLimit(t *testing.T) {
	inBubble(t, func(b *bench) {
		d := web(1)
		d.Spec.RevisionHistoryLimit = ptr(int32(2))
		create(b, d)
		for _, image := range []string{"v2", "v3", "v4", "v5"} {
			b.after(time.Minute)
			b.image(image)
		}
		b.after(time.Minute)
		b.wantSizes("v3=0/0 v4=0/0 v5=1/1")
	})
}

func TestAdoptsReplicaSet(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, web(2))
		b.after(2 * time.Second)
		old := b.sets()["v1"]
		b.removeOwner(old)
		b.after(time.Second)
		if got := b.sets()["v1"]; !metav1.IsControlledBy(got, b.deployment()) || got.UID != old.UID {
			b.Errorf("not adopted: %+v", got.OwnerReferences)
		}
		b.wantSizes("v1=2/2")
		update(b, target(replicaSets, old.Name), func(set *appsv1.ReplicaSet) { set.Labels = nil })
		b.after(time.Minute)
		for _, set := range b.list() {
			if set.Name == old.Name && metav1.GetControllerOf(&set) != nil {
				b.Errorf("not released: %+v", set.OwnerReferences)
			}
		}
	})
}

func TestHashCollision(t *testing.T) {
	inBubble(t, func(b *bench) {
		d, err := client.As[*appsv1.Deployment](b.api.Others.Create(b.Context(), target(deployments, ""), web(1), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
		if err != nil { // it is only to be defaulted
			b.Fatal(err)
		}
		name := "web-" + deployment.TemplateHash(&d.Spec.Template, nil)
		foreign := deployment.MakeSet(d)
		foreign.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "X", Name: "x", UID: "x", Controller: ptr(true)}}
		create(b, foreign)
		create(b, web(1))
		b.after(time.Minute)
		if got := b.deployment().Status.CollisionCount; got == nil || *got != 1 {
			b.Errorf("collision count %v", got)
		}
		items := b.list()
		if len(items) != 2 || items[0].Name == items[1].Name || items[0].Name != name && items[1].Name != name {
			b.Errorf("sets %v", items)
		}
		b.wantStatus("replicas 1 updated 1 ready 1 available 1 unavailable 0 terminating 0 observed 1")
	})
}

func TestFailuresAreReported(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Create, Resource: "replicasets", Times: -1, Err: errors.New("quota")})
		create(b, web(1))
		name := "web-" + deployment.TemplateHash(&b.deployment().Spec.Template, nil)
		b.wantCondition("Progressing", fmt.Sprintf("False ReplicaSetCreateError: Failed to create new replica set %q: quota", name))
		if got, want := b.events.Take()[0], fmt.Sprintf("Warning ReplicaSetCreateError Failed to create new replica set %q: quota", name); got != want {
			b.Errorf("event %q, want %q", got, want)
		}
		b.api.Heal()
		b.after(time.Minute)
		b.wantCondition("Progressing", `True NewReplicaSetAvailable: ReplicaSet "{v1}" has successfully progressed.`)
	})
	inBubble(t, func(b *bench) {
		b.beside.Inject(faults.Fault{Verb: faults.Create, Resource: "pods", Times: -1, Err: errors.New("quota")})
		create(b, web(1))
		b.after(time.Second)
		b.wantCondition("ReplicaFailure", "True FailedCreate: quota")
		b.beside.Heal()
		b.after(time.Hour)
		b.wantCondition("ReplicaFailure", "")
		b.wantSizes("v1=1/1")
	})
}

func TestSelectingAll(t *testing.T) {
	run(t, &bench{stored: selectingAll}, func(b *bench) {
		create(b, web(1))
		b.wantEvents(
			"Warning SelectingAll This deployment is selecting all pods. A non-empty selector is required.",
			"Warning SelectingAll This deployment is selecting all pods. A non-empty selector is required.",
		)
		if got := b.deployment().Status.ObservedGeneration; got != 1 || len(b.sets()) != 0 {
			b.Errorf("observed %d, sets %v", got, b.sets())
		}
	})
}

func TestRollbackAnnotation(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, web(1))
		b.after(time.Minute)
		b.image("v2")
		b.after(time.Minute)
		b.events.Take()
		rollback := func(to string) {
			b.change(func(d *appsv1.Deployment) { d.Annotations[appsv1.DeprecatedRollbackTo] = to })
			b.after(time.Minute)
			if _, left := b.deployment().Annotations[appsv1.DeprecatedRollbackTo]; left {
				b.Error("the annotation is still there")
			}
		}
		rollback("7")
		b.wantEvents("Warning DeploymentRollbackRevisionNotFound Unable to find the revision to rollback to.")
		rollback("2")
		b.wantEvents(`Warning DeploymentRollbackTemplateUnchanged The rollback revision contains the same template as current deployment "web"`)
		rollback("0")
		if got := b.events.Take(); len(got) == 0 || got[0] != `Normal DeploymentRollback Rolled back deployment "web" to revision 1` {
			b.Errorf("events %q", got)
		}
		b.wantSizes("v1=1/1 v2=0/0")
		if _, labelled := b.deployment().Spec.Template.Labels["pod-template-hash"]; labelled {
			b.Error("the hash label came along")
		}
	})
}

func TestDeletedDeploymentOnlyReports(t *testing.T) {
	inBubble(t, func(b *bench) {
		d := web(1)
		d.Finalizers = []string{"x/y"}
		create(b, d)
		b.after(time.Minute)
		b.remove(target(deployments, "web"))
		b.image("v2")
		b.after(time.Minute)
		b.wantSizes("v1=1/1")
		b.wantStatus("replicas 1 updated 0 ready 1 available 1 unavailable 0 terminating 0 observed 3")
	})
}

func TestEveryRunIsTheSame(t *testing.T) {
	run := func() (trace []string) {
		run(t, &bench{batch: 10 * time.Millisecond}, func(b *bench) {
			start := time.Now()
			create(b, web(5))
			b.after(10 * time.Second)
			b.image("v2")
			for range 10 {
				b.after(time.Second)
				trace = append(trace, fmt.Sprintf("%v %s %v %v", time.Since(start), b.sizes(), b.conditions(), b.events.Take()))
			}
		})
		return trace
	}
	first := run()
	for range 10 {
		if again := run(); !slices.Equal(first, again) {
			for i := range first {
				if first[i] != again[i] {
					t.Fatalf("runs differ:\n%s\n\n%s", first[i], again[i])
				}
			}
		}
	}
}
