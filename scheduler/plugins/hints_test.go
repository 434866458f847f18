package plugins_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// hint is whether an event may help a pod.
type hint struct {
	pod   *corev1.Pod
	event scheduler.Event
	want  bool
}

func hints(t *testing.T, h scheduler.Hinter, tests map[string]hint) {
	t.Helper()
	for name, tt := range tests {
		if got := h.MayHelp(tt.pod, tt.event); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Events about other pods, the pod itself and nodes.

func came(p *corev1.Pod) scheduler.Event {
	return scheduler.Event{Kind: scheduler.AssignedPodAdded, Pod: p}
}

func went(p *corev1.Pod) scheduler.Event {
	return scheduler.Event{Kind: scheduler.AssignedPodDeleted, OldPod: p}
}

func became(kind scheduler.EventKind, old, p *corev1.Pod) scheduler.Event {
	return scheduler.Event{Kind: kind, Change: scheduler.PodChange(old, p), OldPod: old, Pod: p}
}

func built(n *corev1.Node) scheduler.Event {
	return scheduler.Event{Kind: scheduler.NodeAdded, Node: n}
}

func rebuilt(old, n *corev1.Node) scheduler.Event {
	return scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeChange(old, n), OldNode: old, Node: n}
}

// zoned returns a node in a zone, if any, with taints.
func zoned(zone string, taints ...string) *corev1.Node {
	n := node("n", "cpu", "1")
	n.Labels = map[string]string{}
	if zone != "" {
		n.Labels["zone"] = zone
	}
	for _, key := range taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	return n
}

func unreadable() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
}

func TestHintsOfInterPodAffinity(t *testing.T) {
	here := living("n")
	nearWeb, fromWeb, alone := guest("p", "app=web", near(term("zone", app("web")))), guest("p", "", apart(term("zone", app("web")))), guest("p", "app=web")
	nearBoth := guest("p", "", near(term("zone", app("web")), term("rack", &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "x"}})))
	broken := guest("p", "", near(term("zone", unreadable())))
	web, db, nominated := guest("w", "app=web", here), guest("w", "app=db", here), guest("w", "app=web")
	nominated.Status.NominatedNodeName = "n"
	hints(t, plugins.InterPodAffinity{}, map[string]hint{
		"terms that cannot be read":        {broken, came(db), true},
		"one came":                         {nearWeb, came(web), true},
		"another came":                     {nearWeb, came(db), false},
		"one was nominated":                {nearWeb, came(nominated), true},
		"one came nowhere":                 {nearWeb, came(guest("w", "app=web")), false},
		"one of both came":                 {nearBoth, came(web), false},
		"one that is both came":            {nearBoth, came(guest("w", "app=web tier=x", here)), true},
		"one came that is not wanted":      {fromWeb, came(web), false},
		"one came without terms":           {alone, came(web), false},
		"one became it":                    {nearWeb, became(scheduler.AssignedPodUpdated, db, web), true},
		"one became another":               {nearWeb, became(scheduler.AssignedPodUpdated, web, db), false},
		"one stayed it":                    {nearWeb, became(scheduler.AssignedPodUpdated, web, guest("w", "app=web tier=x", here)), false},
		"one became another, for good":     {fromWeb, became(scheduler.AssignedPodUpdated, web, db), true},
		"one became unwanted":              {fromWeb, became(scheduler.AssignedPodUpdated, db, web), false},
		"one stayed unwanted":              {fromWeb, became(scheduler.AssignedPodUpdated, web, guest("w", "app=web tier=x", here)), false},
		"one got no other labels":          {nearWeb, scheduler.Event{Kind: scheduler.AssignedPodUpdated, OldPod: db, Pod: web}, false},
		"one was nowhere before":           {nearWeb, became(scheduler.AssignedPodUpdated, guest("w", "app=db"), web), false},
		"one is nowhere now":               {nearWeb, became(scheduler.AssignedPodUpdated, db, guest("w", "app=web")), false},
		"one went that was unwanted":       {fromWeb, went(web), true},
		"one went":                         {nearWeb, went(web), false},
		"another went":                     {fromWeb, went(db), false},
		"an unwanted one went nowhere":     {fromWeb, went(guest("w", "app=web")), false},
		"one went that did not want it":    {alone, went(guest("w", "", here, apart(term("zone", app("web"))))), true},
		"one went that did not want dbs":   {alone, went(guest("w", "", here, apart(term("zone", app("db"))))), false},
		"one went that cannot be read":     {alone, went(guest("w", "", here, apart(term("zone", unreadable())))), true},
		"a node came to a zone":            {nearWeb, built(zoned("1")), true},
		"a node came to no zone":           {nearWeb, built(zoned("")), false},
		"a node came, far from others":     {fromWeb, built(zoned("")), true},
		"a node came, without terms":       {alone, built(zoned("1")), false},
		"a node moved to a zone":           {nearWeb, rebuilt(zoned(""), zoned("1")), true},
		"a node moved to an unnamed zone":  {nearWeb, rebuilt(zoned(""), labeled("zone", "")), true},
		"a node moved to another zone":     {nearWeb, rebuilt(zoned("1"), zoned("2")), true},
		"a node moved out of its zone":     {nearWeb, rebuilt(zoned("1"), zoned("")), false},
		"a node stayed in its zone":        {nearWeb, rebuilt(zoned("1"), zoned("1", "x")), false},
		"a node there got another label":   {nearWeb, rebuilt(zoned("1"), labeled("zone", "1", "a", "b")), false},
		"a zone changed in name only":      {nearWeb, scheduler.Event{Kind: scheduler.NodeUpdated, OldNode: zoned(""), Node: zoned("1")}, false},
		"a node moved away":                {fromWeb, rebuilt(zoned("1"), zoned("")), true},
		"a node moved elsewhere":           {fromWeb, rebuilt(zoned("1"), zoned("2")), true},
		"a node moved near":                {fromWeb, rebuilt(zoned(""), zoned("1")), false},
		"a node got another label":         {fromWeb, rebuilt(zoned("1"), labeled("zone", "1", "a", "b")), false},
		"the pod got other labels":         {nearWeb, became(scheduler.PodUpdated, guest("p", ""), nearWeb), true},
		"the pod got nothing of interest":  {nearWeb, became(scheduler.PodUpdated, nearWeb, nearWeb), false},
		"an event that it does not follow": {nearWeb, scheduler.Event{Kind: scheduler.ObjectAdded}, false},
	})
}

