package core_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// TestEventLengths: the words and the message of an event may be as long as upstream's limits, and no longer.
func TestEventLengths(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "events")
	of := func(words, note int) func(*corev1.Event) {
		return func(e *corev1.Event) {
			word := strings.Repeat("x", words)
			e.ReportingInstance, e.Action, e.Reason, e.Message = word, word, word, strings.Repeat("y", note)
		}
	}
	registrytest.Create(t, k, newEvent(), []eventChange{
		{Name: "the longest", To: of(128, 1024)},
		{Name: "longer", To: of(129, 1025), Refused: []string{
			`reportingInstance: Invalid value: "": can have at most 128 characters`, `action: Invalid value: "": can have at most 128 characters`,
			`reason: Invalid value: "": can have at most 128 characters`, `message: Invalid value: "": can have at most 1024 characters`}},
	})
}

// TestLimitRatios: ratios are compared as precisely as their size allows.
func TestLimitRatios(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "limitranges")
	type change = registrytest.Change[*corev1.LimitRange]
	only := func(least, most, ratio string) func(*corev1.LimitRange) {
		return func(r *corev1.LimitRange) {
			item := corev1.LimitRangeItem{Type: corev1.LimitTypePod, MaxLimitRequestRatio: amounts("memory", ratio)}
			if least != "" {
				item.Min = amounts("memory", least)
			}
			if most != "" {
				item.Max = amounts("memory", most)
			}
			r.Spec.Limits = []corev1.LimitRangeItem{item}
		}
	}
	const at = "spec.limits[0].maxLimitRequestRatio[memory]: Invalid value: "
	registrytest.Create(t, k, limitRange(), []change{
		{Name: "one", To: only("1", "1", "1")},
		{Name: "without a maximum", To: only("2", "", "9")},
		{Name: "without a minimum", To: only("", "2", "9")},
		{Name: "fractions", To: only("500m", "750m", "1600m"), Refused: []string{at + `"1600m": ratio 1600m is greater than max/min = 1.500000`}},
		{Name: "a huge ratio", To: only("1", "2", "10P"), Refused: []string{at + `"10P": ratio 10P is greater than max/min = 2.000000`}},
		{Name: "a huge maximum", To: only("1P", "10P", "11"), Refused: []string{at + `"11": ratio 11 is greater than max/min = 10.000000`}},
		{Name: "below a huge maximum", To: only("1P", "10P", "10")},
		{Name: "a huge minimum", To: only("10P", "1P", "2"), Refused: []string{
			`spec.limits[0].min[memory]: Invalid value: "10P": min value 10P is greater than max value 1P`,
			at + `"2": ratio 2 is greater than max/min = 0.100000`}},
	})
}

// TestScopeOperators: each scope of a quota allows some operators, and these need values or have none.
func TestScopeOperators(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "resourcequotas")
	const (
		at     = "spec.scopeSelector.matchExpressions."
		exists = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
		needs  = at + "values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
		none   = at + "values: Invalid value: [\"v\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
	)
	for _, scope := range []corev1.ResourceQuotaScope{"Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity", "PriorityClass", "VolumeAttributesClass"} {
		free := scope == "PriorityClass" || scope == "VolumeAttributesClass"
		for _, operator := range []corev1.ScopeSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist", "Frob"} {
			for _, values := range [][]string{nil, {"v"}} {
				var want []string
				if !free && operator != "Exists" {
					want = append(want, at+`operator: Invalid value: "`+string(operator)+`": `+exists)
				}
				switch in := operator == "In" || operator == "NotIn"; {
				case operator == "Frob":
					want = append(want, at+`operator: Invalid value: "Frob": not a valid selector operator`)
				case in && values == nil:
					want = append(want, needs)
				case !in && values != nil:
					want = append(want, none)
				}
				q := &corev1.ResourceQuota{ObjectMeta: named(), Spec: corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{
					MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: scope, Operator: operator, Values: values}}}}}
				registrytest.Prepare(k, q)
				var got []string
				for _, err := range k.Rules.Validate(q) {
					got = append(got, err.Error())
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s %s %v: %q, want %q", scope, operator, values, got, want)
				}
			}
		}
	}
}

