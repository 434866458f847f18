package batch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/registrytest"
)

type change = registrytest.Change[*batchv1.Job]

const nonnegative = ": must be greater than or equal to 0"

func TestNumbers(t *testing.T) {
	registrytest.Create(t, jobs(t), newJob(), []change{
		{Name: "zero", To: func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Completions, j.Spec.BackoffLimit, j.Spec.TTLSecondsAfterFinished = new(int32(0)), new(int32(0)), new(int32(0)), new(int32(0))
			j.Spec.ActiveDeadlineSeconds, j.Spec.ManagedBy = new(int64(0)), new("example.com/x")
		}},
		{Name: "negative", To: func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Completions, j.Spec.BackoffLimit, j.Spec.TTLSecondsAfterFinished = new(int32(-1)), new(int32(-2)), new(int32(-4)), new(int32(-5))
			j.Spec.ActiveDeadlineSeconds, j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes = new(int64(-3)), new(int32(-6)), new(int32(-7))
		}, Refused: []string{
			"spec.parallelism: Invalid value: -1" + nonnegative,
			"spec.completions: Invalid value: -2" + nonnegative,
			"spec.activeDeadlineSeconds: Invalid value: -3" + nonnegative,
			"spec.backoffLimit: Invalid value: -4" + nonnegative,
			"spec.ttlSecondsAfterFinished: Invalid value: -5" + nonnegative,
			"spec.backoffLimitPerIndex: Invalid value: -6" + nonnegative,
			"spec.maxFailedIndexes: Invalid value: -7" + nonnegative,
			"spec.backoffLimitPerIndex: Invalid value: -6: requires indexed completion mode",
			"spec.maxFailedIndexes: Invalid value: -7: requires indexed completion mode",
		}},
		{Name: "limits without indexes", To: func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = new(int32(1)) }, Refused: []string{
			"spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
			"spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
		}},
		{Name: "managed by nobody", To: func(j *batchv1.Job) { j.Spec.ManagedBy = new("") }, Refused: []string{"spec.managedBy: Required value"}},
		{Name: "managed by many", To: func(j *batchv1.Job) { j.Spec.ManagedBy = new(strings.Repeat("a", 64)) }, Refused: []string{
			`spec.managedBy: Invalid value: "` + strings.Repeat("a", 64) + `": must be a domain-prefixed path (such as "acme.io/foo")`,
			"spec.managedBy: Too long: may not be more than 63 bytes"}},
		{Name: "unknown mode", To: func(j *batchv1.Job) {
			j.Spec.CompletionMode, j.Spec.BackoffLimitPerIndex = new(batchv1.CompletionMode("Some")), new(int32(1))
		}, Refused: []string{
			`spec.completionMode: Unsupported value: "Some": supported values: "NonIndexed", "Indexed"`}},
		{Name: "replaced when gone", To: func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = new(batchv1.Failed) }},
		{Name: "replaced some day", To: func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = new(batchv1.PodReplacementPolicy("Later")) }, Refused: []string{
			`spec.podReplacementPolicy: Unsupported value: "Later": supported values: "Failed", "TerminatingOrFailed"`}},
		{Name: "replaced before the policy knows", To: func(j *batchv1.Job) {
			j.Spec.PodReplacementPolicy, j.Spec.PodFailurePolicy = new(batchv1.TerminatingOrFailed), patterns("True")
		}, Refused: []string{`spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"`}},
	})
}

func TestRestartPolicies(t *testing.T) {
	const path = "spec.template.spec.restartPolicy: "
	registrytest.Create(t, jobs(t), newJob(), []change{
		{Name: "on failure", To: func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }},
		{Name: "unset", To: func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = "" }, Refused: []string{
			path + `Required value: valid values: "OnFailure", "Never"`}},
		{Name: "unknown", To: func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = "Some" }, Refused: []string{
			path + `Unsupported value: "Some": supported values: "Always", "OnFailure", "Never"`,
			path + `Unsupported value: "Some": supported values: "OnFailure", "Never"`}},
		{Name: "with a policy", To: func(j *batchv1.Job) {
			j.Spec.Template.Spec.RestartPolicy, j.Spec.PodFailurePolicy = corev1.RestartPolicyOnFailure, patterns("True")
		}, Refused: []string{path + `Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified`}},
		{Name: "no container", To: func(j *batchv1.Job) { j.Spec.Template.Spec.Containers = nil }, Refused: []string{
			"spec.template.spec.containers: Required value"}},
	})
}

