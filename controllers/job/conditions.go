package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// verdict is how a job ends.
type verdict struct {
	// kind is the condition that announces the end, or the end itself if it was announced before; empty means that the job
	// goes on.
	kind            batchv1.JobConditionType
	reason, message string
}

// fails reports whether the end is a failure.
func (v verdict) fails() bool {
	return v.kind == batchv1.JobFailureTarget || v.kind == batchv1.JobFailed
}

func failure(reason, message string) verdict {
	return verdict{batchv1.JobFailureTarget, reason, message}
}

// announced returns the end that the conditions of a job announce.
func announced(conditions []batchv1.JobCondition) verdict {
	if c := find(conditions, batchv1.JobSuccessCriteriaMet); c != nil && c.Status == corev1.ConditionTrue {
		return verdict{c.Type, c.Reason, c.Message}
	}
	if c := find(conditions, batchv1.JobFailureTarget); c != nil && c.Status == corev1.ConditionTrue {
		return verdict{batchv1.JobFailed, c.Reason, c.Message}
	}
	return verdict{}
}

// finished reports whether a job has ended.
func finished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

func find(conditions []batchv1.JobCondition, kind batchv1.JobConditionType) *batchv1.JobCondition {
	i := slices.IndexFunc(conditions, func(c batchv1.JobCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &conditions[i]
}

// stamp is an instant as objects have it: in whole seconds.
func stamp(now time.Time) metav1.Time { return metav1.NewTime(now.Truncate(time.Second)) }

func condition(v verdict, now time.Time) batchv1.JobCondition {
	return batchv1.JobCondition{
		Type: v.kind, Status: corev1.ConditionTrue, LastProbeTime: stamp(now), LastTransitionTime: stamp(now), Reason: v.reason, Message: v.message,
	}
}

// setCondition changes or adds a condition, and reports whether it differs now. One that is false is not added: it would
// say nothing.
func setCondition(status *batchv1.JobStatus, want batchv1.JobCondition) bool {
	had := find(status.Conditions, want.Type)
	switch {
	case had == nil && want.Status == corev1.ConditionFalse:
		return false
	case had == nil:
		status.Conditions = append(status.Conditions, want)
	case had.Status == want.Status && had.Reason == want.Reason && had.Message == want.Message:
		return false
	default:
		*had = want
	}
	return true
}

// setSuspended brings the condition Suspended in line with the spec, and the start time with it: the time until the
// deadline begins anew when a job resumes. It returns the reason and the message of the event, if something changed.
func setSuspended(job *batchv1.Job, now time.Time) (reason, message string) {
	want := batchv1.JobCondition{
		Type: batchv1.JobSuspended, Status: corev1.ConditionFalse, LastProbeTime: stamp(now), LastTransitionTime: stamp(now),
		Reason: "JobResumed", Message: "Job resumed",
	}
	reason = "Resumed"
	if suspended(job) {
		want.Status, want.Reason, want.Message, reason = corev1.ConditionTrue, "JobSuspended", "Job suspended", "Suspended"
	}
	if !setCondition(&job.Status, want) {
		return "", ""
	}
	job.Status.StartTime = nil
	if !suspended(job) {
		start := stamp(now)
		job.Status.StartTime = &start
	}
	return reason, want.Message
}
