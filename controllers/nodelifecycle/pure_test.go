package nodelifecycle

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status}
}

func TestScheduleTaints(t *testing.T) {
	hard := corev1.TaintEffectNoSchedule
	for name, tt := range map[string]struct {
		node        corev1.Node
		add, remove []string
	}{
		"healthy": {node: corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			condition(corev1.NodeReady, corev1.ConditionTrue), condition(corev1.NodeMemoryPressure, corev1.ConditionFalse),
			condition(corev1.NodeDiskPressure, corev1.ConditionUnknown),
		}}}},
		"every condition": {
			node: corev1.Node{
				Spec: corev1.NodeSpec{Unschedulable: true},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
					condition(corev1.NodeMemoryPressure, corev1.ConditionTrue), condition(corev1.NodeDiskPressure, corev1.ConditionTrue),
					condition(corev1.NodePIDPressure, corev1.ConditionTrue), condition(corev1.NodeNetworkUnavailable, corev1.ConditionTrue),
					condition(corev1.NodeReady, corev1.ConditionFalse), condition("Other", corev1.ConditionTrue),
				}},
			},
			add: []string{
				"node.kubernetes.io/memory-pressure", "node.kubernetes.io/disk-pressure", "node.kubernetes.io/pid-pressure",
				"node.kubernetes.io/network-unavailable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable",
			},
		},
		"from not ready to unreachable": {
			node: corev1.Node{
				Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: hard}}},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionUnknown)}},
			},
			add: []string{"node.kubernetes.io/unreachable"}, remove: []string{"node.kubernetes.io/not-ready"},
		},
		"nothing to do": {node: corev1.Node{
			Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: hard, Value: "v"}}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionFalse)}},
		}},
		"others' taints stay": {
			node: corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{
				{Key: "example.com/gpu", Effect: hard}, {Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
				{Key: corev1.TaintNodeOutOfService, Effect: hard}, {Key: corev1.TaintNodeUnschedulable, Effect: hard},
			}}},
			remove: []string{"node.kubernetes.io/unschedulable"},
		},
	} {
		add, remove := scheduleTaints(&tt.node)
		if got := keys(add); !slices.Equal(got, tt.add) {
			t.Errorf("%s: adds %q, want %q", name, got, tt.add)
		}
		if got := keys(remove); !slices.Equal(got, tt.remove) {
			t.Errorf("%s: removes %q, want %q", name, got, tt.remove)
		}
	}
}

func keys(taints []corev1.Taint) []string {
	var out []string
	for _, taint := range taints {
		out = append(out, taint.Key)
	}
	return out
}

func TestLabelsToSet(t *testing.T) {
	for name, tt := range map[string]struct{ have, want map[string]string }{
		"none":    {},
		"missing": {map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}, map[string]string{"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64"}},
		"differs": {map[string]string{"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"}, map[string]string{"beta.kubernetes.io/os": "linux"}},
		"same":    {map[string]string{"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}, nil},
		"empty":   {map[string]string{"kubernetes.io/os": ""}, map[string]string{"beta.kubernetes.io/os": ""}},
		"beta":    {map[string]string{"beta.kubernetes.io/os": "linux"}, nil},
	} {
		if got := labelsToSet(tt.have); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestZones(t *testing.T) {
	yes, no, none := corev1.ConditionTrue, corev1.ConditionUnknown, corev1.ConditionStatus("")
	many := func(ready, silent int) []corev1.ConditionStatus {
		return append(slices.Repeat([]corev1.ConditionStatus{yes}, ready), slices.Repeat([]corev1.ConditionStatus{no}, silent)...)
	}
	for _, tt := range []struct {
		ready []corev1.ConditionStatus
		state zoneState
		rate  float32
	}{
		{nil, normal, 0.1},
		{many(1, 0), normal, 0.1},
		{many(0, 1), fullDisruption, 0.1},
		{[]corev1.ConditionStatus{none, no}, fullDisruption, 0.1},
		{many(1, 2), normal, 0.1},
		{many(2, 3), partialDisruption, 0},
		{many(3, 3), normal, 0.1},
		{many(9, 11), partialDisruption, 0},
		{many(10, 11), normal, 0.1},
		{many(20, 30), partialDisruption, 0},
		{many(20, 31), partialDisruption, 0.01},
	} {
		o := Options{}.withDefaults()
		state := stateOf(tt.ready, o.UnhealthyZone)
		if rate := o.rateOf(state, len(tt.ready)); state != tt.state || rate != tt.rate {
			t.Errorf("%v: %s at %v, want %s at %v", tt.ready, state, rate, tt.state, tt.rate)
		}
	}
}

func TestTainterRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTainter(0.1)
		began := time.Now()
		for _, name := range []string{"c", "a", "b", "d"} {
			q.add(name, began)
		}
		q.add("a", began)
		q.remove("d")
		turns := map[string]time.Duration{}
		run := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				if name, ok := q.next(time.Now()); ok {
					turns[name] = time.Since(began)
					q.settle(name, true, time.Now(), 0)
				}
			}
		}
		run(5 * time.Second)
		q.setRate(0.1) // changes nothing
		run(10 * time.Second)
		q.setRate(0)
		if q.waiting() {
			t.Error("somebody waits although none may pass")
		}
		run(60 * time.Second)
		q.setRate(0.1)
		run(20 * time.Second)
		want := map[string]time.Duration{"a": 0, "b": 10 * time.Second, "c": 85 * time.Second}
		if !maps.Equal(turns, want) {
			t.Errorf("turns %v, want %v", turns, want)
		}
		q.add("a", time.Now())
		if q.waiting() {
			t.Error("a node had its turn and waits again")
		}
		q.remove("a")
		q.add("a", time.Now())
		if !q.waiting() {
			t.Error("a removed node does not wait")
		}
	})
}

func TestTainterRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTainter(1e6)
		q.add("a", time.Now())
		name, ok := q.next(time.Now())
		if !ok {
			t.Fatal("the first has to wait")
		}
		q.settle(name, false, time.Now(), 150*time.Millisecond)
		time.Sleep(100 * time.Millisecond)
		if _, ok := q.next(time.Now()); ok {
			t.Error("the retry did not wait")
		}
		time.Sleep(50 * time.Millisecond)
		if _, ok := q.next(time.Now()); ok {
			t.Error("the retry did not wait until after that time")
		}
		time.Sleep(time.Microsecond)
		if _, ok := q.next(time.Now()); !ok {
			t.Error("the retry did not come")
		}
		q.remove("a")
		q.settle("a", false, time.Now(), 0)
		if q.waiting() {
			t.Error("a removed node came back")
		}
	})
}

func TestObserve(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2030, 1, 1, 0, 0, s, 0, time.UTC) }
	ready := func(heartbeat int) *corev1.NodeCondition {
		return &corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(at(heartbeat))}
	}
	node := func(c *corev1.NodeCondition) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at(1))}}
		if c != nil {
			n.Status.Conditions = []corev1.NodeCondition{*c}
		}
		return n
	}
	lease := func(renewed int) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(at(renewed)))}}
	}
	for name, tt := range map[string]struct {
		node   *corev1.Node
		lease  *coordinationv1.Lease
		had    *health
		probed int
		leased bool // whether the lease is remembered
	}{
		"new, without status":       {node: node(nil), probed: 1},
		"new, with lease":           {node: node(nil), lease: lease(5), probed: 30, leased: true},
		"new, with status":          {node: node(ready(2)), probed: 30},
		"first status":              {node: node(ready(2)), had: &health{probed: at(1)}, probed: 30},
		"still without status":      {node: node(nil), had: &health{probed: at(3)}, probed: 3},
		"status gone":               {node: node(nil), had: &health{probed: at(9), ready: ready(2)}, probed: 9},
		"same status":               {node: node(ready(2)), had: &health{probed: at(9), ready: ready(2)}, probed: 9},
		"new status":                {node: node(ready(20)), had: &health{probed: at(9), ready: ready(2)}, probed: 30},
		"same status and lease":     {node: node(ready(2)), lease: lease(5), had: &health{probed: at(9), ready: ready(2), lease: lease(5)}, probed: 9, leased: true},
		"same status, newer lease":  {node: node(ready(2)), lease: lease(15), had: &health{probed: at(9), ready: ready(2), lease: lease(5)}, probed: 30, leased: true},
		"same status, older lease":  {node: node(ready(2)), lease: lease(4), had: &health{probed: at(9), ready: ready(2), lease: lease(5)}, probed: 9, leased: true},
		"same status, no lease":     {node: node(ready(2)), had: &health{probed: at(9), ready: ready(2), lease: lease(5)}, probed: 9, leased: true},
		"older status":              {node: node(ready(1)), had: &health{probed: at(9), ready: ready(2)}, probed: 30},
		"status gone, same lease":   {node: node(nil), lease: lease(5), had: &health{probed: at(9), ready: ready(2), lease: lease(5)}, probed: 9, leased: true},
		"status gone, older lease":  {node: node(nil), lease: lease(4), had: &health{probed: at(9), ready: ready(2), lease: lease(5)}, probed: 9, leased: true},
		"status gone, newer lease":  {node: node(nil), lease: lease(6), had: &health{probed: at(9), ready: ready(2), lease: lease(5)}, probed: 30, leased: true},
		"new status, same lease":    {node: node(ready(20)), lease: lease(5), had: &health{probed: at(9), ready: ready(2), lease: lease(5)}, probed: 30},
		"same status, lease is new": {node: node(ready(2)), lease: lease(5), had: &health{probed: at(9), ready: ready(2)}, probed: 30, leased: true},
	} {
		got := observe(tt.node, tt.lease, tt.had, at(30))
		if !got.probed.Equal(at(tt.probed)) || (got.lease != nil) != tt.leased {
			t.Errorf("%s: probed %v, lease %v", name, got.probed, got.lease)
		}
		if tt.had != nil && tt.had.lease != nil && got.lease != nil && got.lease.Spec.RenewTime.Before(tt.had.lease.Spec.RenewTime) {
			t.Errorf("%s: an older lease is remembered", name)
		}
		if (got.ready == nil) != (len(tt.node.Status.Conditions) == 0) {
			t.Errorf("%s: ready %v", name, got.ready)
		}
	}
}