func TestGeneratedSelector(t *testing.T) {
	const template = "spec.template.metadata.labels"
	registrytest.Create(t, jobs(t), newJob(), []change{
		{Name: "no UID", To: func(j *batchv1.Job) { j.UID = "" }, Refused: []string{"metadata.uid: Required value"}},
		{Name: "another name", To: func(j *batchv1.Job) {
			j.Spec.Template.Labels = map[string]string{"job-name": "x", "batch.kubernetes.io/controller-uid": "1234"}
		}, Refused: []string{
			template + `[job-name]: Invalid value: {"batch.kubernetes.io/controller-uid":"1234","batch.kubernetes.io/job-name":"work","controller-uid":"1234","job-name":"x"}: must be 'work'`}},
		{Name: "another UID", To: func(j *batchv1.Job) {
			j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"batch.kubernetes.io/controller-uid": "x"}}
		}, Refused: []string{
			"spec.selector: Invalid value: {\"matchLabels\":{\"batch.kubernetes.io/controller-uid\":\"x\"}}: `selector` not auto-generated",
			template + ": Invalid value: {\"batch.kubernetes.io/controller-uid\":\"1234\",\"batch.kubernetes.io/job-name\":\"work\",\"controller-uid\":\"1234\",\"job-name\":\"work\"}: `selector` does not match template `labels`"}},
		{Name: "manual", To: func(j *batchv1.Job) {
			j.Spec.ManualSelector, j.Spec.Template.Labels = new(true), map[string]string{"a": "b"}
			j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}},
		{Name: "manual without a selector", To: func(j *batchv1.Job) { j.Spec.ManualSelector = new(true) }, Refused: []string{
			"spec.selector: Required value",
			template + ": Invalid value: null: `selector` does not match template `labels`"}},
		{Name: "a bad selector", To: func(j *batchv1.Job) {
			j.Spec.ManualSelector, j.Spec.Template.Labels = new(true), map[string]string{"a": "b"}
			j.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
		}, Refused: []string{
			`spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator`}},
	})
	bare := newJob()
	jobs(t).Rules.Default(bare)
	bare.Spec.Selector, bare.Spec.Template.Labels = &metav1.LabelSelector{}, map[string]string{"job-name": "work"}
	var got []string
	for _, e := range jobs(t).Rules.Validate(bare) {
		got = append(got, e.Error())
	}
	if want := []string{
		template + "[controller-uid]: Required value: must be '1234'",
		template + "[batch.kubernetes.io/controller-uid]: Required value: must be '1234'",
		template + "[batch.kubernetes.io/job-name]: Required value: must be 'work'",
	}; !slices.Equal(got, want) {
		t.Errorf("refused with\n%s", strings.Join(got, "\n"))
	}
}

