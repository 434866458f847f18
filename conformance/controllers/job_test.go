package controllers_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/controller/job"
)

// TestJob: jobs of all sorts, whose pods succeed, fail, are disrupted, deleted and relabelled.
func TestJob(t *testing.T) {
	c := &contest{
		names: []string{"job-controller"},
		theirs: func(ctx context.Context, u *theirs) (func(context.Context), error) {
			c, err := job.NewController(ctx, u.client("job-controller"), u.shared.Core().V1().Pods(), u.shared.Batch().V1().Jobs(), nil, nil)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) { c.Run(ctx, 5) }, nil
		},
		step: jobStep,
		// Which of several failed pods the message names.
		arbitrary: regexp.MustCompile(`([pP]od default/[a-z0-9]+-)\d+-`),
		written:   append(resources(batchv1.SchemeGroupVersion, "jobs"), resources(corev1.SchemeGroupVersion, "pods")...),
		pauses:    []int{5, 8, 15, 35, 80, 400},
	}
	c.run(t)
}

func jobStep(w *world) {
	alive := 0
	for _, j := range w.jobs() {
		if j.DeletionTimestamp == nil && !slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
		}) {
			alive++
		}
	}
	switch n := w.IntN(100); {
	case n < 20 && alive < 3, alive == 0:
		w.createJob()
	case n < 28:
		w.updateJob()
	case n < 31:
		w.deleteJob()
	case n < 37:
		w.deletePod()
	case n < 43:
		w.relabel("manual")
	case n < 45:
		w.trouble("pods")
	case n < 60:
		w.everything()
	case n < 70:
		w.ends()
	default:
		w.kubelet()
	}
}

func (w *world) jobs() []batchv1.Job {
	w.Helper()
	list, err := w.api.BatchV1().Jobs(namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	return list.Items
}

func (w *world) createJob() {
	w.Helper()
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: w.next("job")}, Spec: w.jobSpec()}
	if w.chance(6) {
		j.Spec.ManualSelector = new(true)
		j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"manual": j.Name}}
		j.Spec.Template.Labels["manual"] = j.Name
	}
	_, err := w.api.BatchV1().Jobs(namespace).Create(w.Context(), j, metav1.CreateOptions{})
	w.do(fmt.Sprintf("create job %s %s", j.Name, text(j.Spec)), err)
}

func (w *world) jobSpec() batchv1.JobSpec {
	spec := batchv1.JobSpec{Parallelism: new(int32(w.IntN(5))), BackoffLimit: new(int32(w.IntN(5))), Template: w.template(map[string]string{"set": "a"})}
	spec.Template.Spec.RestartPolicy = pick(w, corev1.RestartPolicyNever, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure)
	if !w.chance(4) {
		spec.Completions = new(int32(w.IntN(6)))
	}
	if w.chance(2) {
		spec.CompletionMode = new(batchv1.IndexedCompletion)
		if w.chance(2) {
			spec.BackoffLimitPerIndex = new(int32(w.IntN(3)))
			if w.chance(2) {
				spec.BackoffLimit = nil
			}
			if w.chance(2) {
				spec.MaxFailedIndexes = new(int32(w.IntN(3)))
			}
		}
		if w.chance(3) {
			rule := batchv1.SuccessPolicyRule{SucceededCount: new(int32(1 + w.IntN(2)))}
			if w.chance(2) {
				rule.SucceededIndexes = new("0,2-3")
			}
			spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{rule}}
		}
	}
	if w.chance(3) {
		spec.PodFailurePolicy = w.failurePolicy()
		spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	if w.chance(4) {
		spec.Suspend = new(true)
	}
	if w.chance(5) {
		spec.ActiveDeadlineSeconds = new(int64(10 + w.IntN(300)))
	}
	if w.chance(4) {
		spec.PodReplacementPolicy = new(pick(w, batchv1.Failed, batchv1.TerminatingOrFailed))
	}
	if w.chance(15) {
		spec.ManagedBy = new(pick(w, "example.com/other", "kubernetes.io/job-controller"))
	}
	return spec
}

func (w *world) failurePolicy() *batchv1.PodFailurePolicy {
	p := &batchv1.PodFailurePolicy{}
	for range 1 + w.IntN(2) {
		rule := batchv1.PodFailurePolicyRule{Action: pick(w, batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore,
			batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex)}
		if w.chance(2) {
			rule.OnPodConditions = []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		} else {
			rule.OnExitCodes = &batchv1.PodFailurePolicyOnExitCodesRequirement{
				Operator: pick(w, batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn), Values: pick(w, []int32{42}, []int32{1, 137}),
			}
			if w.chance(3) {
				rule.OnExitCodes.ContainerName = new("c")
			}
		}
		p.Rules = append(p.Rules, rule)
	}
	return p
}

func (w *world) updateJob() {
	w.Helper()
	j := pick(w, w.jobs()...)
	what := "update job " + j.Name
	switch w.IntN(6) {
	case 0:
		j.Spec.Parallelism = new(int32(w.IntN(5)))
		what += fmt.Sprint(" parallelism ", *j.Spec.Parallelism)
	case 1, 2:
		j.Spec.Suspend = new(j.Spec.Suspend == nil || !*j.Spec.Suspend)
		what += fmt.Sprint(" suspend ", *j.Spec.Suspend)
	case 3:
		n := int32(w.IntN(6))
		j.Spec.Completions, j.Spec.Parallelism = &n, &n
		what += fmt.Sprint(" completions ", n)
	case 4:
		j.Spec.ActiveDeadlineSeconds = new(int64(10 + w.IntN(1000)))
		what += fmt.Sprint(" deadline ", *j.Spec.ActiveDeadlineSeconds)
	case 5:
		j.Spec.Template.Labels["more"] = "x"
		j.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"}
		what += " template"
	}
	_, err := w.api.BatchV1().Jobs(namespace).Update(w.Context(), &j, metav1.UpdateOptions{})
	w.do(what, err)
}

func (w *world) deleteJob() {
	w.Helper()
	j := pick(w, w.jobs()...)
	policy := pick(w, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan)
	w.do(fmt.Sprint("delete job ", j.Name, " ", policy), w.api.BatchV1().Jobs(namespace).Delete(w.Context(), j.Name, metav1.DeleteOptions{PropagationPolicy: &policy}))
}
