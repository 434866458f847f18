package flowcontrol_test

import (
	"fmt"
	"slices"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/keelson-dev/keelson/flowcontrol"
)

// TestAllot: upstream's default levels have these seats of 600.
func TestAllot(t *testing.T) {
	want := map[string]flowcontrol.Limits{
		"exempt": {0, 0, 600}, "catch-all": {13, 13, 613}, "system": {74, 50, 674}, "node-high": {98, 73, 698}, "leader-election": {25, 25, 625},
		"workload-high": {98, 49, 698}, "workload-low": {245, 24, 845}, "global-default": {49, 24, 649},
	}
	levels := flowcontrol.DefaultConfig().Levels()
	for i, got := range flowcontrol.Allot(levels, 600) {
		if name := levels[i].Name; got != want[name] {
			t.Errorf("%s: %+v, want %+v", name, got, want[name])
		}
	}
	bounded := level("a", 10, func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
		l.LendablePercent, l.BorrowingLimitPercent = new(int32(30)), new(int32(25))
	})
	unset := level("b", 0, func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) { l.NominalConcurrencyShares = nil })
	got := flowcontrol.Allot([]*flowcontrolv1.PriorityLevelConfiguration{bounded, unset}, 40)
	if want := []flowcontrol.Limits{{10, 7, 13}, {30, 30, 70}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := flowcontrol.Allot([]*flowcontrolv1.PriorityLevelConfiguration{level("a", 0, nil)}, 40); got[0].Nominal != 0 {
		t.Errorf("no shares at all: %+v", got)
	}
}

// TestLend: who needs seats gets those that others do not.
func TestLend(t *testing.T) {
	limits := func(nominal, lower, upper int) flowcontrol.Limits {
		return flowcontrol.Limits{Nominal: nominal, Lower: lower, Upper: upper}
	}
	for name, tt := range map[string]struct {
		levels []flowcontrol.Demand
		want   []int
	}{
		"nobody needs any":         {[]flowcontrol.Demand{{Limits: limits(50, 20, 100)}, {Limits: limits(50, 30, 100)}}, []int{40, 60}},
		"one needs all":            {[]flowcontrol.Demand{{Limits: limits(50, 20, 100), Most: 90, Smoothed: 90}, {Limits: limits(50, 30, 100)}}, []int{70, 30}},
		"up to what it may borrow": {[]flowcontrol.Demand{{Limits: limits(50, 20, 60), Most: 90, Smoothed: 90}, {Limits: limits(50, 0, 100)}}, []int{60, 40}},
		"both need all":            {[]flowcontrol.Demand{{Limits: limits(50, 20, 100), Most: 90, Smoothed: 90}, {Limits: limits(50, 30, 100), Most: 90, Smoothed: 90}}, []int{50, 50}},
		"what it just used":        {[]flowcontrol.Demand{{Limits: limits(50, 20, 100), Most: 40}, {Limits: limits(50, 0, 100), Most: 90, Smoothed: 300}}, []int{40, 60}},
		"exempt take theirs":       {[]flowcontrol.Demand{{Exempt: true, Most: 30}, {Limits: limits(100, 20, 200), Most: 100, Smoothed: 100}}, []int{30, 70}},
		"exempt take nearly all":   {[]flowcontrol.Demand{{Exempt: true, Most: 95}, {Limits: limits(100, 20, 200), Most: 100, Smoothed: 100}}, []int{95, 20}},
		"a part of what they need": {[]flowcontrol.Demand{{Exempt: true, Most: 40}, {Limits: limits(50, 20, 100), Most: 50}, {Limits: limits(50, 20, 100), Most: 40}}, []int{40, 32, 28}},
		"nobody":                   {nil, []int{}},
	} {
		if got := flowcontrol.Lend(tt.levels); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestLendSum: seats are neither made nor lost, but for rounding, whatever is wanted.
func TestLendSum(t *testing.T) {
	levels := flowcontrol.DefaultConfig().Levels()
	limits := flowcontrol.Allot(levels, 600)
	seed := uint32(1)
	next := func(n uint32) int { seed = seed*1664525 + 1013904223; return int(seed >> 8 % n) }
	for range 1000 {
		total := 0
		var demands []flowcontrol.Demand
		for i, l := range limits {
			total += l.Nominal
			demands = append(demands, flowcontrol.Demand{Limits: l, Exempt: levels[i].Spec.Exempt != nil, Most: next(100), Smoothed: float64(next(1000))})
		}
		sum := 0
		for i, n := range flowcontrol.Lend(demands) {
			sum += n
			if d := demands[i]; !d.Exempt && (n < d.Lower || n > d.Upper) {
				t.Fatalf("%s has %d of %+v", levels[i].Name, n, d)
			}
		}
		if sum < total-len(limits)/2 || sum > total+len(limits)/2 {
			t.Fatalf("%d seats of %d: %+v", sum, total, demands)
		}
	}
}

func TestSmooth(t *testing.T) {
	if got := flowcontrol.Smooth(10, 20, 5); got != 25 {
		t.Errorf("a peak counts at once: %v", got)
	}
	v := 100.0
	for range 30 {
		v = flowcontrol.Smooth(v, 0, 0)
	}
	if v < 45 || v > 55 {
		t.Errorf("half of it is left after five minutes: %v", v)
	}
}

// TestHand: hands have different queues, and those of different flows have few in common.
func TestHand(t *testing.T) {
	common := 0
	first := flowcontrol.Hand(nil, 1<<40, 128, 6)
	used := map[int]bool{}
	for i := range uint64(2000) {
		hash := (i + 1) * 0x9E3779B97F4A7C15
		hand := flowcontrol.Hand(nil, hash, 128, 6)
		seen := map[int]bool{}
		for _, q := range hand {
			if q < 0 || q > 127 || seen[q] {
				t.Fatalf("%d: %v", hash, hand)
			}
			seen[q], used[q] = true, true
			if slices.Contains(first, q) {
				common++
			}
		}
		if again := flowcontrol.Hand(nil, hash, 128, 6); !slices.Equal(hand, again) {
			t.Fatalf("%v and %v", hand, again)
		}
	}
	if len(used) != 128 || common > 2000*6*6/128*2 {
		t.Errorf("%d queues are used, %d are common", len(used), common)
	}
	if all := flowcontrol.Hand([]int{9}, 12345, 3, 3); len(all) != 4 || all[0] != 9 || slices.Sorted(slices.Values(all[1:]))[2] != 2 {
		t.Errorf("a hand of all: %v", all)
	}
}

func ExampleConfig_Classify() {
	c := flowcontrol.DefaultConfig()
	class := c.Classify(on(by("system:kube-scheduler", "system:authenticated"), "list", "", "pods", "", ""))
	fmt.Println(class.Schema.Name, class.Level.Name)
	// Output: kube-scheduler workload-high
}
