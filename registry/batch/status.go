package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func hasStatus(conditions []batchv1.JobCondition, t batchv1.JobConditionType, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(conditions, func(c batchv1.JobCondition) bool { return c.Type == t && c.Status == status })
}

func isTrue(conditions []batchv1.JobCondition, t batchv1.JobConditionType) bool {
	return hasStatus(conditions, t, corev1.ConditionTrue)
}

// view is what a status says, in terms of which it is judged.
type view struct {
	*batchv1.JobStatus
	complete, failed, finished, failing, succeeding bool
}

func viewOf(s *batchv1.JobStatus) view {
	v := view{JobStatus: s}
	v.complete, v.failed = isTrue(s.Conditions, batchv1.JobComplete), isTrue(s.Conditions, batchv1.JobFailed)
	v.finished = v.complete || v.failed
	v.failing, v.succeeding = isTrue(s.Conditions, batchv1.JobFailureTarget), isTrue(s.Conditions, batchv1.JobSuccessCriteriaMet)
	return v
}

// judge collects the errors of a status update. Most rules look only at fields that change: a violation that is there
// already, or that a change of the spec made, must not keep a controller from writing the rest of the status.
type judge struct {
	spec     *batchv1.JobSpec
	now, old view
	path     *field.Path
	errs     field.ErrorList
}

func validateJobStatus(j, old *batchv1.Job) field.ErrorList {
	g := &judge{spec: &j.Spec, now: viewOf(&j.Status), old: viewOf(&old.Status), path: field.NewPath("status")}
	g.counts()
	g.uncounted()
	g.ends()
	g.finished()
	g.indexes()
	g.pods()
	g.criteria()
	g.transitions()
	return g.errs
}

func (g *judge) refuse(wrong bool, name string, value any, message string) {
	if wrong {
		g.errs = append(g.errs, field.Invalid(g.path.Child(name), value, message))
	}
}

func (g *judge) refuseConditions(wrong bool, message string) {
	g.refuse(wrong, "conditions", field.OmitValueType{}, message)
}

func (g *judge) require(missing bool, name, message string) {
	if missing {
		g.errs = append(g.errs, field.Required(g.path.Child(name), message))
	}
}

func (g *judge) counts() {
	s := g.now
	g.errs = append(g.errs, check.Nonnegative(g.path.Child("active"), s.Active)...)
	g.errs = append(g.errs, check.Nonnegative(g.path.Child("succeeded"), s.Succeeded)...)
	g.errs = append(g.errs, check.Nonnegative(g.path.Child("failed"), s.Failed)...)
	g.errs = append(g.errs, check.NonnegativeIfSet(g.path.Child("ready"), s.Ready)...)
	g.errs = append(g.errs, check.NonnegativeIfSet(g.path.Child("terminating"), s.Terminating)...)
}

func (g *judge) uncounted() {
	pods := g.now.UncountedTerminatedPods
	if pods == nil {
		return
	}
	seen := map[types.UID]bool{}
	each := func(name string, uids []types.UID) {
		for i, uid := range uids {
			switch path := g.path.Child("uncountedTerminatedPods", name).Index(i); {
			case uid == "":
				g.errs = append(g.errs, field.Invalid(path, uid, "must not be empty"))
			case seen[uid]:
				g.errs = append(g.errs, field.Duplicate(path, uid))
			}
			seen[uid] = true
		}
	}
	each("succeeded", pods.Succeeded)
	each("failed", pods.Failed)
}