func TestHintsOfPodTopologySpread(t *testing.T) {
	here := living("n")
	hard := func(change ...func(*corev1.TopologySpreadConstraint)) *corev1.Pod {
		return guest("p", "app=web", spread(1, "zone", corev1.DoNotSchedule, app("web"), change...))
	}
	tainted := func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = new(corev1.NodeInclusionPolicyHonor) }
	spreadOut, careful, broken := hard(), hard(tainted), guest("p", "", spread(1, "zone", corev1.DoNotSchedule, unreadable()))
	twice := guest("p", "app=web", spread(1, "zone", corev1.DoNotSchedule, app("web")), spread(1, "rack", corev1.DoNotSchedule, app("web")))
	web, db, nominated := guest("w", "app=web", here), guest("w", "app=db", here), guest("w", "app=web")
	nominated.Status.NominatedNodeName = "n"
	far := elsewhere(guest("w", "app=web", here))
	tolerant := func(p *corev1.Pod) *corev1.Pod {
		p = p.DeepCopy()
		p.Spec.Tolerations = []corev1.Toleration{{Key: "x", Operator: corev1.TolerationOpExists}}
		return p
	}
	destroyed := func(n *corev1.Node) scheduler.Event {
		return scheduler.Event{Kind: scheduler.NodeDeleted, OldNode: n}
	}
	hints(t, plugins.PodTopologySpread{}, map[string]hint{
		"constraints that cannot be read": {broken, came(web), true},
		"one came":                        {spreadOut, came(web), true},
		"another came":                    {spreadOut, came(db), false},
		"one was nominated":               {spreadOut, came(nominated), true},
		"one came nowhere":                {spreadOut, came(guest("w", "app=web")), false},
		"one came elsewhere":              {spreadOut, came(far), false},
		"one went":                        {spreadOut, went(web), true},
		"another went":                    {spreadOut, went(db), false},
		"one went elsewhere":              {spreadOut, went(far), false},
		"one went nowhere":                {spreadOut, went(guest("w", "app=web")), false},
		"one became it":                   {spreadOut, became(scheduler.AssignedPodUpdated, db, web), true},
		"one became another":              {spreadOut, became(scheduler.AssignedPodUpdated, web, db), true},
		"one stayed it":                   {spreadOut, became(scheduler.AssignedPodUpdated, web, guest("w", "app=web tier=x", here)), false},
		"one got no other labels":         {spreadOut, scheduler.Event{Kind: scheduler.AssignedPodUpdated, OldPod: db, Pod: web}, false},
		"one was nowhere before":          {spreadOut, became(scheduler.AssignedPodUpdated, guest("w", "app=db"), web), false},
		"one is nowhere now":              {spreadOut, became(scheduler.AssignedPodUpdated, db, guest("w", "app=web")), false},
		"the pod became another":          {spreadOut, became(scheduler.PodUpdated, guest("p", "app=db"), spreadOut), true},
		"the pod stayed what it was":      {spreadOut, became(scheduler.PodUpdated, guest("p", "app=web tier=x"), spreadOut), false},
		"the pod tolerates taints":        {careful, became(scheduler.PodUpdated, careful, tolerant(careful)), true},
		"taints that do not matter":       {spreadOut, became(scheduler.PodUpdated, spreadOut, tolerant(spreadOut)), false},
		"the pod tolerates what it did":   {tolerant(careful), scheduler.Event{Kind: scheduler.PodUpdated, Change: scheduler.PodLabelsChanged, OldPod: tolerant(careful), Pod: tolerant(careful)}, false},
		"the pod got nothing of interest": {spreadOut, scheduler.Event{Kind: scheduler.PodUpdated, OldPod: guest("p", "app=db"), Pod: spreadOut}, false},
		"a node came to a zone":           {spreadOut, built(zoned("1")), true},
		"a node came to no zone":          {spreadOut, built(zoned("")), false},
		"a node came to one of both":      {twice, built(zoned("1")), false},
		"a node came to both":             {twice, built(labeled("zone", "1", "rack", "1")), true},
		"a node of a zone went":           {spreadOut, destroyed(zoned("1")), true},
		"a node of no zone went":          {spreadOut, destroyed(zoned("")), false},
		"a node moved to a zone":          {spreadOut, rebuilt(zoned(""), zoned("1")), true},
		"a node moved out of its zone":    {spreadOut, rebuilt(zoned("1"), zoned("")), true},
		"a node moved to another zone":    {spreadOut, rebuilt(zoned("1"), zoned("2")), true},
		"a node got another label":        {spreadOut, rebuilt(zoned("1"), labeled("zone", "1", "a", "b")), false},
		"a node was tainted":              {spreadOut, rebuilt(zoned("1"), zoned("1", "x")), true},
		"a node of no zone was tainted":   {spreadOut, rebuilt(zoned(""), zoned("", "x")), false},
		"a node moved unseen":             {spreadOut, scheduler.Event{Kind: scheduler.NodeUpdated, OldNode: zoned(""), Node: zoned("1")}, false},
	})
}

