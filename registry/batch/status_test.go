package batch_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/registry/registrytest"
)

// conditions returns conditions that are true.
func conditions(list ...batchv1.JobConditionType) []batchv1.JobCondition {
	var all []batchv1.JobCondition
	for _, t := range list {
		all = append(all, batchv1.JobCondition{Type: t, Status: corev1.ConditionTrue})
	}
	return all
}

func at(seconds int64) *metav1.Time { return new(metav1.Unix(seconds, 0)) }

const (
	complete   = batchv1.JobComplete
	failed     = batchv1.JobFailed
	failing    = batchv1.JobFailureTarget
	succeeding = batchv1.JobSuccessCriteriaMet
	suspended  = batchv1.JobSuspended
)

func started(t *testing.T) *batchv1.Job {
	j := storedJob(t)
	j.Status.StartTime = at(100)
	return j
}

func TestStatusCounts(t *testing.T) {
	registrytest.Update(t, jobs(t), "status", started(t), []change{
		{Name: "the spec stays", To: func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(-1)) }},
		{Name: "some", To: func(j *batchv1.Job) {
			j.Status.Active, j.Status.Ready, j.Status.Terminating, j.Status.Failed, j.Status.Succeeded = 2, new(int32(2)), new(int32(1)), 3, 4
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a"}, Failed: []types.UID{"b"}}
		}},
		{Name: "negative", To: func(j *batchv1.Job) {
			j.Status.Active, j.Status.Succeeded, j.Status.Failed, j.Status.Ready, j.Status.Terminating = -1, -2, -3, new(int32(-4)), new(int32(-5))
		}, Refused: []string{
			"status.active: Invalid value: -1" + nonnegative,
			"status.succeeded: Invalid value: -2" + nonnegative,
			"status.failed: Invalid value: -3" + nonnegative,
			"status.ready: Invalid value: -4" + nonnegative,
			"status.terminating: Invalid value: -5" + nonnegative,
			"status.failed: Invalid value: -3: cannot decrease the failed counter",
			"status.succeeded: Invalid value: -2: cannot decrease the succeeded counter"}},
		{Name: "uncounted", To: func(j *batchv1.Job) {
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a", "", "a"}, Failed: []types.UID{"b", "a", ""}}
		}, Refused: []string{
			`status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty`,
			`status.uncountedTerminatedPods.succeeded[2]: Duplicate value: "a"`,
			`status.uncountedTerminatedPods.failed[1]: Duplicate value: "a"`,
			`status.uncountedTerminatedPods.failed[2]: Invalid value: "": must not be empty`}},
		{Name: "ready", To: func(j *batchv1.Job) { j.Status.Active, j.Status.Ready = 1, new(int32(2)) }, Refused: []string{
			"status.ready: Invalid value: 2: cannot set more ready pods than active"}},
	})
	busy := started(t)
	busy.Status.Active, busy.Status.Ready = 2, new(int32(2))
	registrytest.Update(t, jobs(t), "status", busy, []change{
		{Name: "fewer active than ready", To: func(j *batchv1.Job) { j.Status.Active = 1 }, Refused: []string{
			"status.ready: Invalid value: 2: cannot set more ready pods than active"}},
	})
	counted := started(t)
	counted.Status.Failed, counted.Status.Succeeded = 2, 2
	fewer := []change{
		{Name: "fewer failed", To: func(j *batchv1.Job) { j.Status.Failed = 1 }, Refused: []string{
			"status.failed: Invalid value: 1: cannot decrease the failed counter"}},
		{Name: "fewer succeeded", To: func(j *batchv1.Job) { j.Status.Succeeded = 1 }, Refused: []string{
			"status.succeeded: Invalid value: 1: cannot decrease the succeeded counter"}},
	}
	registrytest.Update(t, jobs(t), "status", counted, fewer)
	elastic := indexed(counted.DeepCopy())
	registrytest.Update(t, jobs(t), "status", elastic, []change{fewer[0], {Name: "shrunk", To: fewer[1].To}})
	rigid := elastic.DeepCopy()
	rigid.Spec.Parallelism = new(int32(2))
	registrytest.Update(t, jobs(t), "status", rigid, fewer)
}

