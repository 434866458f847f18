package deployment_test

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/deployment"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
)

// scenario is what happens to a Deployment: steps, a minute each.
type scenario struct {
	d      func() *appsv1.Deployment
	stored func(*appsv1.Deployment)
	steps  []func(*bench)
}

// run plays the scenario against a controller whose client may fail, and returns what came of it.
func (s scenario) run(t *testing.T) func(*trial.Client, *slog.Logger) string {
	return func(c *trial.Client, log *slog.Logger) (state string) {
		run(t, &bench{client: c, log: log, stored: s.stored}, func(b *bench) {
			create(b, s.d())
			for _, step := range s.steps {
				b.after(time.Minute)
				step(b)
			}
			b.after(time.Hour)
			var sets []string
			for name, set := range b.sets() {
				sets = append(sets, fmt.Sprintf("\n%s: %v %d %t", name, set.Annotations, set.Spec.MinReadySeconds, metav1.IsControlledBy(set, b.deployment())))
			}
			slices.Sort(sets)
			state = fmt.Sprintf("%s, revision %s, paused %t", b.sizes(), b.deployment().Annotations["deployment.kubernetes.io/revision"], b.deployment().Spec.Paused) + strings.Join(sets, "")
		})
		return state
	}
}

// TestEveryFailure: whichever request fails, the failure is reported and the work is done by a retry.
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
			b.removeOwner(set)
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
	finalized := func() *appsv1.Deployment {
		d := web(1)
		d.Finalizers = []string{"x/y"}
		return d
	}
	type steps = []func(*bench)
	for name, s := range map[string]scenario{
		"rollouts": {d: limited, steps: steps{image("v2"), image("v3"), annotate("note", "n"), func(b *bench) {
			b.change(func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 5 })
		}}},
		"rollback":    {d: limited, steps: steps{image("v2"), annotate(appsv1.DeprecatedRollbackTo, "1")}},
		"no rollback": {d: limited, steps: steps{annotate(appsv1.DeprecatedRollbackTo, "0")}},
		"same":        {d: limited, steps: steps{annotate(appsv1.DeprecatedRollbackTo, "1")}},
		"no such":     {d: limited, steps: steps{annotate(appsv1.DeprecatedRollbackTo, "7")}},
		"pause":       {d: limited, steps: steps{pause(true), size(2), image("v2"), pause(false)}},
		"scale":       {d: limited, steps: steps{size(2), size(0)}},
		"adoption":    {d: limited, steps: steps{orphan}},
		"recreate":    {d: recreated, steps: steps{image("v2"), image("v1"), size(2)}},
		"deletion":    {d: finalized, steps: steps{func(b *bench) { b.remove(target(deployments, "web")) }}},
		"nobody's":    {d: limited, stored: selectingAll, steps: steps{size(2)}},
	} {
		t.Run(name, func(t *testing.T) { trial.EveryFailure(t, nil, s.run(t)) })
	}
}

// TestSlowCache: what the cache does not show yet is not done again.
func TestSlowCache(t *testing.T) {
	inBubble(t, func(b *bench) {
		writes := func(want string) {
			b.Helper()
			want = strings.ReplaceAll(want, "{v1}", b.sets()["v1"].Name)
			if got := fmt.Sprint(b.api.Writes()); got != want {
				b.Errorf("writes %s, want %s", got, want)
			}
			b.api.Reset()
		}
		b.feeds.sets.Hold()
		create(b, web(1))
		b.change(func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "b"} })
		writes("[create replicasets ns/{v1} update deployments/status ns/web update deployments/status ns/web]") // revision and counts
		b.feeds.sets.Resume()
		b.after(time.Minute)
		b.wantSizes("v1=1/1")
		b.api.Reset()

		b.feeds.sets.Hold() // the set is sized once
		b.change(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr(int32(2)) })
		b.change(func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "c"} })
		b.change(func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "d"} })
		writes("[update replicasets ns/{v1} update deployments/status ns/web]")
		b.feeds.sets.Resume()
		b.after(time.Minute)
		b.wantSizes("v1=2/2")
	})
}