// What cannot be parsed is a reason to try a pod again only where it counts: in required terms, after an event that may matter.
func TestInterPodAffinityHintsOfBrokenTerms(t *testing.T) {
	broken := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}}
	required := corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{broken}}
	preferred := corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: broken}}}
	pod := func(node string, near, apart corev1.PodAffinity) *corev1.Pod {
		anti := corev1.PodAntiAffinity(apart)
		return &corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Affinity: &corev1.Affinity{PodAffinity: &near, PodAntiAffinity: &anti}}}
	}
	bare, node := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}, &corev1.Node{}
	pending, none := &corev1.Pod{}, corev1.PodAffinity{}
	went := func(p *corev1.Pod) scheduler.Event {
		return scheduler.Event{Kind: scheduler.AssignedPodDeleted, OldPod: p}
	}
	hints(t, plugins.InterPodAffinity{}, map[string]hint{
		"preferred":                  {pod("", preferred, preferred), went(bare), false},
		"required":                   {pod("", required, none), went(bare), true},
		"required apart":             {pod("", none, required), went(bare), true},
		"of the pod that went":       {pending, went(pod("n", none, required)), true},
		"of the pod that went, near": {pending, went(pod("n", required, none)), false},
		"preferred of it":            {pending, went(pod("n", preferred, preferred)), false},
		"of one that was on no node": {pending, went(pod("", none, required)), false},
		"one that was on no node":    {pod("", required, none), went(&corev1.Pod{}), false},
		"one came to no node":        {pod("", required, none), scheduler.Event{Kind: scheduler.AssignedPodAdded, Pod: &corev1.Pod{}}, false},
		"one came":                   {pod("", required, none), scheduler.Event{Kind: scheduler.AssignedPodAdded, Pod: bare}, true},
		"one changed something else": {pod("", required, none), scheduler.Event{Kind: scheduler.AssignedPodUpdated, Change: scheduler.PodScaledDown, OldPod: bare, Pod: bare}, false},
		"one changed its labels":     {pod("", required, none), scheduler.Event{Kind: scheduler.AssignedPodUpdated, Change: scheduler.PodLabelsChanged, OldPod: bare, Pod: bare}, true},
		"one was on no node":         {pod("", required, none), scheduler.Event{Kind: scheduler.AssignedPodUpdated, Change: scheduler.PodLabelsChanged, OldPod: &corev1.Pod{}, Pod: bare}, false},
		"one is on no node":          {pod("", required, none), scheduler.Event{Kind: scheduler.AssignedPodUpdated, Change: scheduler.PodLabelsChanged, OldPod: bare, Pod: &corev1.Pod{}}, false},
		"a node changed something":   {pod("", required, none), scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeTaintsChanged, OldNode: node, Node: node}, false},
		"a node changed its labels":  {pod("", required, none), scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeLabelsChanged, OldNode: node, Node: node}, true},
	})
}
