package deployment_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/deployment"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/internal/fakeapi"
)

// scenario runs steps against a controller whose client may fail, a minute each, and returns what came of them.
func scenario(t *testing.T, d func() *appsv1.Deployment, steps ...func(*bench)) func(*trial.Client, *slog.Logger) string {
	return func(c *trial.Client, log *slog.Logger) (state string) {
		run(t, fakeapi.Options{}, &bench{client: c, log: log}, func(b *bench) {
			b.create(d())
			for _, step := range steps {
				b.after(time.Minute)
				step(b)
			}
			b.after(time.Hour)
			state = fmt.Sprintf("%s, revision %s, paused %t", b.sizes(), b.deployment().Annotations["deployment.kubernetes.io/revision"], b.deployment().Spec.Paused)
			for name, set := range b.sets() {
				state += fmt.Sprintf("\n%s: %v %d %t", name, set.Annotations, set.Spec.MinReadySeconds, metav1.IsControlledBy(set, b.deployment()))
			}
			lines := strings.Split(state, "\n")
			state = strings.Join(append(lines[:1], sorted(lines[1:])...), "\n")
		})
		return state
	}
}

// TestEveryFailure: whichever request fails, the failure is reported and made up for.
func TestEveryFailure(t *testing.T) {
	image := func(image string) func(*bench) { return func(b *bench) { b.image(image) } }
	size := func(n int32) func(*bench) {
		return func(b *bench) { b.change(func(d *appsv1.Deployment) { d.Spec.Replicas = &n }) }
	}
	pause := func(paused bool) func(*bench) {
		return func(b *bench) { b.change(func(d *appsv1.Deployment) { d.Spec.Paused = paused }) }
	}
	annotate := func(name, value string) func(*bench) {
		return func(b *bench) { b.change(func(d *appsv1.Deployment) { d.Annotations[name] = value }) }
	}
	orphan := func(b *bench) {
		synctest.Wait()
		for _, set := range b.sets() {
			set.OwnerReferences = nil
			if _, err := b.api.Update(b.Context(), target(replicaSets, set.Name), set, metav1.UpdateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	limited := func() *appsv1.Deployment {
		d := web(1)
		d.Spec.RevisionHistoryLimit = ptr(int32(1))
		return d
	}
	recreated := func() *appsv1.Deployment {
		d := web(1)
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		return d
	}
	for name, s := range map[string]func(*trial.Client, *slog.Logger) string{
		"rollouts": scenario(t, limited, image("v2"), image("v3"), annotate("note", "n"), func(b *bench) {
			b.change(func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 5 })
		}),
		"rollback":    scenario(t, limited, image("v2"), annotate(appsv1.DeprecatedRollbackTo, "1")),
		"no rollback": scenario(t, limited, annotate(appsv1.DeprecatedRollbackTo, "0")),
		"same":        scenario(t, limited, annotate(appsv1.DeprecatedRollbackTo, "1")),
		"no such":     scenario(t, limited, annotate(appsv1.DeprecatedRollbackTo, "7")),
		"pause":       scenario(t, limited, pause(true), size(2), image("v2"), pause(false)),
		"scale":       scenario(t, limited, size(2), size(0)),
		"adoption":    scenario(t, limited, orphan),
		"recreate":    scenario(t, recreated, image("v2"), image("v1"), size(2)),
		"deletion": scenario(t, func() *appsv1.Deployment { d := web(1); d.Finalizers = []string{"x/y"}; return d }, func(b *bench) {
			if err := b.api.Delete(b.Context(), target(deployments, "web"), metav1.DeleteOptions{}); err != nil {
				b.Fatal(err)
			}
		}),
		"nobody's": scenario(t, func() *appsv1.Deployment { d := web(1); d.Spec.Selector = &metav1.LabelSelector{}; return d }, func(b *bench) {
			b.change(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr(int32(2)) })
		}),
	} {
		t.Run(name, func(t *testing.T) { trial.EveryFailure(t, nil, s) })
	}
}

// TestSlowCache: what the cache does not show yet is not done again.
func TestSlowCache(t *testing.T) {
	inBubble(t, fakeapi.Options{}, func(b *bench) {
		writes := func(want string) {
			b.Helper()
			count := map[string]int{}
			for _, a := range b.api.Actions() {
				if a.Target.Resource != fakeapi.Pods {
					count[a.Verb+" "+a.Target.Resource.Resource+" "+a.Target.Subresource]++
				}
			}
			if got := fmt.Sprint(count); got != want {
				b.Errorf("writes %s, want %s", got, want)
			}
			b.api.Reset()
		}
		b.feeds.sets.Hold()
		b.create(web(1))
		b.change(func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "b"} })
		writes("map[create deployments :1 create replicasets :1 update deployments :1 update deployments status:2]") // revision and counts
		b.feeds.sets.Resume()
		b.after(time.Minute)
		b.wantSizes("v1=1/1")
		b.api.Reset()

		b.feeds.sets.Hold() // the set is sized once
		b.change(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr(int32(2)) })
		b.change(func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "c"} })
		b.change(func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "d"} })
		writes("map[update deployments :3 update deployments status:1 update replicasets :1]")
		b.feeds.sets.Resume()
		b.after(time.Minute)
		b.wantSizes("v1=2/2")
		b.api.Reset()
	})
}

