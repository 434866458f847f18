package daemonset_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/daemonset"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
)

// terminating is the answer to creations in a namespace that is being deleted.
func terminating() error {
	err := apierrors.NewForbidden(controllerstest.Pods().GroupResource(), "", fmt.Errorf("ends"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

// TestEveryFailure: whichever request fails, the failure is reported and the work is done by a retry. An update of the
// status is repeated at once.
func TestEveryFailure(t *testing.T) {
	status := func(request string) bool { return strings.Contains(request, "/status ") }
	trial.EveryFailure(t, status, func(c *trial.Client, log *slog.Logger) (state string) {
		run(t, &bench{client: c, log: log}, func(b *bench) {
			b.kubelets(time.Second, time.Second)
			b.nodes("a", "b")
			stray := pod("a-stray")
			stray.Labels = app("log")
			create(b, stray)
			for i, name := range []string{"r1", "r2"} {
				create(b, &appsv1.ControllerRevision{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: app("log")}, Revision: int64(i + 1), Data: dataOf(b, stored(b)),
				})
			}
			create(b, logs(func(set *appsv1.DaemonSet) { set.Spec.RevisionHistoryLimit = new(int32(0)) }))
			b.after(time.Minute)
			b.change(image("two"))
			b.after(time.Minute)
			b.change(image("one"))
			b.after(time.Minute)
			b.change(func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.NodeSelector = map[string]string{"on": "a"} })
			b.after(time.Minute)
			numbers := ""
			for _, r := range b.history() {
				numbers += fmt.Sprintf(" %d", r.Revision)
			}
			s := b.set().Status
			s.Conditions = nil
			state = fmt.Sprintf("%s; revisions%s; %+v", b.where(), numbers, s)
		})
		return state
	})
}

// TestReported: each failure is an error of the reconciliation, whatever else was done.
func TestReported(t *testing.T) {
	old := func(b *bench) { // a set that runs, changed
		b.nodes("a")
		create(b, logs())
		b.kubelets(0, 0)
		b.reconcile("")
		b.after(time.Second)
		b.reconcile("")
		b.change(image("two"))
	}
	for name, tt := range map[string]struct {
		before func(*bench)
		fault  faults.Fault
		want   string
	}{
		"adopting": {func(b *bench) {
			stray := pod("a-stray")
			stray.Labels = app("log")
			create(b, stray)
			create(b, logs())
		}, faults.Fault{Verb: faults.Patch, Resource: "pods"}, "down"},
		"making a revision":  {func(b *bench) { create(b, logs()) }, faults.Fault{Verb: faults.Create, Resource: "controllerrevisions"}, "failed to construct revisions of DaemonSet: down"},
		"creating":           {func(b *bench) { b.nodes("a"); create(b, logs()) }, faults.Fault{Verb: faults.Create, Resource: "pods"}, "down"},
		"rolling out":        {old, faults.Fault{Verb: faults.Delete, Resource: "pods"}, "unable to delete pods: down"},
		"asking for the set": {func(b *bench) { b.nodes("a"); create(b, logs()) }, faults.Fault{Verb: faults.Get, Resource: "daemonsets"}, "down"},
		"forgetting": {func(b *bench) {
			old(b)
			b.reconcile("")
			b.after(time.Second)
			// Only now: the reconciliation above forgets the old revision if it sees the last pod of it go.
			b.change(func(set *appsv1.DaemonSet) { set.Spec.RevisionHistoryLimit = new(int32(0)) })
		}, faults.Fault{Verb: faults.Delete, Resource: "controllerrevisions"}, "failed to clean up revisions of DaemonSet: down"},
		"writing the status": {func(b *bench) { b.nodes("a"); create(b, logs()) }, faults.Fault{Verb: faults.Update, Resource: "daemonsets/status", Times: 2},
			"error storing status for daemon set ns/log: down"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{}
				in, c := b.controller(t, daemonset.Options{Parallel: 1})
				b.reconcile = func(want string) {
					synctest.Wait()
					if _, err := c.Reconcile(t.Context(), controllers.Key{Namespace: "ns", Name: "log"}); fmt.Sprint(err) != cmp.Or(want, "<nil>") {
						t.Errorf("error %v, want %q", err, want)
					}
					synctest.Wait()
				}
				c.Watch(&trial.Queue{})
				controllerstest.Go(t, in.DaemonSets, in.Revisions, in.Pods, in.Nodes)
				tt.before(b)
				tt.fault.Err = trial.ErrDown
				b.api.Inject(tt.fault)
				b.reconcile(tt.want)
			})
		})
	}
}

// TestLabelsOfNone: a template may have no labels where the selector wants none.
func TestLabelsOfNone(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.nodes("a")
		create(b, logs(func(set *appsv1.DaemonSet) {
			set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}}}
			set.Spec.Template.Labels = nil
		}))
		b.wantPods("a one")
	})
}

// TestStatusFailsTwice: the second failure to update a status is reported, and so is a failure to read the set in between.
func TestStatusFailsTwice(t *testing.T) {
	for name, all := range map[string][]faults.Fault{
		"twice":    {{Verb: faults.Update, Times: 2, Err: trial.ErrDown}},
		"not read": {{Verb: faults.Update, Err: trial.ErrDown}, {Verb: faults.Get, Err: trial.ErrDown}},
	} {
		log := trial.NewLog()
		run(t, &bench{log: slog.New(log)}, func(b *bench) {
			for _, f := range all {
				b.api.Inject(f)
			}
			create(b, logs())
			b.after(time.Minute)
			if log.Count() != 1 {
				b.Errorf("%s: reported %d times", name, log.Count())
			}
			b.wantStatus("desired 0 current 0 misscheduled 0 ready 0 updated 0 available 0 unavailable 0 observed 1")
		})
	}
}

// TestStatusConflict: a status is written once more on the set as it then is, with the generation that was acted upon.
func TestStatusConflict(t *testing.T) {
	inBubble(t, func(b *bench) {
		interfered := false
		b.before = func(r faults.Request) error {
			if r.Verb != faults.Update || r.Target.Subresource != "status" || interfered {
				return nil
			}
			interfered = true
			set := b.set().DeepCopy()
			set.Labels = map[string]string{"x": "y"}
			_, err := b.api.Others.Update(b.Context(), at("log"), set, metav1.UpdateOptions{})
			return err
		}
		create(b, logs())
		b.after(time.Minute)
		if set := b.set(); set.Labels["x"] != "y" || set.Status.ObservedGeneration != 1 || !interfered {
			b.Errorf("set %+v", set)
		}
	})
}
