package nodelifecycle_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestZonesSilent: only when the nodes of all zones are silent no pods are evicted, whichever zone it is that is not.
func TestZonesSilent(t *testing.T) {
	zones := []string{"east", "mid", "south", "west"}
	for _, alive := range append(zones, "none") {
		t.Run(alive, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				for _, zone := range zones {
					b.healthy(zone+"/0", zone+"/1")
				}
			}, func(b *bench) {
				b.until(2 * time.Second)
				want := 0
				for _, zone := range zones {
					if zone == alive {
						want = 2 * (len(zones) - 1)
						continue
					}
					b.hearts[zone+"-0"]()
					b.hearts[zone+"-1"]()
				}
				b.until(10 * time.Minute)
				if n := b.evicting(); n != want {
					b.Errorf("%d nodes evict, want %d", n, want)
				}
				for _, node := range []string{"-0", "-1"} {
					if alive != "none" {
						b.wantTaints(alive + node)
					}
				}
			})
		})
	}
}

// TestZonesFallOneByOne: that all zones are silent is noticed although one of them was silent before.
func TestZonesFallOneByOne(t *testing.T) {
	inBubble(t, nil, func(b *bench) { b.healthy("east/0", "mid/0", "west/0") }, func(b *bench) {
		b.until(2 * time.Second)
		b.hearts["east-0"]()
		b.until(100 * time.Second)
		b.hearts["west-0"]()
		b.until(160 * time.Second)
		b.wantTaints("west-0", "unreachable:NoExecute", "unreachable:NoSchedule")
		b.wantTaints("mid-0")
		b.hearts["mid-0"]()
		b.until(220 * time.Second)
		if n := b.evicting(); n != 0 {
			b.Errorf("%d nodes evict although all are silent", n)
		}
	})
}

// TestZoneComesAgain: a zone whose nodes went while all zones were silent is a new one when it has nodes again, and one
// that was not silent: the others stay as they were.
func TestZoneComesAgain(t *testing.T) {
	inBubble(t, nil, func(b *bench) { b.healthy("east/0", "west/0") }, func(b *bench) {
		b.until(2 * time.Second)
		b.hearts["east-0"]()
		b.hearts["west-0"]()
		b.until(2 * time.Minute)
		b.deleteNode("west-0")
		b.until(130 * time.Second)
		b.healthy("west/1")
		b.until(10 * time.Minute)
		b.wantTaints("west-1")
		if n := b.evicting(); n != 0 {
			b.Errorf("%d nodes evict", n)
		}
	})
}

// TestGraceAnew: a node that was not found silent while none was ready gets the whole grace period once one is.
func TestGraceAnew(t *testing.T) {
	inBubble(t, nil, func(b *bench) { b.healthy("a", "b") }, func(b *bench) {
		ready := func() corev1.ConditionStatus {
			for _, c := range b.get("a").Status.Conditions {
				if c.Type == corev1.NodeReady {
					return c.Status
				}
			}
			return ""
		}
		b.until(2 * time.Second)
		b.post("a", corev1.ConditionFalse)
		b.post("b", corev1.ConditionFalse)
		b.hearts["a"]()
		b.until(40 * time.Second)
		b.post("b", corev1.ConditionTrue)
		b.until(80 * time.Second)
		if got := ready(); got != corev1.ConditionFalse {
			b.Errorf("it is %s before its grace is over", got)
		}
		b.until(110 * time.Second)
		if got := ready(); got != corev1.ConditionUnknown {
			b.Errorf("it is %s after its grace", got)
		}
	})
}

// TestExcludedNode: a node that is not to count in its zone does not: the others are all the zone has.
func TestExcludedNode(t *testing.T) {
	for name, want := range map[string]int{"counts": 1, "excluded": 0} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				b.healthy("a", "b")
				if name == "excluded" {
					b.change("a", func(node *corev1.Node) {
						node.Labels = map[string]string{"node.kubernetes.io/exclude-disruption": ""}
					})
				}
			}, func(b *bench) {
				b.until(2 * time.Second)
				b.hearts["b"]()
				b.until(2 * time.Minute)
				if n := b.evicting(); n != want {
					b.Errorf("%d nodes evict, want %d", n, want)
				}
			})
		})
	}
}

// TestPodsOfANode: a pod that is bound to a node remains ready if the node is ready, and is made unready if it is not.
func TestPodsOfANode(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.healthy("a", "b")
		b.node("sick", corev1.ConditionFalse)
		b.heart("sick")
	}, func(b *bench) {
		b.until(7 * time.Second)
		b.pod("p", "a", corev1.ConditionTrue)
		b.pod("q", "sick", corev1.ConditionTrue)
		b.until(time.Minute)
		for name, want := range map[string]corev1.ConditionStatus{"p": corev1.ConditionTrue, "q": corev1.ConditionFalse} {
			if got := b.podReady(name); got != want {
				b.Errorf("pod %s is ready: %s, want %s", name, got, want)
			}
		}
	})
}

// TestNodeComesAgain: a node that was tainted, went and came again is tainted again when it is silent.
func TestNodeComesAgain(t *testing.T) {
	inBubble(t, nil, func(b *bench) { b.healthy("a", "b") }, func(b *bench) {
		b.until(2 * time.Second)
		b.hearts["b"]()
		b.until(2 * time.Minute)
		b.wantTaints("b", "unreachable:NoExecute", "unreachable:NoSchedule")
		b.deleteNode("b")
		b.until(130 * time.Second)
		b.healthy("b")
		b.until(140 * time.Second)
		b.wantTaints("b")
		b.hearts["b"]()
		b.until(5 * time.Minute)
		b.wantTaints("b", "unreachable:NoExecute", "unreachable:NoSchedule")
	})
}
