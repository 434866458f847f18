package job_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/job"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":            " 0 [0 1 2]",
		"0":           "0 1 [1 2 3]",
		"1,2":         "1,2 2 [0 3 4]",
		"1,2,3":       "1-3 3 [0 4 5]",
		"0-4,6":       "0-4,6 6 [5 7 8]",
		"0-7":         "0-7 8 [8 9]",
		"0-20":        "0-9 10 []",
		"3,x,5-y,7":   "3,7 2 [0 1 2]",
		"8,10,11":     "8 1 [0 1 2]",
		"0,4-5-6":     "0,4,5 3 [1 2 3]",
		"0-2,4-6,8-9": "0-2,4-6,8,9 8 [3 7]",
	} {
		again, n, outside := job.Parsed(text, 10, 3)
		if got := fmt.Sprint(again, " ", n, " ", outside); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestUnion(t *testing.T) {
	for _, c := range [][4]string{
		{"", "", "", "0"},
		{"1-3", "", "1-3", "0"},
		{"", "5", "5", "0"},
		{"1-3", "4", "1-4", "0"},
		{"1-3", "5", "1-3,5", "0"},
		{"1-3,7-9", "2-8", "1-9", "4"},
		{"0,2,4", "1,3", "0-4", "0"},
		{"0-9", "3", "0-9", "1"},
		{"5-6", "0-1,6", "0,1,5,6", "1"},
		{"0-2,5-6", "1-5", "0-6", "3"},
	} {
		union, common := job.Union(c[0], c[1])
		if got := fmt.Sprint(common); union != c[2] || got != c[3] {
			t.Errorf("%q and %q: %s, %s in common", c[0], c[1], union, got)
		}
		if again, n := job.Union(c[1], c[0]); again != union || n != common {
			t.Errorf("%q and %q: the other way round %s, %d in common", c[0], c[1], again, n)
		}
	}
}

func TestHas(t *testing.T) {
	const list = "1-3,6,8-9"
	var got []int
	for i := range 12 {
		if job.Has(list, i) {
			got = append(got, i)
		}
	}
	if !slices.Equal(got, []int{1, 2, 3, 6, 8, 9}) {
		t.Errorf("%s has %v", list, got)
	}
}

// ended is the status of a container with an exit code.
func ended(name string, code int32, at time.Time) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(at)}}}
}