func TestIndexed(t *testing.T) {
	registrytest.Create(t, jobs(t), indexed(newJob()), []change{
		{Name: "no completions", To: func(j *batchv1.Job) {
			j.Spec.Completions = nil
			j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: new(int32(1))}}}
		}, Refused: []string{"spec.completions: Required value: when completion mode is Indexed"}},
		{Name: "at the limits", To: func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Completions = new(int32(100_000)), new(int32(100_000))
			j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes = new(int32(0)), new(int32(100_000))
		}},
		{Name: "beyond the limits", To: func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Completions = new(int32(100_001)), new(int32(100_000))
			j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes = new(int32(0)), new(int32(100_001))
		}, Refused: []string{
			"spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
			"spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to completions",
			"spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000"}},
		{Name: "many", To: func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Completions = new(int32(10_000)), new(int32(100_001))
			j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes = new(int32(0)), new(int32(10_000))
		}},
		{Name: "many without limit", To: func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Completions = new(int32(100_000)), new(int32(100_001))
		}},
		{Name: "many may fail", To: func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Completions = new(int32(10_001)), new(int32(100_001))
			j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes = new(int32(0)), new(int32(10_001))
		}, Refused: []string{
			"spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index",
			"spec.maxFailedIndexes: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index"}},
		{Name: "all may fail", To: func(j *batchv1.Job) {
			j.Spec.Completions, j.Spec.BackoffLimitPerIndex = new(int32(100_001)), new(int32(0))
		}, Refused: []string{"spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"}},
		{Name: "long name", To: func(j *batchv1.Job) { j.Name = strings.Repeat("a", 61) }},
		{Name: "too long a name", To: func(j *batchv1.Job) { j.Name = strings.Repeat("a", 62) }, Refused: []string{
			`metadata.name: Invalid value: "` + strings.Repeat("a", 62) + `": will not able to create pod with invalid DNS label: ` + strings.Repeat("a", 62) + "-2"}},
		{Name: "too long for more", To: func(j *batchv1.Job) { j.Name, j.Spec.Completions = strings.Repeat("a", 61), new(int32(11)) }, Refused: []string{
			`metadata.name: Invalid value: "` + strings.Repeat("a", 61) + `": will not able to create pod with invalid DNS label: ` + strings.Repeat("a", 61) + "-10"}},
		{Name: "too long for none", To: func(j *batchv1.Job) { j.Name, j.Spec.Completions = strings.Repeat("a", 63), new(int32(0)) }},
	})
	registrytest.Create(t, jobs(t), newJob(), []change{
		{Name: "long name without indexes", To: func(j *batchv1.Job) { j.Name = strings.Repeat("a", 63) }},
	})
}

func codes(operator batchv1.PodFailurePolicyOnExitCodesOperator, container *string, values ...int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:      batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{ContainerName: container, Operator: operator, Values: values},
		}}}
	}
}