func TestStatusEnds(t *testing.T) {
	registrytest.Update(t, jobs(t), "status", started(t), []change{
		{Name: "succeeds", To: func(j *batchv1.Job) { j.Status.Conditions = conditions(succeeding) }},
		{Name: "completes", To: func(j *batchv1.Job) {
			j.Status.Conditions, j.Status.CompletionTime = conditions(succeeding, complete), at(100)
		}},
		{Name: "fails", To: func(j *batchv1.Job) { j.Status.Conditions = conditions(failing, failed) }},
		{Name: "both", To: func(j *batchv1.Job) {
			j.Status.Conditions, j.Status.CompletionTime = conditions(failing, failed, succeeding, complete), at(100)
		}, Refused: []string{
			"status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions",
			"status.conditions: Invalid value: cannot set Complete=True and FailureTarget=true conditions",
			"status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions",
			"status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"}},
		{Name: "a time alone", To: func(j *batchv1.Job) { j.Status.CompletionTime = at(100) }, Refused: []string{
			`status.completionTime: Invalid value: "1970-01-01T00:01:40Z": cannot set completionTime when there is no Complete=True condition`}},
		{Name: "no time", To: func(j *batchv1.Job) { j.Status.Conditions = conditions(succeeding, complete) }, Refused: []string{
			"status.completionTime: Required value: completionTime is required for Complete jobs"}},
		{Name: "too soon", To: func(j *batchv1.Job) {
			j.Status.Conditions, j.Status.CompletionTime = conditions(succeeding, complete), at(99)
		}, Refused: []string{"status.completionTime: Invalid value: \"1970-01-01T00:01:39Z\": must be equal to or after `startTime`"}},
		{Name: "unannounced failure", To: func(j *batchv1.Job) { j.Status.Conditions = conditions(failed) }, Refused: []string{
			"status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition"}},
		{Name: "unannounced success", To: func(j *batchv1.Job) {
			j.Status.Conditions, j.Status.CompletionTime = conditions(complete), at(100)
		}, Refused: []string{"status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition"}},
		{Name: "finished with pods", To: func(j *batchv1.Job) {
			j.Status.Conditions, j.Status.StartTime = conditions(failing, failed), nil
			j.Spec.Suspend = new(true)
			j.Status.Active, j.Status.Terminating = 1, new(int32(2))
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"a"}}
		}, Refused: []string{
			"status.active: Invalid value: 1: active>0 is invalid for finished job",
			"status.startTime: Required value: startTime is required for finished job",
			`status.uncountedTerminatedPods: Invalid value: {"Succeeded":null,"Failed":["a"]}: must be empty for finished job`,
			"status.terminating: Invalid value: 2: terminating>0 is invalid for finished job",
			`status.startTime: Invalid value: null: field is immutable for unsuspended job once set`}},
		{Name: "finished without pods", To: func(j *batchv1.Job) {
			j.Status.Conditions, j.Status.Terminating = conditions(failing, failed), new(int32(0))
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
		}},
	})
	empty := storedJob(t)
	empty.Spec.Suspend, empty.Spec.Completions = new(true), new(int32(0))
	registrytest.Update(t, jobs(t), "status", empty, []change{{Name: "done before it starts", To: func(j *batchv1.Job) {
		j.Status.Conditions, j.Status.CompletionTime = conditions(succeeding, complete), at(1)
	}}})
	empty.Spec.Suspend = new(false)
	registrytest.Update(t, jobs(t), "status", empty, []change{{Name: "done before it starts, though it could", To: func(j *batchv1.Job) {
		j.Status.Conditions, j.Status.CompletionTime = conditions(succeeding, complete), at(1)
	}, Refused: []string{"status.startTime: Required value: startTime is required for finished job"}}})
	waiting := storedJob(t)
	waiting.Spec.Suspend, waiting.Spec.Completions = new(true), nil
	registrytest.Update(t, jobs(t), "status", waiting, []change{{Name: "fails before it starts", To: func(j *batchv1.Job) {
		j.Status.Conditions = conditions(failing, failed)
	}, Refused: []string{"status.startTime: Required value: startTime is required for finished job"}}})
	uncounted := started(t)
	uncounted.Status.Active = 1
	uncounted.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"a"}}
	registrytest.Update(t, jobs(t), "status", uncounted, []change{{Name: "ends uncounted", To: func(j *batchv1.Job) {
		j.Status.Conditions = conditions(failing, failed)
	}, Refused: []string{
		"status.active: Invalid value: 1: active>0 is invalid for finished job",
		`status.uncountedTerminatedPods: Invalid value: {"Succeeded":null,"Failed":["a"]}: must be empty for finished job`}}})
	policy := indexed(started(t))
	policy.Spec.SuccessPolicy = &batchv1.SuccessPolicy{}
	policy.Status.Conditions, policy.Status.CompletionTime = conditions(complete), at(100)
	if errs := registrytest.Replace(jobs(t), "status", policy.DeepCopy(), policy); len(errs) != 1 ||
		errs[0].Error() != "status.conditions: Invalid value: cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True" {
		t.Errorf("complete by no criteria: %v", errs)
	}
	policy.Status.Conditions = conditions(succeeding, complete)
	if errs := registrytest.Replace(jobs(t), "status", policy.DeepCopy(), policy); len(errs) > 0 {
		t.Errorf("complete by its criteria: %v", errs)
	}
	policy.Status.Conditions, policy.Status.CompletionTime = nil, nil
	registrytest.Update(t, jobs(t), "status", policy, []change{{Name: "not complete yet", To: func(j *batchv1.Job) { j.Status.Active = 1 }}})
}

