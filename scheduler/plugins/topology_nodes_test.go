package plugins_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// A plugin alone decides about one node.
func TestTopologyOfOneNode(t *testing.T) {
	one := scheduler.NewNodeInfo(street()[0], guest("1", "app=web", living("a")))
	const soft = corev1.ScheduleAnyway
	if r := (plugins.InterPodAffinity{}).Check(guest("p", "", apart(term("zone", app("web")))), one); r.Error() != notApart {
		t.Errorf("refused: %v", r)
	}
	if r := (plugins.InterPodAffinity{}).Check(guest("p", "", near(term("zone", app("web"), inTeam("red")))), one); r == nil {
		t.Error("passes")
	}
	if r := (plugins.InterPodAffinity{}).Check(guest("p", ""), one); r != nil {
		t.Errorf("refused: %v", r)
	}
	if s := (plugins.InterPodAffinity{}).Score(guest("p", "", ratherNear(3, term("zone", app("web")))), one); s != 3 {
		t.Errorf("scores %d", s)
	}
	if s := (plugins.InterPodAffinity{}).Score(guest("p", ""), one); s != 0 {
		t.Errorf("scores %d", s)
	}
	if r := (plugins.PodTopologySpread{}).Check(guest("p", "", spread(1, "rack", corev1.DoNotSchedule, app("web"))), one); r.Error()+"!" != unlabeled {
		t.Errorf("refused: %v", r)
	}
	if r := (plugins.PodTopologySpread{}).Check(guest("p", ""), one); r != nil {
		t.Errorf("refused: %v", r)
	}
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	if r := (plugins.PodTopologySpread{}).Check(guest("p", "", spread(1, "zone", corev1.DoNotSchedule, bad)), one); r == nil || r.Err == nil {
		t.Errorf("refused: %v", r)
	}
	if s := (plugins.PodTopologySpread{}).Score(guest("p", "", spread(3, "zone", soft, app("web"))), one); s != 3 {
		t.Errorf("scores %d", s)
	}
	if s := (plugins.PodTopologySpread{}).Score(guest("p", "", spread(3, "zone", soft, bad)), one); s != 0 {
		t.Errorf("scores %d", s)
	}
}

// A preemptor asks about nodes with other pods.
func TestTopologyOfChangedNodes(t *testing.T) {
	web, hater := guest("1", "app=web", living("a")), guest("2", "", living("a"), apart(term("zone", app("web"))))
	s := scheduler.NewSnapshot(street(), []*corev1.Pod{web, hater, guest("3", "app=web", living("c"))})
	for name, tt := range map[string]struct {
		plugin scheduler.Preparer
		pod    *corev1.Pod
		want   []string // with both pods, without the first, without the second, without both
	}{
		"affinity": {plugins.InterPodAffinity{}, guest("p", "", near(term(corev1.LabelHostname, app("web")))), []string{"", notNear, "", notNear}},
		"apart":    {plugins.InterPodAffinity{}, guest("p", "", apart(term("zone", app("web")))), []string{notApart, "", notApart, ""}},
		"unwanted": {plugins.InterPodAffinity{}, guest("p", "app=web"), []string{unwanted, unwanted, "", ""}},
		"spread":   {plugins.PodTopologySpread{}, guest("p", "app=web", spread(1, corev1.LabelHostname, corev1.DoNotSchedule, app("web"))), []string{skewed, "", skewed, ""}},
	} {
		prepared, err := tt.plugin.Prepare(tt.pod, s)
		if err != nil {
			t.Fatal(err)
		}
		was := s.Node("a")
		var got []string
		for _, pods := range [][]*corev1.Pod{{web, hater}, {hater}, {web}, nil} {
			r := prepared.CheckChanged(was, scheduler.NewNodeInfo(was.Node, pods...))
			says := r.Error()
			if r != nil && r.Unresolvable {
				says += "!"
			}
			got = append(got, says)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A pod that comes to one of two nodes with the fewest leaves the other behind, whichever is looked at first.