func TestOlder(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{{"", "1", true}, {"9", "10", true}, {"10", "9", false}, {"10", "10", false}, {"x", "1", false}} {
		if got := older(tt.a, tt.b); got != tt.want {
			t.Errorf("older(%q, %q) = %v", tt.a, tt.b, got)
		}
	}
}

// TestLeaseGate: versions "seen" in the cache, "want"ed by node, and "gone"; ok tells whether leases count then.
func TestLeaseGate(t *testing.T) {
	for name, steps := range map[string][]struct {
		what, node, version string
		ok                  bool
	}{
		"nothing seen":         {{"", "", "", true}},
		"behind, then not":     {{"seen", "a", "5", true}, {"want", "a", "7", false}, {"seen", "b", "6", false}, {"seen", "b", "7", true}},
		"ahead":                {{"seen", "a", "8", true}, {"want", "a", "7", true}, {"want", "a", "9", false}, {"seen", "a", "9", true}},
		"the newest is wanted": {{"want", "a", "7", false}, {"want", "b", "6", false}, {"seen", "b", "6", false}, {"seen", "a", "7", true}},
		"more is wanted":       {{"want", "a", "7", false}, {"want", "b", "9", false}, {"seen", "a", "7", false}, {"seen", "b", "9", true}},
		"again":                {{"want", "a", "7", false}, {"seen", "a", "7", true}, {"want", "a", "8", false}},
		"older ones come late": {{"seen", "a", "9", true}, {"seen", "a", "5", true}, {"want", "a", "9", true}},
		"it is gone":           {{"seen", "a", "5", true}, {"want", "a", "7", false}, {"gone", "b", "6", false}, {"gone", "a", "6", true}},
		"another is, later":    {{"seen", "a", "5", true}, {"want", "a", "7", false}, {"gone", "b", "8", true}},
	} {
		var g leaseGate
		for i, step := range steps {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: step.node, ResourceVersion: step.version}}
			switch step.what {
			case "seen":
				g.seen(lease)
			case "want":
				g.want(step.node, step.version)
			case "gone":
				g.gone(lease)
			}
			if err := g.open(); (err == nil) != step.ok {
				t.Errorf("%s, step %d: %v", name, i, err)
			}
		}
	}
}

// TestTaintLists: a taint takes the place of that of its key and effect, and is another one when any of it differs.
func TestTaintLists(t *testing.T) {
	had := corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: time.Unix(1, 0)}}
	other := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoSchedule}
	for name, tt := range map[string]struct {
		change func(*corev1.Taint)
		same   bool
		want   int // how many there are then
	}{
		"the same":       {func(*corev1.Taint) {}, true, 3},
		"another key":    {func(t *corev1.Taint) { t.Key = "l" }, false, 4},
		"another effect": {func(t *corev1.Taint) { t.Effect = corev1.TaintEffectNoSchedule }, false, 4},
		"another value":  {func(t *corev1.Taint) { t.Value = "w" }, false, 3},
		"another time":   {func(t *corev1.Taint) { t.TimeAdded = &metav1.Time{Time: time.Unix(2, 0)} }, false, 3},
		"no time":        {func(t *corev1.Taint) { t.TimeAdded = nil }, false, 3},
	} {
		next := had
		tt.change(&next)
		if got := sameTaint(had, next); got != tt.same {
			t.Errorf("%s: same is %v", name, got)
		}
		got := withTaint([]corev1.Taint{other, had, other}, next)
		at := slices.IndexFunc(got, func(t corev1.Taint) bool { return sameTaint(t, next) })
		if want := map[int]int{3: 1, 4: 3}[tt.want]; len(got) != tt.want || at != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
