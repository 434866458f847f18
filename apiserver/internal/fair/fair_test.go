package fair_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/apiserver/internal/fair"
)

const levels = int(fair.Strangers) + 1

func held(by ...any) (h [levels]int) {
	for i := 0; i < len(by); i += 2 {
		h[by[i].(fair.Level)] = by[i+1].(int)
	}
	return h
}

// TestAdmits has, of 200 seats, 16, 24, 8, 16, 8, 8 and 4 that are kept for the levels in their order.
func TestAdmits(t *testing.T) {
	tests := []struct {
		name  string
		h     fair.Holdings
		level fair.Level
		want  bool
	}{
		{"the first", fair.Holdings{Max: 200}, fair.GlobalDefault, true},
		{"one seat in all", fair.Holdings{Max: 1}, fair.GlobalDefault, true},
		{"one seat in all, which is taken", fair.Holdings{Max: 1, Levels: held(fair.System, 1)}, fair.GlobalDefault, false},
		{"no seats", fair.Holdings{}, fair.NodeHigh, false},
		{"one alone, at half", fair.Holdings{Max: 200, Levels: held(fair.GlobalDefault, 61), Own: 61}, fair.GlobalDefault, true},
		{"one alone, past half", fair.Holdings{Max: 200, Levels: held(fair.GlobalDefault, 62), Own: 62}, fair.GlobalDefault, false},
		{"another beside them", fair.Holdings{Max: 200, Levels: held(fair.GlobalDefault, 62)}, fair.GlobalDefault, true},
		{"the last seat of the level", fair.Holdings{Max: 200, Levels: held(fair.GlobalDefault, 123)}, fair.GlobalDefault, true},
		{"nothing left for the level", fair.Holdings{Max: 200, Levels: held(fair.GlobalDefault, 124)}, fair.GlobalDefault, false},
		{"another level then", fair.Holdings{Max: 200, Levels: held(fair.GlobalDefault, 124)}, fair.WorkloadLow, true},
		{"nodes then", fair.Holdings{Max: 200, Levels: held(fair.GlobalDefault, 124), Own: 11}, fair.NodeHigh, true},
		{"a node too many then", fair.Holdings{Max: 200, Levels: held(fair.GlobalDefault, 124, fair.NodeHigh, 12), Own: 12}, fair.NodeHigh, false},
		{"elections when nodes have the rest", fair.Holdings{Max: 200, Levels: held(fair.System, 124, fair.NodeHigh, 24)}, fair.LeaderElection, true},
		{"people when nodes have the rest", fair.Holdings{Max: 200, Levels: held(fair.System, 132)}, fair.GlobalDefault, true},
		{"people when those have theirs", fair.Holdings{Max: 200, Levels: held(fair.System, 132, fair.GlobalDefault, 8)}, fair.GlobalDefault, false},
		{"strangers", fair.Holdings{Max: 200, Levels: held(fair.Strangers, 3), Own: 3}, fair.Strangers, true},
		{"strangers when all is free", fair.Holdings{Max: 200, Levels: held(fair.Strangers, 4), Own: 4}, fair.Strangers, false},
		{"a stranger where there is hardly room", fair.Holdings{Max: 2}, fair.Strangers, true},
		{"a second one", fair.Holdings{Max: 2, Levels: held(fair.Strangers, 1), Own: 1}, fair.Strangers, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.h.Admits(test.level); got != test.want {
				t.Errorf("admits: %v", got)
			}
		})
	}
}

// TestSeats: whatever the order in which flows take as much as they get, there are never more seats than there are,
// every level gets what is kept for it, and what was given back can be taken again.
func TestSeats(t *testing.T) {
	for _, size := range []int{1, 7, 50, 200, 400} {
		for first := range levels {
			s := fair.New(size)
			total := 0
			for i := range levels {
				l := fair.Level((first + i) % levels)
				n := 0
				for user := range 2 * size {
					for s.Take(fair.Flow{Level: l, Name: strconv.Itoa(user)}) {
						n++
					}
				}
				if n < l.Kept(size) {
					t.Errorf("of %d seats level %d gets %d, of which %d are kept for it", size, l, n, l.Kept(size))
				}
				total += n
			}
			if total > size || total < size-levels {
				t.Errorf("of %d seats %d are taken", size, total)
			}
		}
	}
}

func TestLeave(t *testing.T) {
	s, f := fair.New(200), fair.Flow{Level: fair.GlobalDefault, Name: "ann"}
	for range 3 {
		n := 0
		for s.Take(f) {
			n++
		}
		if n != 62 {
			t.Errorf("took %d", n)
		}
		for range n {
			s.Leave(f)
		}
	}
	if none := fair.New(0); none.Take(f) {
		t.Error("took what is not there")
	}
	endless := fair.New(-1)
	for range 1000 {
		if !endless.Take(f) {
			t.Fatal("there is an end")
		}
	}
	endless.Leave(f)
}

// TestNewcomer: whoever comes while others hold as much as they get gets something, too.
func TestNewcomer(t *testing.T) {
	s := fair.New(400)
	for user := range 5 {
		f, n := fair.Flow{Level: fair.GlobalDefault, Name: strconv.Itoa(user)}, 0
		for s.Take(f) {
			n++
		}
		if n == 0 {
			t.Errorf("user %d gets nothing", user)
		}
	}
}

func TestSeatsAtOnce(t *testing.T) {
	s := fair.New(20)
	var wg sync.WaitGroup
	for user := range 8 {
		wg.Go(func() {
			f := fair.Flow{Level: fair.GlobalDefault, Name: strconv.Itoa(user % 4)}
			for range 1000 {
				if s.Take(f) {
					s.Leave(f)
				}
			}
		})
	}
	wg.Wait()
	n := 0
	for s.Take(fair.Flow{Level: fair.GlobalDefault, Name: "new"}) {
		n++
	}
	if n != 8 {
		t.Errorf("%d seats are free for one", n)
	}
}
