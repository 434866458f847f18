package core_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestResourceQuota(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "resourcequotas")
	good := &corev1.ResourceQuota{ObjectMeta: named(), Spec: corev1.ResourceQuotaSpec{Hard: resources("pods", "10", "cpu", "2")}}
	type change = registrytest.Change[*corev1.ResourceQuota]
	selector := func(r ...corev1.ScopedResourceSelectorRequirement) func(*corev1.ResourceQuota) {
		return func(q *corev1.ResourceQuota) { q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: r} }
	}
	changes := []change{
		{Name: "every sort of resource", To: func(q *corev1.ResourceQuota) {
			q.Spec.Hard = resources("count/deployments.apps", "1", "requests.example.com/gpu", "2", "hugepages-2Mi", "4Mi",
				"requests.hugepages-2Mi", "4Mi", "gold.storageclass.storage.k8s.io/requests.storage", "1Gi", "services.nodeports", "0")
		}},
		{Name: "unknown", To: func(q *corev1.ResourceQuota) { q.Spec.Hard = resources("gpu", "1") }, Refused: []string{
			`spec.hard[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified`,
			`spec.hard[gpu]: Invalid value: "gpu": must be a standard resource for quota`}},
		{Name: "storage", To: func(q *corev1.ResourceQuota) { q.Spec.Hard = resources("storage", "1") }, Refused: []string{
			`spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota`}},
		{Name: "negative", To: func(q *corev1.ResourceQuota) { q.Spec.Hard = resources("cpu", "-1") }, Refused: []string{
			`spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0`}},
		{Name: "half a pod", To: func(q *corev1.ResourceQuota) { q.Spec.Hard = resources("pods", "500m") }, Refused: []string{
			`spec.hard[pods]: Invalid value: "500m": must be an integer`}},
		{Name: "priority classes", To: selector(corev1.ScopedResourceSelectorRequirement{ScopeName: "PriorityClass", Operator: "In", Values: []string{"high"}})},
		{Name: "selectors", To: selector(
			corev1.ScopedResourceSelectorRequirement{ScopeName: "PriorityClass", Operator: "In"},
			corev1.ScopedResourceSelectorRequirement{ScopeName: "PriorityClass", Operator: "Exists", Values: []string{"high"}},
			corev1.ScopedResourceSelectorRequirement{ScopeName: "Terminating", Operator: "DoesNotExist"},
		), Refused: []string{
			"spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
			"spec.scopeSelector.matchExpressions.values: Invalid value: [\"high\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
			`spec.scopeSelector.matchExpressions.operator: Invalid value: "DoesNotExist": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity`,
		}},
	}
	registrytest.Create(t, k, good, slices.Concat(changes, []change{
		{Name: "scopes", To: func(q *corev1.ResourceQuota) {
			q.Spec.Scopes = []corev1.ResourceQuotaScope{"NotTerminating", "NotBestEffort"}
		}},
		{Name: "scopes that exclude each other", To: func(q *corev1.ResourceQuota) {
			q.Spec.Scopes = []corev1.ResourceQuotaScope{"NotTerminating", "Terminating"}
		}, Refused: []string{`spec.scopes: Invalid value: ["NotTerminating","Terminating"]: conflicting scopes`}},
		{Name: "scope of another resource", To: func(q *corev1.ResourceQuota) {
			q.Spec.Scopes = []corev1.ResourceQuotaScope{"BestEffort"}
		}, Refused: []string{`spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource`}},
	}))
	registrytest.Update(t, k, "", good, slices.Concat(changes, []change{
		{Name: "scopes", To: func(q *corev1.ResourceQuota) {
			q.Spec.Scopes = []corev1.ResourceQuotaScope{"NotTerminating"}
		}, Refused: []string{`spec.scopes: Invalid value: ["NotTerminating"]: field is immutable`}},
	}))
	registrytest.Update(t, k, "status", good, []change{
		{Name: "usage", To: func(q *corev1.ResourceQuota) { q.Status.Used = resources("pods", "2") }},
		{Name: "bad usage", To: func(q *corev1.ResourceQuota) { q.Status.Used = resources("gpu", "-2") }, Refused: []string{
			`status.used[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified`,
			`status.used[gpu]: Invalid value: "gpu": must be a standard resource for quota`,
			`status.used[gpu]: Invalid value: "-2": must be greater than or equal to 0`}},
	})

	good.Status = corev1.ResourceQuotaStatus{Hard: resources("pods", "10", "limits.cpu", "2", "cpu", "1"), Used: resources("pods", "3")}
	want := []any{"x", "cpu: 0/1, pods: 3/10", "limits.cpu: 0/2", "<unknown>"}
	if cells := k.Columns.Cells(good, time.Now()); !slices.Equal(cells, want) {
		t.Errorf("cells %q", cells)
	}
	changed := good.DeepCopy()
	changed.Status, changed.Spec.Hard = corev1.ResourceQuotaStatus{}, resources("pods", "20")
	if errs := registrytest.Replace(k, "", changed, good); len(errs) > 0 || len(changed.Status.Used) != 1 {
		t.Errorf("an update changed the status: %v; %v", changed.Status, errs)
	}
}

// TestResourceQuotaWarnings: limits below requests are allowed, with a warning.
func TestResourceQuotaWarnings(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "resourcequotas")
	var told []string
	ctx := registry.WithWarnings(t.Context(), func(text string) { told = append(told, text) })
	k.Rules.PrepareCreate(ctx, &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: resources(
		"cpu", "2", "limits.cpu", "1", "requests.memory", "1Gi", "limits.memory", "2Gi", "ephemeral-storage", "2", "limits.ephemeral-storage", "1")}})
	if want := []string{"ResourceQuota cpu (2) should be less than limits.cpu (1)"}; !slices.Equal(told, want) {
		t.Errorf("warnings %q", told)
	}
}
