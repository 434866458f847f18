package scheduler_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// PodAffinityOf leaves out the lists that it cannot read, and its terms have the same key if they mean the same.
func TestPodAffinityOf(t *testing.T) {
	app := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}
	}
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	term := func(key string, selector, namespaces *metav1.LabelSelector, names ...string) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector, NamespaceSelector: namespaces, Namespaces: names}
	}
	of := func(near, apart []corev1.PodAffinityTerm, preferred ...corev1.PodAffinityTerm) (*scheduler.PodAffinity, error) {
		p := pod("p", "", "")
		p.Spec.Affinity = &corev1.Affinity{}
		if near != nil {
			p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near}
		}
		if apart != nil || preferred != nil {
			p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: apart}
		}
		for _, one := range preferred {
			p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
				p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.WeightedPodAffinityTerm{Weight: 7, PodAffinityTerm: one})
		}
		return scheduler.PodAffinityOf(p)
	}
	if a, err := scheduler.PodAffinityOf(pod("p", "", "")); a != nil || err != nil {
		t.Errorf("of a pod without affinity: %v, %v", a, err)
	}
	for _, none := range [][]corev1.PodAffinityTerm{nil, {}} {
		if a, err := of(none, none); a != nil || err != nil {
			t.Errorf("of a pod with empty affinity: %v, %v", a, err)
		}
	}
	zone := term("zone", app("web"), nil)
	a, err := of([]corev1.PodAffinityTerm{zone}, []corev1.PodAffinityTerm{term("host", app("db"), app("team"), "z", "x", "z")}, zone)
	if err != nil || len(a.Required) != 1 || len(a.RequiredAnti) != 1 || a.Preferred != nil || len(a.PreferredAnti) != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	same(t, int32(7), a.PreferredAnti[0].Weight)
	same(t, a.Required[0].Key, a.PreferredAnti[0].Key)
	same(t, []string{"default"}, a.Required[0].Namespaces)
	same(t, []string{"x", "z"}, a.RequiredAnti[0].Namespaces)
	db := pod("db", "", "")
	db.Labels = map[string]string{"app": "db"}
	for namespace, labelled := range map[string]labels.Set{"x": nil, "default": {"app": "team"}} {
		if db.Namespace = namespace; !a.RequiredAnti[0].Selects(db, labelled) {
			t.Errorf("a pod in %s is not selected", namespace)
		}
	}
	db.Namespace = "default"
	if a.RequiredAnti[0].Selects(db, nil) || a.Required[0].Selects(db, nil) {
		t.Error("a pod of another namespace, or with other labels, is selected")
	}
	keys := map[string]int{}
	for i, one := range []corev1.PodAffinityTerm{
		zone, term("host", app("web"), nil), term("zone", app("db"), nil), term("zone", nil, nil), term("zone", &metav1.LabelSelector{}, nil),
		term("zone", app("web"), app("x")), term("zone", app("web"), nil, "x"), term("zone", app("web"), nil, "x", "y"), term("zone", app("web"), &metav1.LabelSelector{}),
		term("zon", app("web"), nil, "e"), term("zone", app("web"), nil, "y"),
		term("1", app("web"), nil, "abcdefghi1z"), term("11abcdefghi", app("web"), nil, "z"), // the same digits and letters
	} {
		a, err := of([]corev1.PodAffinityTerm{one}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := keys[a.Required[0].Key]; taken {
			t.Errorf("terms %d and %d have the key %q", other, i, a.Required[0].Key)
		}
		keys[a.Required[0].Key] = i
	}
	a, err = of([]corev1.PodAffinityTerm{zone, term("zone", bad, nil)}, []corev1.PodAffinityTerm{zone}, term("zone", nil, bad))
	if err == nil || a == nil || a.Required != nil || len(a.RequiredAnti) != 1 || a.PreferredAnti != nil {
		t.Errorf("%+v, %v", a, err)
	}
	same(t, `[requiredAffinityTerms: "Near" is not a valid label selector operator, preferredAntiAffinityTerms: "Near" is not a valid label selector operator]`, err.Error())
}

// A trial has a memory only for a preemptor with a name.
func TestMemoryOfNobody(t *testing.T) {
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.NodeResourcesFit{}}}}
	planner, s := scheduler.NewPlanner(&profile), scheduler.NewSnapshot([]*corev1.Node{node("a", "1", "8Gi")}, nil)
	for name, want := range map[string]bool{"": false, "P": true} {
		if got := planner.Trial(pod("p", "4", ""), s, name).Memory() != nil; got != want {
			t.Errorf("%q has a memory: %t", name, got)
		}
	}
}

// unprepared is a predicate that cannot examine pods.
type unprepared struct{ scheduler.Predicate }

func (unprepared) Prepare(*corev1.Pod, *scheduler.Snapshot) (scheduler.Prepared, error) {
	return scheduler.Prepared{}, errors.New("cannot look")
}

// What keeps a predicate from examining a pod fails the attempt, whether it is to check nodes or not.
func TestPredicateThatCannotLook(t *testing.T) {
	all := scheduler.PredicateFunc("P", func(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal { return nil })
	for _, without := range []scheduler.Roles{0, scheduler.RolePredicate} {
		profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: unprepared{all}, Without: without}}}
		d := profile.Schedule(pod("p", "1", ""), scheduler.NewSnapshot([]*corev1.Node{node("a", "1", "8Gi")}, nil))
		if d.Err == nil || !strings.Contains(d.Err.Error(), "cannot look") || d.Node != "" {
			t.Errorf("without %b: %v", without, d.Err)
		}
	}
}

// A trial of a pod that is refused as a whole says so of each node, whatever was said of the pod before.
func TestTrialOfAPodThatIsRefused(t *testing.T) {
	no := &scheduler.Refusal{Reasons: []string{"no"}, Unresolvable: true}
	refused := prepared{scheduler.PredicateFunc("X", nil), func(s *scheduler.Snapshot) (scheduler.Prepared, error) {
		if s.Node("c") != nil {
			return scheduler.Prepared{Refusal: no}, nil
		}
		return scheduler.Prepared{Check: func(*scheduler.NodeInfo) *scheduler.Refusal { return scheduler.Refuse("full") }}, nil
	}}
	profile := profileOf(refused)
	planner := scheduler.NewPlanner(&profile)
	few := scheduler.NewSnapshot([]*corev1.Node{node("a", "4", "8Gi"), node("b", "4", "8Gi")}, nil)
	for name, trial := range map[string]func(*scheduler.Snapshot) *scheduler.Trial{
		"profile": func(s *scheduler.Snapshot) *scheduler.Trial { return profile.Trial(pod("p", "1", ""), s) },
		"planner": func(s *scheduler.Snapshot) *scheduler.Trial { return planner.Trial(pod("p", "1", ""), s, "") },
	} {
		for s, want := range map[*scheduler.Snapshot]string{few: "full", three(): "no"} {
			tr := trial(s)
			for i, n := range s.Nodes() {
				info, refusal := tr.Node(n.Name)
				if info != n || refusal == nil || refusal.Error() != want || tr.Refusal(i) != refusal {
					t.Errorf("%s: node %s is refused because of %v, want %q", name, n.Name, refusal, want)
				}
			}
			if info, refusal := tr.Node("z"); info != nil || refusal != nil {
				t.Errorf("%s: there is a node z: %v, %v", name, info, refusal)
			}
		}
	}
}