// ends judges how a job ended.
func (g *judge) ends() {
	now, old := g.now, g.old
	completes := now.complete != old.complete
	ended := !now.CompletionTime.Equal(old.CompletionTime)
	started := !now.StartTime.Equal(old.StartTime)
	g.refuseConditions((completes || now.failed != old.failed) && now.complete && now.failed,
		"cannot set Complete=True and Failed=true conditions")
	g.refuseConditions((completes || now.failing != old.failing) && now.complete && now.failing,
		"cannot set Complete=True and FailureTarget=true conditions")
	g.refuse((completes || ended) && now.CompletionTime != nil && !now.complete, "completionTime", now.CompletionTime,
		"cannot set completionTime when there is no Complete=True condition")
	g.require((completes || ended) && now.CompletionTime == nil && now.complete, "completionTime", "completionTime is required for Complete jobs")
	g.refuse((started || ended) && now.CompletionTime.Before(now.StartTime),
		"completionTime", now.CompletionTime, "must be equal to or after `startTime`")
	g.refuseConditions((now.failed != old.failed || g.failedIndexesChanged()) && now.failed && !now.failing,
		"cannot set Failed=True condition without the FailureTarget=true condition")
	g.refuseConditions((completes || now.succeeding != old.succeeding) && now.complete && !now.succeeding,
		"cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
}

// finished judges what a finished job may not have.
func (g *judge) finished() {
	now, old := g.now, g.old
	if !now.finished {
		return
	}
	finishes := !old.finished
	g.refuse((finishes || now.Active != old.Active) && now.Active > 0, "active", now.Active, "active>0 is invalid for finished job")
	empty := isSet(g.spec.Suspend) && g.spec.Completions != nil && *g.spec.Completions == 0 // it never starts
	g.require((finishes || !now.StartTime.Equal(old.StartTime)) && !empty && now.StartTime == nil,
		"startTime", "startTime is required for finished job")
	pods := now.UncountedTerminatedPods
	g.refuse((finishes || !equality.Semantic.DeepEqual(pods, old.UncountedTerminatedPods)) && pods != nil && len(pods.Succeeded)+len(pods.Failed) > 0,
		"uncountedTerminatedPods", podspec.Shown(pods), "must be empty for finished job")
}

func (g *judge) failedIndexesChanged() bool {
	return !equalPointers(g.now.FailedIndexes, g.old.FailedIndexes)
}

func (g *judge) indexes() {
	completed, failed := g.now.CompletedIndexes, g.now.FailedIndexes
	newCompleted, newFailed := completed != g.old.CompletedIndexes, g.failedIndexesChanged()
	perIndex := g.spec.BackoffLimitPerIndex != nil
	if g.spec.Completions != nil && newCompleted {
		if _, err := countIndexes(completed, *g.spec.Completions); err != nil {
			g.refuse(true, "completedIndexes", completed, fmt.Sprintf("error parsing completedIndexes: %s", err))
		}
	}
	if g.spec.Completions != nil && newFailed && perIndex && failed != nil {
		if _, err := countIndexes(*failed, *g.spec.Completions); err != nil {
			g.refuse(true, "failedIndexes", *failed, fmt.Sprintf("error parsing failedIndexes: %s", err))
		}
	}
	g.refuse(newCompleted && completed != "" && !isIndexed(g.spec), "completedIndexes", completed,
		"cannot set non-empty completedIndexes when non-indexed completion mode")
	g.refuse(newFailed && !perIndex && failed != nil, "failedIndexes", failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	if (newCompleted || newFailed) && g.spec.Completions != nil && failed != nil {
		if err := disjoint(completed, *failed, *g.spec.Completions); err != nil {
			g.refuse(true, "failedIndexes", *failed, err.Error())
		}
	}
}

func (g *judge) pods() {
	now, old := g.now, g.old
	g.refuse((now.finished != old.finished || !equalPointers(now.Terminating, old.Terminating)) && now.finished && now.Terminating != nil && *now.Terminating > 0,
		"terminating", now.Terminating, "terminating>0 is invalid for finished job")
	g.refuse((!equalPointers(now.Ready, old.Ready) || now.Active != old.Active) && now.Ready != nil && *now.Ready > now.Active,
		"ready", now.Ready, "cannot set more ready pods than active")
}

// criteria judges the condition that announces success.
func (g *judge) criteria() {
	g.refuseConditions(g.now.succeeding && g.now.failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
	g.refuseConditions(g.now.succeeding && g.now.failing, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	g.refuseConditions(g.spec.SuccessPolicy != nil && !g.now.succeeding && g.now.complete,
		"cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
}

// transitions judges what may not be taken back.
func (g *judge) transitions() {
	now, old := g.now, g.old
	for _, t := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		g.refuseConditions(isTrue(old.Conditions, t) && !isTrue(now.Conditions, t), fmt.Sprintf("cannot disable the terminal %s=True condition", t))
	}
	g.refuse(now.Failed < old.Failed, "failed", now.Failed, "cannot decrease the failed counter")
	elastic := isIndexed(g.spec) && equalPointers(g.spec.Completions, g.spec.Parallelism) // completed indexes go when it shrinks
	g.refuse(!elastic && now.Succeeded < old.Succeeded, "succeeded", now.Succeeded, "cannot decrease the succeeded counter")
	g.refuse(now.CompletionTime != nil && old.CompletionTime != nil && !now.CompletionTime.Equal(old.CompletionTime),
		"completionTime", now.CompletionTime, "field is immutable")
	resumes := isTrue(old.Conditions, batchv1.JobSuspended) && hasStatus(now.Conditions, batchv1.JobSuspended, corev1.ConditionFalse)
	g.refuse(!resumes && old.StartTime != nil && !now.StartTime.Equal(old.StartTime) && !isSet(g.spec.Suspend),
		"startTime", now.StartTime, "field is immutable for unsuspended job once set")
	g.refuseConditions(old.succeeding && !now.succeeding, "cannot disable the SuccessCriteriaMet=True condition")
	g.refuseConditions(old.complete && !old.succeeding && now.succeeding, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
}

func equalPointers[T int32 | string](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
