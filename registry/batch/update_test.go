package batch_test

import (
	"maps"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestJobUpdate(t *testing.T) {
	registrytest.Update(t, jobs(t), "", storedJob(t), []change{
		{Name: "parallelism, deadlines, limits", To: func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.BackoffLimit, j.Spec.Suspend = new(int32(5)), new(int32(1)), new(true)
			j.Spec.ActiveDeadlineSeconds, j.Spec.TTLSecondsAfterFinished = new(int64(1)), new(int32(1))
			j.Spec.PodReplacementPolicy = new(batchv1.Failed)
		}},
		{Name: "invalid", To: func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(-1)) }, Refused: []string{
			"spec.parallelism: Invalid value: -1" + nonnegative}},
		{Name: "what is fixed", To: func(j *batchv1.Job) {
			indexed(j)
			j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"job-name": "work"}}
			j.Spec.BackoffLimitPerIndex, j.Spec.ManagedBy = new(int32(1)), new("a.b/c")
			j.Spec.PodFailurePolicy, j.Spec.PodReplacementPolicy = patterns("True"), new(batchv1.Failed)
			j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: new(int32(2))}}}
		}, Refused: []string{
			`spec.selector: Invalid value: {"matchLabels":{"job-name":"work"}}: field is immutable`,
			`spec.completionMode: Invalid value: "Indexed": field is immutable`,
			`spec.podFailurePolicy: Invalid value: {"Rules":[{"Action":"Ignore","OnExitCodes":null,"OnPodConditions":[{"Type":"DisruptionTarget","Status":"True"}]}]}: field is immutable`,
			`spec.backoffLimitPerIndex: Invalid value: 1: field is immutable`,
			`spec.managedBy: Invalid value: "a.b/c": field is immutable`,
			`spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":2}]}: field is immutable`,
		}},
		{Name: "completions", To: func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = new(int32(2)), new(int32(2)) }, Refused: []string{
			`spec.completions: Invalid value: 2: field is immutable`}},
		{Name: "no completions", To: func(j *batchv1.Job) { j.Spec.Completions = nil }, Refused: []string{
			`spec.completions: Invalid value: null: field is immutable`}},
		{Name: "old labels only", To: func(j *batchv1.Job) { delete(j.Labels, "batch.kubernetes.io/job-name") }},
	})
	registrytest.Update(t, jobs(t), "", indexed(storedJob(t)), []change{
		{Name: "grows", To: func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = new(int32(5)), new(int32(5)) }},
		{Name: "to none", To: func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = new(int32(0)), new(int32(0)) }},
		{Name: "parallelism alone", To: func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(5)) }},
		{Name: "completions alone", To: func(j *batchv1.Job) { j.Spec.Completions = new(int32(5)) }, Refused: []string{
			"spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism"}},
		{Name: "no completions", To: func(j *batchv1.Job) { j.Spec.Completions = nil }, Refused: []string{
			"spec.completions: Required value: when completion mode is Indexed"}},
	})
	long := indexed(storedJob(t))
	long.Name = strings.Repeat("a", 61)
	long.Spec.Completions = new(int32(10))
	registrytest.Update(t, jobs(t), "", long, []change{
		{Name: "too many for its name", To: func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = new(int32(11)), new(int32(11)) }, Refused: []string{
			`metadata.name: Invalid value: "` + long.Name + `": will not able to create pod with invalid DNS label: ` + long.Name + "-10"}},
	})
}

// Values of labels that older rules accepted stay.
func TestOldSelectorStays(t *testing.T) {
	j := storedJob(t)
	j.Spec.ManualSelector = new(true)
	j.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "NotIn", Values: []string{"not valid"}}}}
	if errs := jobs(t).Rules.Validate(j); len(errs) != 1 {
		t.Errorf("created: %v", errs)
	}
	registrytest.Update(t, jobs(t), "", j, nil)
}

// queued changes of a job what may change while it is suspended.
func queued(j *batchv1.Job) {
	spec := &j.Spec.Template.Spec
	spec.NodeSelector = map[string]string{"a": "b"}
	spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}
	spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a.b/c"}}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
		Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Exists"}}},
	}}}}
	j.Spec.Template.Labels = maps.Clone(j.Spec.Template.Labels)
	j.Spec.Template.Labels["queue"] = "x"
	j.Spec.Template.Annotations = map[string]string{"queue": "x"}
	spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("2")}
	for i := range spec.InitContainers {
		spec.InitContainers[i].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("3")}
	}
}