func TestRule(t *testing.T) {
	codes := func(action batchv1.PodFailurePolicyAction, container *string, operator batchv1.PodFailurePolicyOnExitCodesOperator, values ...int32) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{ContainerName: container, Operator: operator, Values: values}}
	}
	disrupted := func(action batchv1.PodFailurePolicyAction, status corev1.ConditionStatus) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: "Other", Status: "True"}, {Type: corev1.DisruptionTarget, Status: status},
		}}
	}
	type rules = []batchv1.PodFailurePolicyRule
	exit := func(list ...corev1.ContainerStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
			Status: corev1.PodStatus{ContainerStatuses: list, Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: "False"}, {Type: corev1.DisruptionTarget, Status: "True"},
			}},
		}
	}
	now := time.Now()
	five := exit(ended("c", 5, now))
	initially := exit(ended("c", 0, now))
	initially.Status.InitContainerStatuses = []corev1.ContainerStatus{ended("i", 7, now)}
	for name, c := range map[string]struct {
		rules  rules
		pod    *corev1.Pod
		action batchv1.PodFailurePolicyAction
		why    string
	}{
		"no rules":             {nil, five, "", ""},
		"ignored":              {rules{codes("Ignore", nil, "In", 5)}, five, "Ignore", ""},
		"another code":         {rules{codes("Ignore", nil, "In", 6)}, five, "", ""},
		"not among":            {rules{codes("Count", nil, "NotIn", 6)}, five, "Count", ""},
		"among those left out": {rules{codes("Count", nil, "NotIn", 5)}, five, "", ""},
		"another container":    {rules{codes("Ignore", new("d"), "In", 5)}, five, "", ""},
		"the container":        {rules{codes("FailIndex", new("c"), "In", 5)}, five, "FailIndex", ""},
		"success":              {rules{codes("Ignore", nil, "NotIn", 5)}, exit(ended("c", 0, now)), "", ""},
		"still running":        {rules{codes("Ignore", nil, "NotIn", 5)}, exit(corev1.ContainerStatus{Name: "c"}), "", ""},
		"second container":     {rules{codes("Ignore", nil, "In", 9)}, exit(ended("c", 5, now), ended("d", 9, now)), "Ignore", ""},
		"unknown operator":     {rules{codes("Ignore", nil, "Like", 5)}, five, "", ""},
		"unknown action":       {rules{codes("Cry", nil, "In", 5), codes("Count", nil, "In", 5)}, five, "Count", ""},
		"first rule":           {rules{codes("Count", nil, "In", 5), codes("FailJob", nil, "In", 5)}, five, "Count", ""},
		"init container": {rules{codes("FailJob", nil, "In", 1), codes("FailJob", nil, "In", 7)}, initially, "FailJob",
			"Container i for pod ns/p failed with exit code 7 matching FailJob rule at index 1"},
		"condition":      {rules{disrupted("FailJob", "True")}, five, "FailJob", "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 0"},
		"another status": {rules{disrupted("FailJob", "False")}, five, "", ""},
	} {
		action, why, counts := job.Rule(&batchv1.PodFailurePolicy{Rules: c.rules}, c.pod)
		if action != c.action || why != c.why || counts != (action != "Ignore") {
			t.Errorf("%s: %q, %q, counts %t", name, action, why, counts)
		}
	}
	if _, _, counts := job.Rule(nil, five); !counts {
		t.Error("without a policy a failure does not count")
	}
}

func TestSucceeds(t *testing.T) {
	type rules = []batchv1.SuccessPolicyRule
	for name, c := range map[string]struct {
		rules rules
		done  string
		want  string
	}{
		"nothing done":        {rules{{SucceededCount: new(int32(0))}}, "", ""},
		"count":               {rules{{SucceededCount: new(int32(2))}}, "0,5", "Matched rules at index 0"},
		"too few":             {rules{{SucceededCount: new(int32(3))}}, "0,5", ""},
		"indexes":             {rules{{SucceededIndexes: new("0-1")}}, "0-5", "Matched rules at index 0"},
		"not all":             {rules{{SucceededIndexes: new("0-1")}}, "1-5", ""},
		"count among indexes": {rules{{SucceededIndexes: new("0-3"), SucceededCount: new(int32(2))}}, "1,3,5", "Matched rules at index 0"},
		"too few among":       {rules{{SucceededIndexes: new("0-3"), SucceededCount: new(int32(3))}}, "1,3,5", ""},
		"no index is none":    {rules{{SucceededIndexes: new("x")}, {SucceededCount: new(int32(1))}}, "1", "Matched rules at index 1"},
		"nothing to do":       {rules{{}}, "1", ""},
	} {
		if got := job.Succeeds(&batchv1.SuccessPolicy{Rules: c.rules}, c.done, 10); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := job.Succeeds(nil, "0", 10); got != "" {
		t.Errorf("without a policy: %q", got)
	}
}

func TestFinishedAt(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	always := corev1.ContainerRestartPolicyAlways
	pod := func(change func(p *corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at(1))}}
		p.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: &always}, {Name: "i"}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: "False", LastTransitionTime: metav1.NewTime(at(50))}}
		change(p)
		return p
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want int64
	}{
		"last container": {pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{ended("c", 0, at(20)), ended("d", 0, at(10))}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i"}}
		}), 20},
		"sidecar": {pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{ended("c", 0, at(20))}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{ended("s", 0, at(30)), ended("i", 0, at(99))}
		}), 30},
		"sidecar still runs": {pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{ended("c", 0, at(20))}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "s"}}
		}), 50},
		"container still runs": {pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{ended("c", 0, at(20)), {Name: "d"}}
		}), 50},
		"unknown end": {pod(func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{ended("c", 0, time.Time{})} }), 50},
		"ready":       {pod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = "True" }), 1},
		"deleted": {pod(func(p *corev1.Pod) {
			p.Status.Conditions = nil
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.NewTime(at(40))), new(int64(30))
		}), 10},
		"deleted at once": {pod(func(p *corev1.Pod) { p.Status.Conditions, p.DeletionTimestamp = nil, new(metav1.NewTime(at(40))) }), 40},
		"nothing known":   {pod(func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }), 1},
	} {
		if got := job.FinishedAt(c.pod); !got.Equal(at(c.want)) {
			t.Errorf("%s: %d", name, got.Unix())
		}
	}
}

