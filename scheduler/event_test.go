package scheduler_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

// What scheduling has an interest in shows, in each direction, and nothing else does.
func TestNodeChange(t *testing.T) {
	ready := func(status corev1.ConditionStatus, beat int64) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.Unix(beat, 0)}}
		}
	}
	cordon := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	taint := func(n *corev1.Node) { tainted(n, corev1.TaintEffectNoSchedule) }
	none := func(*corev1.Node) {}
	for name, tt := range map[string]struct {
		from, to func(*corev1.Node)
		want     scheduler.Change
	}{
		"nothing":            {none, func(n *corev1.Node) { n.ResourceVersion, n.Status.Images = "9", []corev1.ContainerImage{{}} }, 0},
		"allocatable":        {none, func(n *corev1.Node) { n.Status.Allocatable["example.com/a"] = resource.MustParse("1") }, scheduler.NodeAllocatableChanged},
		"the same amount":    {none, func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("1000m") }, 0},
		"labels":             {none, func(n *corev1.Node) { n.Labels["a"] = "b" }, scheduler.NodeLabelsChanged},
		"a taint":            {none, taint, scheduler.NodeTaintsChanged},
		"no taint":           {taint, none, scheduler.NodeTaintsChanged},
		"cordoned":           {none, cordon, 0},
		"still cordoned":     {cordon, cordon, 0},
		"uncordoned":         {cordon, none, scheduler.NodeTaintsChanged},
		"a condition":        {ready("True", 1), ready("False", 1), scheduler.NodeConditionsChanged},
		"a heartbeat":        {ready("True", 1), ready("True", 2), 0},
		"the first one":      {none, ready("True", 1), scheduler.NodeConditionsChanged},
		"annotations":        {none, func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }, scheduler.NodeAnnotationsChanged},
		"features":           {none, func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"A"} }, scheduler.NodeFeaturesChanged},
		"labels and a taint": {none, func(n *corev1.Node) { taint(n); n.Labels["a"] = "b" }, scheduler.NodeLabelsChanged | scheduler.NodeTaintsChanged},
	} {
		from, to := node("n", "1", "1Gi"), node("n", "1", "1Gi")
		tt.from(from)
		tt.to(to)
		if got := scheduler.NodeChange(from, to); got != tt.want {
			t.Errorf("%s: %b, want %b", name, got, tt.want)
		}
	}
}

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

func requiring(amount string) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{Requests: cpu(amount)}
}

// resized are changes of what a pod takes in one of the places that have a say in it, and whether it is less or more.
func resized() map[string]struct {
	from, to func(*corev1.Pod)
	want     scheduler.Change
} {
	const less, more = scheduler.PodScaledDown, scheduler.PodScaledUp
	none := func(*corev1.Pod) {}
	given := func(name, amount string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: name, AllocatedResources: cpu(amount)}}
		}
	}
	has := func(amount string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Resources: requiring(amount)}}
		}
	}
	init := func(always bool) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			c := corev1.Container{Name: "i", Resources: *requiring("1")}
			if policy := corev1.ContainerRestartPolicyAlways; always {
				c.RestartPolicy = &policy
			}
			p.Spec.InitContainers = []corev1.Container{c}
		}
	}
	sidecar := func(amount string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			init(true)(p)
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", AllocatedResources: cpu(amount)}}
		}
	}
	whole := func(p *corev1.Pod) { p.Spec.Resources = requiring("3") }
	held := func(amount string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			whole(p)
			p.Status.Resources, p.Status.AllocatedResources = requiring("1"), cpu(amount)
		}
	}
	pending := func(reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			given("c", "3")(p)
			p.Spec.Containers[0].Resources = *requiring("5")
			if reason != "" {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}}
			}
		}
	}
	type row = struct {
		from, to func(*corev1.Pod)
		want     scheduler.Change
	}
	return map[string]row{
		"requests":   {none, func(p *corev1.Pod) { p.Spec.Containers[0].Resources = *requiring("2") }, more},
		"fewer":      {func(p *corev1.Pod) { p.Spec.Containers[0].Resources = *requiring("2") }, none, less},
		"a resource": {none, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("1") }, more},
		"one for other": {none, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"memory": resource.MustParse("1")}
		}, more | less},
		"a zero":     {none, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("0") }, more},
		"overhead":   {none, func(p *corev1.Pod) { p.Spec.Overhead = cpu("1") }, more},
		"as a whole": {none, whole, more},
		"an init container that becomes a sidecar": {init(false), init(true), more},
		"given more":                        {given("c", "1"), given("c", "3"), more},
		"given less":                        {given("c", "3"), given("c", "2"), less},
		"given, of another container":       {given("c", "3"), given("d", "3"), less},
		"has more":                          {has("1"), has("3"), more},
		"sidecar given more":                {sidecar("1"), sidecar("3"), more},
		"given as a whole":                  {held("3"), held("4"), more},
		"has as a whole":                    {whole, func(p *corev1.Pod) { whole(p); p.Status.Resources = requiring("4") }, more},
		"a resize that cannot be":           {pending(""), pending(corev1.PodReasonInfeasible), less},
		"one that has to wait":              {pending(""), pending(corev1.PodReasonDeferred), 0},
		"what is given has another's name":  {given("c", "3"), func(p *corev1.Pod) { given("c", "3")(p); p.Spec.Containers[0].Name = "d" }, less},
		"a limit":                           {none, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = cpu("7") }, 0},
		"a status that has no say":          {none, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, 0},
		"what is asked for, twice the same": {none, func(p *corev1.Pod) { p.Spec.Containers[0].Resources = *requiring("1000m") }, 0},
	}
}

func TestPodChange(t *testing.T) {
	gates := func(n int) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.SchedulingGates = make([]corev1.PodSchedulingGate, n) }
	}
	none := func(*corev1.Pod) {}
	tests := resized()
	for name, tt := range map[string]struct {
		from, to func(*corev1.Pod)
		want     scheduler.Change
	}{
		"labels":       {none, func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, scheduler.PodLabelsChanged},
		"a toleration": {none, func(p *corev1.Pod) { p.Spec.Tolerations = make([]corev1.Toleration, 1) }, scheduler.PodTolerationsChanged},
		"a gate less":  {gates(2), gates(1), 0},
		"no gate":      {gates(1), gates(0), scheduler.PodGatesGone},
		"a gate":       {gates(0), gates(1), 0},
		"a claim":      {none, func(p *corev1.Pod) { p.Status.ResourceClaimStatuses = make([]corev1.PodResourceClaimStatus, 1) }, scheduler.PodClaimsChanged},
		"annotations":  {none, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, 0},
	} {
		tests[name] = tt
	}
	for name, tt := range tests {
		from, to := pod("p", "1", ""), pod("p", "1", "")
		tt.from(from)
		tt.to(to)
		if got := scheduler.PodChange(from, to); got != tt.want {
			t.Errorf("%s: %b, want %b", name, got, tt.want)
		}
	}
}

// A State sums a pod up anew whenever anything changes that has a say in what it takes.
func TestStateSumsResizedPodsUp(t *testing.T) {
	for name, tt := range resized() {
		from, to := on(pod("p", "1", ""), "n"), on(pod("p", "1", ""), "n")
		tt.from(from)
		tt.to(to)
		state := scheduler.NewSnapshot([]*corev1.Node{node("n", "8", "8Gi")}, []*corev1.Pod{from}).State()
		state.SetPod(to)
		same(t, scheduler.NewNodeInfo(node("n", "8", "8Gi"), to).Requested, state.Snapshot().Node("n").Requested)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}