// TestActionsOfPods: what clients send to the actions of pods is of upstream's kinds.
func TestActionsOfPods(t *testing.T) {
	kinds := core.Kinds(core.Options{})
	got := map[string]string{}
	for _, k := range kinds {
		for name, action := range k.Sub.Actions {
			got[k.Plural+"/"+name] = fmt.Sprintf("%T", action.New())
		}
	}
	want := map[string]string{"pods/binding": "*v1.Binding", "pods/eviction": "*v1.Eviction"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestPodDrops: fields of features that are off are dropped by every view that writes them, unless the pod has them.
func TestPodDrops(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "pods")
	stop := &corev1.Lifecycle{StopSignal: new(corev1.SIGTERM)}
	with := func() *corev1.Pod {
		p := pod("web")
		p.Spec.OS = &corev1.PodOS{Name: corev1.Linux}
		p.Spec.Containers[0].Lifecycle = stop.DeepCopy()
		return p
	}
	p := with()
	registrytest.Prepare(k, p)
	if p.Spec.Containers[0].Lifecycle != nil {
		t.Error("created with a stop signal")
	}
	old := pod("web")
	registrytest.Prepare(k, old)
	p = with()
	registrytest.Replace(k, "", p, old)
	if p.Spec.Containers[0].Lifecycle != nil {
		t.Error("updated with a stop signal")
	}
	had := with()
	registrytest.Prepare(k, had)
	had.Spec.Containers[0].Lifecycle = stop.DeepCopy()
	p = had.DeepCopy()
	registrytest.Replace(k, "", p, had)
	if p.Spec.Containers[0].Lifecycle == nil {
		t.Error("an update drops the stop signal of a pod that has it")
	}
	p = old.DeepCopy()
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "i", Lifecycle: stop.DeepCopy()}}}
	registrytest.Replace(k, "ephemeralcontainers", p, old)
	if c := p.Spec.EphemeralContainers; len(c) != 1 || c[0].Lifecycle != nil {
		t.Errorf("ephemeral containers %+v", c)
	}
	health := []corev1.PodVolumeHealth{{Name: "v"}}
	p = old.DeepCopy()
	p.Status.VolumeHealth = health
	registrytest.Replace(k, "status", p, old)
	if p.Status.VolumeHealth != nil {
		t.Error("the status got a volume's health")
	}
	old.Status.VolumeHealth = health
	p = old.DeepCopy()
	registrytest.Replace(k, "status", p, old)
	if p.Status.VolumeHealth == nil {
		t.Error("the status lost a volume's health")
	}
}

// TestEvictionOfACertainVersion: an eviction that asks for a version of the pod fails with a conflict if the pod has changed
// since, whatever the pod's state is.
func TestEvictionOfACertainVersion(t *testing.T) {
	for name, c := range map[string]struct {
		phase    corev1.PodPhase
		ready    bool
		budget   *policyv1.PodDisruptionBudgetStatus
		conflict bool
	}{
		"pending": {phase: corev1.PodPending, conflict: true},
		"ended":   {phase: corev1.PodSucceeded, conflict: true},
		"running": {phase: corev1.PodRunning, ready: true, conflict: true},
		"allowed": {phase: corev1.PodRunning, ready: true, budget: &policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1}, conflict: true},
		// As upstream, the version that was judged replaces the asked one.
		"unhealthy": {phase: corev1.PodRunning, budget: &policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, DesiredHealthy: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := running(t)
				p := podIn(t, r, c.phase, c.ready)
				if c.budget != nil {
					budget(t, r, "pdb", *c.budget)
				}
				before := p.ResourceVersion
				p = change(t, r, "status", p, func(p *corev1.Pod) { p.Status.Message = "changed" })
				e := evictionOf("web")
				e.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &before}}
				_, err := act(t, r, "eviction", "web", e, false)
				if errors.Is(err, registry.ErrConflict) != c.conflict || !c.conflict && err != nil {
					t.Errorf("got %v", err)
				}
				if p, there := stored(t, r, p); (!there || p.DeletionTimestamp != nil) == c.conflict {
					t.Errorf("got %+v", p)
				}
			})
		})
	}
	t.Run("unhealthy and changing", func(t *testing.T) {
		r := running(t)
		p := podIn(t, r, corev1.PodRunning, false)
		budget(t, r, "pdb", policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, DesiredHealthy: 2})
		e := evictionOf("web")
		e.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &p.ResourceVersion}}
		evict := registrytest.Find(t, core.Kinds(core.Options{}), "pods").Sub.Actions["eviction"].Run
		if _, err := evict(t.Context(), &racing{r.Access(), t, r, 1}, podKey("web"), e, false); !errors.Is(err, registry.ErrConflict) {
			t.Errorf("got %v", err)
		}
	})
}

// TestEvictionTriedOnly: a dry run refuses what the eviction would.
func TestEvictionTriedOnly(t *testing.T) {
	r := running(t)
	podIn(t, r, corev1.PodRunning, true)
	other, version := types.UID("other"), "1"
	for name, p := range map[string]*metav1.Preconditions{"another pod": {UID: &other}, "another version": {ResourceVersion: &version}} {
		e := evictionOf("web")
		e.DeleteOptions = &metav1.DeleteOptions{Preconditions: p}
		if _, err := act(t, r, "eviction", "web", e, true); !errors.Is(err, registry.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
		e.DeleteOptions.DryRun = []string{metav1.DryRunAll}
		if _, err := act(t, r, "eviction", "web", e, false); !errors.Is(err, registry.ErrConflict) {
			t.Errorf("%s, in the options: %v", name, err)
		}
	}
}