// TestSuspendedTemplate: what schedulers obey and what containers ask for changes while a job is suspended and has no
// pods.
func TestSuspendedTemplate(t *testing.T) {
	k := jobs(t)
	suspended := func(change func(*batchv1.Job)) *batchv1.Job {
		j := storedJob(t)
		j.Spec.Suspend = new(true)
		j.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "x"}}
		k.Rules.Default(j)
		change(j)
		return j
	}
	was := []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
	for name, c := range map[string]struct {
		old     *batchv1.Job
		refused bool
	}{
		"never started":  {suspended(func(*batchv1.Job) {}), false},
		"running":        {suspended(func(j *batchv1.Job) { j.Spec.Suspend = new(false) }), true},
		"unset":          {suspended(func(j *batchv1.Job) { j.Spec.Suspend = nil }), true},
		"just suspended": {suspended(func(j *batchv1.Job) { j.Status.StartTime = new(metav1.Unix(1, 0)) }), true},
		"suspended": {suspended(func(j *batchv1.Job) {
			j.Status.StartTime, j.Status.Conditions = new(metav1.Unix(1, 0)), was
		}), false},
		"has pods left": {suspended(func(j *batchv1.Job) {
			j.Status.StartTime, j.Status.Conditions, j.Status.Active = new(metav1.Unix(1, 0)), was, 1
		}), true},
		"never started, has pods": {suspended(func(j *batchv1.Job) { j.Status.Active = 1 }), true},
	} {
		next := c.old.DeepCopy()
		queued(next)
		errs := registrytest.Replace(k, "", next, c.old)
		if refused := len(errs) == 1 && strings.HasPrefix(errs[0].Error(), `spec.template: Invalid value: {"labels":`); refused != c.refused || !refused && len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
	near := func(key string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			queued(j)
			terms := j.Spec.Template.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
			terms[0].Preference.MatchExpressions[0].Key = key
		}
	}
	elsewhere := suspended(near("a"))
	moved := elsewhere.DeepCopy()
	near("b")(moved)
	if errs := registrytest.Replace(k, "", moved, elsewhere); len(errs) > 0 {
		t.Errorf("other nodes: %v", errs)
	}
	const fixed = `spec.template.spec: Invalid value: {"Volumes":null,"InitContainers":[`
	for name, c := range map[string]struct {
		to      func(spec *corev1.PodSpec)
		refused bool
	}{
		"image":           {func(s *corev1.PodSpec) { s.Containers[0].Image = "x" }, true},
		"container":       {func(s *corev1.PodSpec) { s.Containers = append(s.Containers, corev1.Container{Name: "d", Image: "x"}) }, true},
		"renamed":         {func(s *corev1.PodSpec) { s.Containers[0].Name, s.InitContainers[0].Name = "i", "c" }, true},
		"init container":  {func(s *corev1.PodSpec) { s.InitContainers[0].Image = "y" }, true},
		"node affinity":   {func(s *corev1.PodSpec) { s.Affinity = nil }, false},
		"no affinity":     {func(s *corev1.PodSpec) { s.Affinity.NodeAffinity, s.Affinity.PodAffinity = nil, nil }, true},
		"more affinities": {func(s *corev1.PodSpec) { s.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{} }, true},
		"priority":        {func(s *corev1.PodSpec) { s.PriorityClassName = "x" }, true},
	} {
		old := suspended(func(j *batchv1.Job) {
			queued(j)
			if strings.Contains(name, "affinit") && name != "node affinity" {
				j.Spec.Template.Spec.Affinity.PodAffinity = &corev1.PodAffinity{}
			}
		})
		next := old.DeepCopy()
		c.to(&next.Spec.Template.Spec)
		errs := registrytest.Replace(k, "", next, old)
		if refused := len(errs) == 1 && strings.HasPrefix(errs[0].Error(), fixed) && strings.HasSuffix(errs[0].Error(), "}: field is immutable"); refused != c.refused || !refused && len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
}