func TestFailurePolicy(t *testing.T) {
	const rule = "spec.podFailurePolicy.rules[0]"
	many := make([]int32, 256)
	for i := range many {
		many[i] = int32(i + 1)
	}
	registrytest.Create(t, jobs(t), newJob(), []change{
		{Name: "codes", To: codes("In", new("c"), 1, 2, 255)},
		{Name: "zero is not among", To: codes("NotIn", nil, 0, 1)},
		{Name: "most codes", To: codes("In", nil, many[:255]...)},
		{Name: "an init container", To: func(j *batchv1.Job) {
			codes("In", new("i"), 1)(j)
			j.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "x"}}
		}},
		{Name: "most rules", To: func(j *batchv1.Job) {
			codes("In", nil, 1)(j)
			j.Spec.PodFailurePolicy.Rules = slices.Repeat(j.Spec.PodFailurePolicy.Rules, 20)
		}},
		{Name: "too many rules", To: func(j *batchv1.Job) {
			codes("In", nil, 1)(j)
			j.Spec.PodFailurePolicy.Rules = slices.Repeat(j.Spec.PodFailurePolicy.Rules, 21)
		}, Refused: []string{"spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"}},
		{Name: "no codes", To: codes("In", nil), Refused: []string{rule + ".onExitCodes.values: Invalid value: null: at least one value is required"}},
		{Name: "too many codes", To: codes("In", nil, many...), Refused: []string{rule + ".onExitCodes.values: Too many: 256: must have at most 255 items"}},
		{Name: "no operator", To: codes("", nil, 1), Refused: []string{rule + `.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]`}},
		{Name: "unknown operator", To: codes("Above", nil, 1), Refused: []string{
			rule + `.onExitCodes.operator: Unsupported value: "Above": supported values: "In", "NotIn"`}},
		{Name: "unknown container", To: codes("In", new("x"), 1), Refused: []string{
			rule + `.onExitCodes.containerName: Invalid value: "x": must be one of the container or initContainer names in the pod template`}},
		{Name: "bad codes", To: codes("In", nil, 0, 3, 2, 3), Refused: []string{
			rule + ".onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
			rule + ".onExitCodes.values[3]: Duplicate value: 3",
			rule + ".onExitCodes.values: Invalid value: [0,3,2,3]: must be ordered"}},
		{Name: "conditions", To: func(j *batchv1.Job) { j.Spec.PodFailurePolicy = patterns("Unknown") }},
		{Name: "an unknown status", To: func(j *batchv1.Job) { j.Spec.PodFailurePolicy = patterns("Maybe") }, Refused: []string{
			rule + `.onPodConditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"`}},
		{Name: "an odd condition", To: func(j *batchv1.Job) {
			j.Spec.PodFailurePolicy = patterns("")
			j.Spec.PodFailurePolicy.Rules[0].OnPodConditions[0].Type = "a/"
		}, Refused: []string{
			rule + `.onPodConditions[0].type: Invalid value: "a/": name part must be non-empty`,
			rule + `.onPodConditions[0].type: Invalid value: "a/": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`}},
		{Name: "most conditions", To: func(j *batchv1.Job) {
			j.Spec.PodFailurePolicy = patterns("True")
			r := &j.Spec.PodFailurePolicy.Rules[0]
			r.OnPodConditions = slices.Repeat(r.OnPodConditions, 20)
		}},
		{Name: "too many conditions", To: func(j *batchv1.Job) {
			j.Spec.PodFailurePolicy = patterns("True")
			r := &j.Spec.PodFailurePolicy.Rules[0]
			r.OnPodConditions = slices.Repeat(r.OnPodConditions, 21)
		}, Refused: []string{rule + ".onPodConditions: Too many: 21: must have at most 20 items"}},
		{Name: "too many rules", To: func(j *batchv1.Job) {
			j.Spec.PodFailurePolicy = patterns("True")
			j.Spec.PodFailurePolicy.Rules = slices.Repeat(j.Spec.PodFailurePolicy.Rules, 21)
		}, Refused: []string{"spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"}},
		{Name: "no action", To: func(j *batchv1.Job) {
			codes("In", nil, 1)(j)
			j.Spec.PodFailurePolicy.Rules[0].Action = ""
		}, Refused: []string{rule + `.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]`}},
		{Name: "unknown action", To: func(j *batchv1.Job) {
			codes("In", nil, 1)(j)
			j.Spec.PodFailurePolicy.Rules[0].Action = "Cry"
		}, Refused: []string{rule + `.action: Unsupported value: "Cry": supported values: "Count", "FailIndex", "FailJob", "Ignore"`}},
		{Name: "an index of none", To: func(j *batchv1.Job) {
			codes("In", nil, 1)(j)
			j.Spec.PodFailurePolicy.Rules[0].Action = batchv1.PodFailurePolicyActionFailIndex
		}, Refused: []string{rule + `.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set`}},
		{Name: "both", To: func(j *batchv1.Job) {
			codes("In", nil, 1)(j)
			j.Spec.PodFailurePolicy.Rules[0].OnPodConditions = patterns("True").Rules[0].OnPodConditions
		}, Refused: []string{rule + ": Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"}},
		{Name: "neither", To: func(j *batchv1.Job) {
			j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: "Count"}}}
		}, Refused: []string{rule + ": Invalid value: specifying one of OnExitCodes and OnPodConditions is required"}},
	})
	registrytest.Create(t, jobs(t), indexed(newJob()), []change{{Name: "fails an index", To: func(j *batchv1.Job) {
		codes("In", nil, 1)(j)
		j.Spec.BackoffLimitPerIndex = new(int32(1))
		j.Spec.PodFailurePolicy.Rules[0].Action = batchv1.PodFailurePolicyActionFailIndex
	}}})
}