// TestSlowCacheOfDeployments: nothing is written while the cache shows an older Deployment than the controller wrote.
func TestSlowCacheOfDeployments(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, web(2))
		b.feeds.deployments.Hold() // from here on its status is what the controller wrote last
		b.api.Reset()
		b.after(time.Minute)
		if got := fmt.Sprint(b.api.Writes()); got != "[update deployments/status ns/web]" {
			b.Errorf("writes on a version that is known to be old: %s", got)
		}
		b.feeds.deployments.Resume()
		b.after(time.Minute)
		b.wantStatus("replicas 2 updated 2 ready 2 available 2 unavailable 0 terminating 0 observed 1")
	})
}

// TestReasons: the reasons of the condition Progressing, and that a set is complete when it is created.
func TestReasons(t *testing.T) {
	inBubble(t, func(b *bench) {
		want := func(what, wantSaid, wantSets string) {
			b.Helper()
			b.after(time.Minute)
			var said, sets []string
			for _, r := range b.api.Writes() {
				if r.Target.Resource == replicaSets {
					sets = append(sets, r.Verb)
				}
				if d, ok := r.Object.(*appsv1.Deployment); ok && r.Target.Subresource == "status" {
					for _, c := range d.Status.Conditions {
						if c.Type == appsv1.DeploymentProgressing && (len(said) == 0 || said[len(said)-1] != c.Reason) {
							said = append(said, c.Reason)
						}
					}
				}
			}
			if got := strings.Join(said, " "); got != wantSaid {
				b.Errorf("%s: said %s, want %s", what, got, wantSaid)
			}
			if got := strings.Join(sets, " "); !strings.HasPrefix(got+" ", wantSets+" ") || wantSets == "" && got != "" {
				b.Errorf("%s: sets: %s, want %s", what, got, wantSets)
			}
			b.api.Reset()
		}
		create(b, web(1))
		want("new", "NewReplicaSetCreated ReplicaSetUpdated NewReplicaSetAvailable", "create")
		b.change(func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "b"} })
		b.after(time.Minute)
		if all := b.api.Writes(); len(all) != 0 {
			b.Errorf("nothing to write, but %v", all)
		}
		b.remove(target(deployments, "web"))
		b.after(time.Minute)
		b.removeOwner(b.sets()["v1"])
		b.api.Reset()
		create(b, web(1))
		want("made again", "FoundNewReplicaSet NewReplicaSetAvailable", "patch")
		b.change(func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = ptr(int32(math.MaxInt32)) })
		b.image("v2")
		b.api.Reset()
		b.image("v3")
		want("no deadline", "", "create")
		b.wantCondition("Progressing", "")
	})
}

// TestPausedRollback: a paused Deployment is rolled back when it is resumed.
func TestPausedRollback(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, web(1))
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

// TestOddDeployments: a selector may consist of expressions alone, an unknown strategy is an error, and to delete a set that is gone
// already is none.
func TestOddDeployments(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Delete, Times: -1, Err: apierrors.NewNotFound(replicaSets.GroupResource(), "")})
		d := web(1)
		d.Spec.RevisionHistoryLimit = ptr(int32(0))
		d.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}
		create(b, d)
		b.after(time.Minute)
		b.image("v2")
		b.after(time.Minute)
		b.wantSizes("v1=0/0 v2=1/1")
		b.wantCondition("Progressing", `True NewReplicaSetAvailable: ReplicaSet "{v2}" has successfully progressed.`)
		if !slices.ContainsFunc(b.api.Writes(), func(r faults.Request) bool { return r.Verb == faults.Delete && r.Target.Resource == replicaSets }) {
			b.Error("nothing was cleaned up")
		}
	})
	var out trial.Text
	odd := func(d *appsv1.Deployment) { d.Spec.Strategy.Type = "Odd" }
	run(t, &bench{log: slog.New(slog.NewTextHandler(&out, nil)), stored: odd}, func(b *bench) {
		create(b, web(1))
		if !strings.Contains(out.String(), "unexpected deployment strategy type: Odd") {
			b.Errorf("logged %s", out.String())
		}
	})
}

// TestTransition: progress renews the update time of its condition, and the transition time only if there was none before.
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