// TestSlowCacheOfDeployments: the Deployment itself may be what the cache is late with.
func TestSlowCacheOfDeployments(t *testing.T) {
	inBubble(t, fakeapi.Options{}, func(b *bench) {
		b.create(web(2))
		b.feeds.deployments.Hold() // from here on its status is what the controller wrote last
		b.api.Reset()
		b.after(time.Minute)
		updates := 0
		for _, a := range b.api.Actions() {
			if a.Target.Resource == deployments {
				updates++
			}
		}
		if updates != 1 {
			b.Errorf("%d writes on a version that is known to be old", updates)
		}
		b.feeds.deployments.Resume()
		b.after(time.Minute)
		b.wantStatus("replicas 2 updated 2 ready 2 available 2 unavailable 0 terminating 0 observed 1")
	})
}

// TestReasons: what is told of the progress, and that a set is made with all it needs.
func TestReasons(t *testing.T) {
	var said, sets []string
	inBubble(t, fakeapi.Options{Before: func(a fakeapi.Action) error {
		if d, ok := a.Object.(*appsv1.Deployment); ok && a.Target.Subresource == "status" {
			for _, c := range d.Status.Conditions {
				if c.Type == appsv1.DeploymentProgressing && (len(said) == 0 || said[len(said)-1] != c.Reason) {
					said = append(said, c.Reason)
				}
			}
		}
		if a.Target.Resource == replicaSets && a.Target.Subresource == "" {
			sets = append(sets, a.Verb)
		}
		return nil
	}}, func(b *bench) {
		want := func(what, wantSaid, wantSets string) {
			b.Helper()
			b.after(time.Minute)
			if got := strings.Join(said, " "); got != wantSaid {
				b.Errorf("%s: said %s, want %s", what, got, wantSaid)
			}
			if got := strings.Join(sets, " "); !strings.HasPrefix(got+" ", wantSets+" ") || wantSets == "" && got != "" {
				b.Errorf("%s: sets: %s, want %s", what, got, wantSets)
			}
			said, sets = nil, nil
		}
		b.create(web(1))
		want("new", "NewReplicaSetCreated ReplicaSetUpdated NewReplicaSetAvailable", "create")
		b.api.Reset()
		b.change(func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "b"} })
		want("nothing to say", "", "")
		if got := len(b.api.Actions()); got != 1 {
			b.Errorf("nothing to write, but %v", b.api.Actions())
		}
		if err := b.api.Delete(b.Context(), target(deployments, "web"), metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.after(time.Minute)
		set := b.sets()["v1"]
		set.OwnerReferences = nil
		if _, err := b.api.Update(b.Context(), target(replicaSets, set.Name), set, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		said, sets = nil, nil
		b.create(web(1))
		want("made again", "FoundNewReplicaSet NewReplicaSetAvailable", "patch")
		b.change(func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = nil })
		b.image("v2")
		said, sets = nil, nil
		b.image("v3")
		want("nobody watches", "", "create")
		b.wantCondition("Progressing", "")
	})
}

// TestPausedRollback: a paused Deployment is rolled back when it is resumed.
func TestPausedRollback(t *testing.T) {
	inBubble(t, fakeapi.Options{}, func(b *bench) {
		b.create(web(1))
		b.after(time.Minute)
		b.image("v2")
		b.after(time.Minute)
		b.change(func(d *appsv1.Deployment) { d.Spec.Paused = true; d.Annotations[appsv1.DeprecatedRollbackTo] = "1" })
		b.after(time.Minute)
		b.wantSizes("v1=0/0 v2=1/1")
		b.change(func(d *appsv1.Deployment) { d.Spec.Paused = false })
		b.after(time.Minute)
		b.wantSizes("v1=1/1 v2=0/0")
	})
}

// TestOddDeployments: one that selects by expressions alone is as good, a strategy that nobody knows is an error, and that a set
// is gone already when it is to be deleted is none.
func TestOddDeployments(t *testing.T) {
	gone := false
	inBubble(t, fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Delete && a.Target.Resource == replicaSets {
			gone = true
			return apierrors.NewNotFound(replicaSets.GroupResource(), a.Target.Name)
		}
		return nil
	}}, func(b *bench) {
		d := web(1)
		d.Spec.RevisionHistoryLimit = ptr(int32(0))
		d.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}
		b.create(d)
		b.after(time.Minute)
		b.image("v2")
		b.after(time.Minute)
		b.wantSizes("v1=0/0 v2=1/1")
		b.wantCondition("Progressing", `True NewReplicaSetAvailable: ReplicaSet "{v2}" has successfully progressed.`)
		if !gone {
			b.Error("nothing was cleaned up")
		}
	})
	var out bytes.Buffer
	run(t, fakeapi.Options{}, &bench{log: slog.New(slog.NewTextHandler(&out, nil))}, func(b *bench) {
		d := web(1)
		d.Spec.Strategy.Type = "Odd"
		b.create(d)
		if !strings.Contains(out.String(), "unexpected deployment strategy type: Odd") {
			b.Errorf("logged %s", out.String())
		}
	})
}

// TestTransition: progress renews the time of its condition, but of the transition only when it was not progressing.
func TestTransition(t *testing.T) {
	now := metav1.NewTime(time.Unix(10_000, 0))
	for status, want := range map[corev1.ConditionStatus]int64{corev1.ConditionTrue: 5000, corev1.ConditionFalse: 10_000} {
		then := metav1.NewTime(time.Unix(5000, 0))
		d := web(3)
		d.CreationTimestamp = now // which is the present, there
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: status, Reason: "ReplicaSetUpdated", LastUpdateTime: then, LastTransitionTime: then}}
		for _, c := range deployment.RolloutStatus(d, set("v1", 2, 1))().Conditions {
			if c.Type == appsv1.DeploymentProgressing && (c.LastTransitionTime.Unix() != want || c.LastUpdateTime.Unix() != 10_000) {
				t.Errorf("%s: %+v", status, c)
			}
		}
	}
}