func TestSuccessPolicy(t *testing.T) {
	rule := func(indexes *string, count *int32) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Spec.Completions = new(int32(10))
			j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: indexes, SucceededCount: count}}}
		}
	}
	const at = "spec.successPolicy.rules[0]"
	changes := []change{
		{Name: "count", To: rule(nil, new(int32(10)))},
		{Name: "indexes", To: rule(new("0,2-4,9"), new(int32(5)))},
		{Name: "no index", To: rule(new(""), new(int32(0)))},
		{Name: "nothing", To: rule(nil, nil), Refused: []string{at + ": Required value: at least one of succeededCount or succeededIndexes must be specified"}},
		{Name: "negative", To: rule(nil, new(int32(-1))), Refused: []string{at + ".succeededCount: Invalid value: -1" + nonnegative}},
		{Name: "more than all", To: rule(new("0,2-4,9"), new(int32(11))), Refused: []string{
			at + ".succeededCount: Invalid value: 11: must be less than or equal to 10 (the number of specified completions)",
			at + ".succeededCount: Invalid value: 11: must be less than or equal to 5 (the number of indexes in the specified succeededIndexes field)"}},
		{Name: "no rules", To: func(j *batchv1.Job) { j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{} }, Refused: []string{
			"spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified"}},
		{Name: "most rules", To: func(j *batchv1.Job) {
			rule(new("0"), nil)(j)
			j.Spec.SuccessPolicy.Rules = slices.Repeat(j.Spec.SuccessPolicy.Rules, 20)
		}},
		{Name: "too many rules", To: func(j *batchv1.Job) {
			rule(new("0"), nil)(j)
			j.Spec.SuccessPolicy.Rules = slices.Repeat(j.Spec.SuccessPolicy.Rules, 21)
		}, Refused: []string{"spec.successPolicy.rules: Too many: 21: must have at most 20 items"}},
	}
	for list, message := range map[string]string{
		"1-2-3":  `the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '-'`,
		"x":      `cannot convert string to integer for index: "x"`,
		"1-y":    `cannot convert string to integer for index: "y"`,
		"10":     `too large index: "10"`,
		"1-10":   `too large index: "10"`,
		"3-3":    "non-increasing order, previous: 3, current: 3",
		"1,1":    "non-increasing order, previous: 1, current: 1",
		"0-4,4":  "non-increasing order, previous: 4, current: 4",
		"5,1-2":  "non-increasing order, previous: 5, current: 1",
		"1,,2":   `cannot convert string to integer for index: ""`,
		" 1":     `cannot convert string to integer for index: " 1"`,
		"-1":     `cannot convert string to integer for index: ""`,
		"0,1, 2": `cannot convert string to integer for index: " 2"`,
	} {
		changes = append(changes, change{Name: "indexes " + list, To: rule(&list, nil), Refused: []string{
			fmt.Sprintf("%s.succeededIndexes: Invalid value: %q: error parsing succeededIndexes: %s", at, list, message)}})
	}
	registrytest.Create(t, jobs(t), indexed(newJob()), changes)
	registrytest.Create(t, jobs(t), newJob(), []change{
		{Name: "without indexes", To: rule(new("0"), nil), Refused: []string{
			`spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":"0","SucceededCount":null}]}: requires indexed completion mode`}},
	})
	long := indexed(newJob())
	rule(new(strings.Repeat(" ", 64*1024+1)), nil)(long)
	registrytest.Prepare(jobs(t), long)
	if errs := jobs(t).Rules.Validate(long); len(errs) != 2 || errs[0].Error() != at+".succeededIndexes: Too long: may not be more than 65536 bytes" {
		t.Errorf("%v", errs)
	}
	long.Spec.SuccessPolicy.Rules[0].SucceededIndexes = new(strings.Repeat(" ", 64*1024))
	if errs := jobs(t).Rules.Validate(long); len(errs) != 1 || errs[0].Type == field.ErrorTypeTooLong {
		t.Errorf("the longest list: %v", errs)
	}
}