func TestRecord(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	pods := func(seconds ...int64) (list []*corev1.Pod) {
		for _, s := range seconds {
			list = append(list, &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended("c", 1, at(s))}}})
		}
		return list
	}
	for name, c := range map[string]struct {
		had               int32
		succeeded, failed []int64
		want              int32
		wait              time.Duration
	}{
		"nothing":             {0, nil, nil, 0, 0},
		"nothing new":         {1, nil, nil, 1, 5 * time.Second}, // the last failure was at 95
		"first":               {0, nil, []int64{98}, 1, 8 * time.Second},
		"long ago":            {0, nil, []int64{90}, 1, 0},
		"several":             {1, nil, []int64{99, 90}, 3, 39 * time.Second},
		"many":                {100, nil, []int64{100}, 101, 10 * time.Minute},
		"success":             {5, []int64{90}, nil, 0, 0},
		"success afterwards":  {5, []int64{99}, []int64{98, 99}, 0, 0},
		"success in between":  {5, []int64{90, 97}, []int64{98, 91, 99}, 2, 19 * time.Second},
		"success long before": {5, []int64{1}, []int64{100}, 1, 10 * time.Second},
	} {
		failures, wait := job.After(c.had, at(95), pods(c.succeeded...), pods(c.failed...), at(100))
		if failures != c.want || wait != c.wait {
			t.Errorf("%s: %d failures, wait %v", name, failures, wait)
		}
	}
}

func TestSurplus(t *testing.T) {
	hour := metav1.NewTime(time.Unix(1000, 0))
	pod := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: hour}, Spec: corev1.PodSpec{NodeName: "n"}}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: "True", LastTransitionTime: hour}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: 1}}
		change(p)
		return p
	}
	best := pod("best", func(*corev1.Pod) {})
	late := metav1.NewTime(hour.Add(time.Minute))
	for name, change := range map[string]func(*corev1.Pod){
		"no node":     func(p *corev1.Pod) { p.Spec.NodeName = "" },
		"pending":     func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
		"unknown":     func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown },
		"not ready":   func(p *corev1.Pod) { p.Status.Conditions = nil },
		"ready since": func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = late },
		"since when":  func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} },
		"restarts":    func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 2 },
		"younger":     func(p *corev1.Pod) { p.CreationTimestamp = late },
	} {
		worst := pod("worst", change)
		for _, list := range [][]*corev1.Pod{{best, worst}, {worst, best}} {
			before := slices.Clone(list)
			if got := job.Surplus(newJob(1), list, 1); len(got) != 1 || got[0] != worst {
				t.Errorf("%s: the better pod is deleted", name)
			}
			if !slices.Equal(list, before) {
				t.Errorf("%s: the list was reordered", name)
			}
		}
	}
	index := func(name, i string) *corev1.Pod {
		return pod(name, func(p *corev1.Pod) { p.Annotations = map[string]string{"batch.kubernetes.io/job-completion-index": i} })
	}
	all := []*corev1.Pod{index("a", "0"), index("b", "1"), index("c", "-1"), index("d", "3"), best, index("e", "2")}
	for n, want := range map[int]int{0: 3, 3: 3, 4: 4, 6: 6} {
		if got := job.Surplus(indexedJob(3), all, n); len(got) != want {
			t.Errorf("of %d pods with bad and good indexes %d are deleted, want %d", n, len(got), want)
		}
	}
}