// TestStatusStays: what is wrong already keeps nobody from writing the rest.
func TestStatusStays(t *testing.T) {
	j := started(t)
	j.Status = batchv1.JobStatus{
		Conditions: conditions(complete, failed), Active: 1, Ready: new(int32(2)), Terminating: new(int32(1)), CompletedIndexes: "9,x", FailedIndexes: new("9"),
		UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Failed: []types.UID{"a"}},
	}
	registrytest.Update(t, jobs(t), "status", j, []change{
		{Name: "more failed", To: func(j *batchv1.Job) { j.Status.Failed = 1 }},
		{Name: "more pods", To: func(j *batchv1.Job) {
			j.Status.Active, j.Status.Terminating = 2, new(int32(2))
			j.Status.UncountedTerminatedPods.Failed = append(j.Status.UncountedTerminatedPods.Failed, "b")
		}, Refused: []string{
			"status.active: Invalid value: 2: active>0 is invalid for finished job",
			`status.uncountedTerminatedPods: Invalid value: {"Succeeded":null,"Failed":["a","b"]}: must be empty for finished job`,
			"status.terminating: Invalid value: 2: terminating>0 is invalid for finished job"}},
		{Name: "announced now", To: func(j *batchv1.Job) { j.Status.Conditions = conditions(complete, failed, failing) }, Refused: []string{
			"status.conditions: Invalid value: cannot set Complete=True and FailureTarget=true conditions"}},
		{Name: "other failed indexes", To: func(j *batchv1.Job) { j.Status.FailedIndexes = new("9,10") }, Refused: []string{
			"status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
			`status.failedIndexes: Invalid value: "9,10": cannot set non-null failedIndexes when backoffLimitPerIndex is null`}},
		{Name: "earlier start", To: func(j *batchv1.Job) { j.Status.StartTime = at(1) }},
		{Name: "success after the fact", To: func(j *batchv1.Job) { j.Status.Conditions = conditions(complete, failed, succeeding) }, Refused: []string{
			"status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions",
			"status.conditions: Invalid value: cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"}},
	})
}

func TestStatusIndexes(t *testing.T) {
	j := indexed(started(t))
	j.Spec.Completions, j.Spec.BackoffLimitPerIndex = new(int32(10)), new(int32(1))
	set := func(completed string, failed *string) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.FailedIndexes = completed, failed }
	}
	registrytest.Update(t, jobs(t), "status", j, []change{
		{Name: "apart", To: set("0,2-4,9", new("1,5-8"))},
		{Name: "none", To: set("", new(""))},
		{Name: "unreadable", To: set("1,x", new("y,1,20")), Refused: []string{
			`status.completedIndexes: Invalid value: "1,x": error parsing completedIndexes: cannot convert string to integer for index: "x"`,
			`status.failedIndexes: Invalid value: "y,1,20": error parsing failedIndexes: cannot convert string to integer for index: "y"`,
			`status.failedIndexes: Invalid value: "y,1,20": failedIndexes and completedIndexes overlap at index: 1`}},
		{Name: "overlap in an interval", To: set("0,2-4", new("1,3,9")), Refused: []string{
			`status.failedIndexes: Invalid value: "1,3,9": failedIndexes and completedIndexes overlap at index: 3`}},
		{Name: "overlap around", To: set("5", new("0-1,4-6")), Refused: []string{
			`status.failedIndexes: Invalid value: "0-1,4-6": failedIndexes and completedIndexes overlap at index: 5`}},
	})
	failedOnce := j.DeepCopy()
	failedOnce.Status.CompletedIndexes, failedOnce.Status.FailedIndexes = "0,2", new("1,x,2")
	registrytest.Update(t, jobs(t), "status", failedOnce, []change{
		{Name: "none failed any more", To: set("0,2", nil)},
		{Name: "old overlap", To: func(j *batchv1.Job) { j.Status.Active = 1 }},
		{Name: "more failed", To: set("0,2", new("2")), Refused: []string{
			`status.failedIndexes: Invalid value: "2": failedIndexes and completedIndexes overlap at index: 2`}},
		{Name: "more completed", To: set("0-2", new("1,x,2")), Refused: []string{
			`status.failedIndexes: Invalid value: "1,x,2": failedIndexes and completedIndexes overlap at index: 1`}},
	})
	failedOnce.Spec.BackoffLimitPerIndex = nil
	registrytest.Update(t, jobs(t), "status", failedOnce, []change{{Name: "none failed without a limit", To: set("0,2", nil)}})
	endless := started(t)
	endless.Spec.Completions = nil
	registrytest.Update(t, jobs(t), "status", endless, []change{
		{Name: "indexes of no number", To: set("0", nil), Refused: []string{
			`status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode`}},
		{Name: "failed indexes of no number", To: set("0", new("0,x")), Refused: []string{
			`status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode`,
			`status.failedIndexes: Invalid value: "0,x": cannot set non-null failedIndexes when backoffLimitPerIndex is null`}},
	})
	endless.Spec.BackoffLimitPerIndex = new(int32(1))
	registrytest.Update(t, jobs(t), "status", endless, []change{{Name: "failed indexes of no number, limited", To: set("", new("0,x"))}})
	registrytest.Update(t, jobs(t), "status", started(t), []change{
		{Name: "indexes of none", To: set("0", new("")), Refused: []string{
			`status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode`,
			`status.failedIndexes: Invalid value: "": cannot set non-null failedIndexes when backoffLimitPerIndex is null`}},
	})
}

