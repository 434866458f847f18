package validation_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	theirs "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"

	"github.com/keelson-dev/keelson/internal/quota"
)

// quotaNames are limits of every sort.
func quotaNames() corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, name := range []string{
		"pods", "count/pods", "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
		"limits.cpu", "limits.memory", "limits.ephemeral-storage", "hugepages-2Mi", "requests.hugepages-2Mi", "requests.example.com/gpu",
		"requests.deviceclass.resource.kubernetes.io/gold", "example.com/gpu", "limits.example.com/gpu", "requests.kubernetes.io/a",
		"services", "count/services", "services.nodeports", "requests.storage", "count/pods.apps", "configmaps",
	} {
		list[corev1.ResourceName(name)] = resource.MustParse("1")
	}
	return list
}

// TestQuotaOfPods compares the usage of pods, their scopes, and the required limits.
func TestQuotaOfPods(t *testing.T) {
	ours, upstream := quota.For(schema.GroupResource{Resource: "pods"}), theirs.NewPodEvaluator(nil, clock.RealClock{})
	all := quotaNames()
	var known []corev1.ResourceName
	for name := range all {
		known = append(known, name)
		if got, want := ours.Tracks(name), len(upstream.MatchingResources([]corev1.ResourceName{name})) > 0; got != want {
			t.Errorf("limits of %s concern pods: %v, want %v", name, got, want)
		}
	}
	operators := []corev1.ScopeSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist"}
	each(t, func(t *testing.T, f *filler) {
		pod := randomPod(f)
		pod.Status.Phase = []corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}[f.IntN(5)]
		if f.IntN(4) == 0 {
			at, grace := metav1.NewTime(time.Now().Add(time.Duration(f.IntN(3)-1)*time.Hour)), int64(60)
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &grace
		}
		// On copies: upstream's sums of quantities beyond 64 bits modify their pod.
		want, err := upstream.Usage(pod.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if got := ours.Usage(pod.DeepCopy(), time.Now()); !quota.Equal(got, want) {
			t.Errorf("usage %s, want %s", toJSON(got), toJSON(want))
		}
		for _, scope := range []corev1.ResourceQuotaScope{
			"Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity", "VolumeAttributesClass",
		} {
			r := corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: operators[f.IntN(4)]}
			if r.Operator == "In" || r.Operator == "NotIn" {
				r.Values = []string{"high", pod.Spec.PriorityClassName}
				if pod.Spec.PriorityClassName == "" || f.IntN(2) == 0 {
					r.Values = r.Values[:1]
				}
			}
			q := &corev1.ResourceQuota{
				Spec:   corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{r}}},
				Status: corev1.ResourceQuotaStatus{Hard: all},
			}
			want, err := upstream.Matches(q, pod)
			if got := ours.InScope(&q.Spec, pod); err == nil && got != want {
				t.Errorf("in scope %v: %v, want %v", r, got, want)
			}
		}
		f.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Status: corev1.ResourceQuotaStatus{Hard: corev1.ResourceList{}, Used: all}}
		for _, name := range known[:f.IntN(6)] {
			q.Status.Hard[name] = all[name]
		}
		restricted := upstream.MatchingResources(slices.Clone(known[:len(q.Status.Hard)]))
		constraint := upstream.Constraints(restricted, pod)
		if constraint != nil {
			constraint = fmt.Errorf("failed quota: q: %w", constraint)
		}
		claim, err := quota.NewClaim(ours, pod, nil, time.Now())
		if err != nil {
			return // with negative usage
		}
		if got := claim.Check(q); len(restricted) > 0 && fmt.Sprint(got) != fmt.Sprint(constraint) {
			t.Errorf("by %v: %v, want %v", restricted, got, constraint)
		}
	})
}

func toJSON(obj any) string {
	data, err := json.Marshal(obj)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