func TestStatusTransitions(t *testing.T) {
	done := started(t)
	done.Status.Conditions, done.Status.CompletionTime = conditions(succeeding, complete), at(200)
	registrytest.Update(t, jobs(t), "status", done, []change{
		{Name: "another time", To: func(j *batchv1.Job) { j.Status.CompletionTime = at(201) }, Refused: []string{
			`status.completionTime: Invalid value: "1970-01-01T00:03:21Z": field is immutable`}},
		{Name: "not complete", To: func(j *batchv1.Job) { j.Status.Conditions, j.Status.CompletionTime = conditions(succeeding), nil }, Refused: []string{
			"status.conditions: Invalid value: cannot disable the terminal Complete=True condition"}},
		{Name: "no success", To: func(j *batchv1.Job) { j.Status.Conditions = conditions(complete) }, Refused: []string{
			"status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
			"status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition"}},
	})
	done.Spec.Suspend = new(true)
	registrytest.Update(t, jobs(t), "status", done, []change{
		{Name: "starts after its end", To: func(j *batchv1.Job) { j.Status.StartTime = at(300) }, Refused: []string{
			"status.completionTime: Invalid value: \"1970-01-01T00:03:20Z\": must be equal to or after `startTime`"}},
	})
	promising := started(t)
	promising.Status.Conditions = conditions(succeeding)
	registrytest.Update(t, jobs(t), "status", promising, []change{
		{Name: "no success", To: func(j *batchv1.Job) { j.Status.Conditions = nil }, Refused: []string{
			"status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition"}},
	})
	lost := started(t)
	lost.Status.Conditions = conditions(failing, failed)
	registrytest.Update(t, jobs(t), "status", lost, []change{
		{Name: "not failed", To: func(j *batchv1.Job) { j.Status.Conditions = nil }, Refused: []string{
			"status.conditions: Invalid value: cannot disable the terminal Failed=True condition",
			"status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition"}},
	})
	const fixed = "field is immutable for unsuspended job once set"
	registrytest.Update(t, jobs(t), "status", started(t), []change{
		{Name: "starts again", To: func(j *batchv1.Job) { j.Status.StartTime = at(101) }, Refused: []string{
			`status.startTime: Invalid value: "1970-01-01T00:01:41Z": ` + fixed}},
		{Name: "in another zone", To: func(j *batchv1.Job) { j.Status.StartTime = &metav1.Time{Time: j.Status.StartTime.UTC()} }},
	})
	asleep := started(t)
	asleep.Spec.Suspend = new(true)
	registrytest.Update(t, jobs(t), "status", asleep, []change{{Name: "stops", To: func(j *batchv1.Job) { j.Status.StartTime = nil }}})
	resumed := started(t)
	resumed.Status.Conditions = conditions(suspended)
	registrytest.Update(t, jobs(t), "status", resumed, []change{
		{Name: "resumes", To: func(j *batchv1.Job) {
			j.Status.StartTime, j.Status.Conditions[0].Status = at(300), corev1.ConditionFalse
		}},
		{Name: "does not say so", To: func(j *batchv1.Job) { j.Status.StartTime, j.Status.Conditions = at(300), nil }, Refused: []string{
			`status.startTime: Invalid value: "1970-01-01T00:05:00Z": ` + fixed}},
	})
}
