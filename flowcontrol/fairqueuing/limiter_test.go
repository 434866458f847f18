package fairqueuing_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/flowcontrol/fairqueuing"
	"github.com/keelson-dev/keelson/flowcontrol/flowcontroltest"
)

// world is a limiter with its requests, which hold their seats until they are let go.
type world struct {
	*fairqueuing.Limiter
	t       *testing.T
	running sync.WaitGroup
	mu      sync.Mutex
	served  map[string]int // now, by user
	total   map[string]int
	refused map[flowcontrol.Reason]int
	leave   map[string][]chan struct{}
}

func newWorld(t *testing.T, c *flowcontrol.Config, o fairqueuing.Options) *world {
	t.Helper()
	return &world{
		Limiter: fairqueuing.New(c, o), t: t, served: map[string]int{}, total: map[string]int{},
		refused: map[flowcontrol.Reason]int{}, leave: map[string][]chan struct{}{},
	}
}

func request(user string) authz.Attributes {
	return authz.Attributes{User: &authn.Identity{Name: user}, Verb: "get", Path: "/x", Namespace: "ns"}
}

// come has a user make so many requests.
func (w *world) come(n int, user string) {
	w.t.Helper()
	for range n {
		w.running.Go(func() { w.one(w.t.Context(), user, 0) })
	}
	synctest.Wait()
}

// one makes a request that takes some time, or until it is let go.
func (w *world) one(ctx context.Context, user string, takes time.Duration) {
	ticket, err := w.Wait(ctx, request(user))
	w.mu.Lock()
	if err != nil {
		var r *flowcontrol.Rejection
		if !errors.As(err, &r) {
			w.t.Errorf("%v", err)
		} else {
			w.refused[r.Reason]++
		}
		w.mu.Unlock()
		return
	}
	w.served[user]++
	w.total[user]++
	go1 := make(chan struct{})
	w.leave[user] = append(w.leave[user], go1)
	w.mu.Unlock()
	if takes > 0 {
		time.Sleep(takes)
	} else {
		<-go1
	}
	ticket.Done()
	w.mu.Lock()
	w.served[user]--
	w.mu.Unlock()
}

// let has so many requests of a user end.
func (w *world) let(n int, user string) {
	w.mu.Lock()
	for _, c := range w.leave[user][:n] {
		close(c)
	}
	w.leave[user] = w.leave[user][n:]
	w.mu.Unlock()
	synctest.Wait()
}

// end has all requests end.
func (w *world) end() {
	for {
		w.mu.Lock()
		n := 0
		for user, all := range w.leave {
			for _, c := range all {
				close(c)
				n++
			}
			w.leave[user] = nil
		}
		w.mu.Unlock()
		synctest.Wait()
		if n == 0 {
			break
		}
	}
	w.running.Wait()
}

func (w *world) state() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	served := map[string]int{}
	for user, n := range w.served {
		if n > 0 {
			served[user] = n
		}
	}
	return fmt.Sprint(served, w.refused)
}

func (w *world) want(what, want string) {
	w.t.Helper()
	if got := w.state(); got != want {
		w.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// config has one level beside the mandatory ones, for everybody, with these queues, or none.
func config(shares int32, q *flowcontrolv1.QueuingConfiguration, method flowcontrolv1.FlowDistinguisherMethodType) *flowcontrol.Config {
	return flowcontrol.NewConfig([]*flowcontrolv1.FlowSchema{everybody("all", "l", method)}, []*flowcontrolv1.PriorityLevelConfiguration{level("l", shares, q), level("catch-all", 0, nil)})
}

func level(name string, shares int32, q *flowcontrolv1.QueuingConfiguration) *flowcontrolv1.PriorityLevelConfiguration {
	response := flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}
	if q != nil {
		response = flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: q}
	}
	return &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &shares, LimitResponse: response},
	}}
}

func everybody(name, level string, method flowcontrolv1.FlowDistinguisherMethodType) *flowcontrolv1.FlowSchema {
	all := []string{"*"}
	s := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level}, MatchingPrecedence: 10,
		Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
			Subjects:         []flowcontrolv1.Subject{{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "*"}}},
			NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}},
		}},
	}}
	if method != "" {
		s.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: method}
	}
	return s
}

const (
	byUser      = flowcontrolv1.FlowDistinguisherMethodByUserType
	byNamespace = flowcontrolv1.FlowDistinguisherMethodByNamespaceType
)

// queued has as many queues as flows may choose from, so that it does not depend on hashes who shares one.
func queued(length int32) *flowcontrolv1.QueuingConfiguration {
	return &flowcontrolv1.QueuingConfiguration{Queues: 8, HandSize: 8, QueueLengthLimit: length}
}

// apart has so many queues that flows do not meet in one: with 512, two of ten flows do in every twelfth run.
func apart() *flowcontrolv1.QueuingConfiguration {
	return &flowcontrolv1.QueuingConfiguration{Queues: 10_000_000, HandSize: 1, QueueLengthLimit: 1000}
}

// TestSeats: there are so many, without queues.
func TestSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, config(1, nil, ""), fairqueuing.Options{Seats: 5})
		w.come(8, "ann")
		w.want("at first", "map[ann:5] map[concurrency-limit:3]")
		w.let(2, "ann")
		w.come(3, "bob")
		w.want("later", "map[ann:3 bob:2] map[concurrency-limit:4]")
		w.end()
		w.come(5, "bob")
		w.want("in the end", "map[bob:5] map[concurrency-limit:4]")
		w.end()
	})
}

// TestLastSeats: a flow leaves some to others, if flows are told apart.
func TestLastSeats(t *testing.T) {
	for method, want := range map[flowcontrolv1.FlowDistinguisherMethodType]string{byUser: "map[ann:5 bob:3] map[concurrency-limit:12]", byNamespace: "map[ann:5] map[concurrency-limit:15]"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, config(1, nil, method), fairqueuing.Options{Seats: 10})
			w.come(10, "ann")
			w.come(10, "bob")
			w.want(string(method), want)
			w.end()
		})
	}
}

// TestQueues: what finds no seat waits, as long as queues have room, and is served in turn.
func TestQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, config(1, queued(2), ""), fairqueuing.Options{Seats: 5})
		w.come(30, "ann")
		w.want("full", "map[ann:5] map[queue-full:9]")
		if l := w.Levels()[2]; l.Name != "l" || l.Serving != 5 || l.Waiting != 16 || len(l.Flows) != 1 || l.Flows[0] != (fairqueuing.Flow{Schema: "all", Serving: 5, Waiting: 16}) {
			t.Errorf("%+v", l)
		}
		w.let(4, "ann")
		w.want("four went", "map[ann:5] map[queue-full:9]")
		w.come(5, "ann")
		w.want("four came and one too many", "map[ann:5] map[queue-full:10]")
		w.end()
		if w.total["ann"] != 25 {
			t.Errorf("%v were served", w.total)
		}
	})
}

// TestFair: a user with many requests does not delay one with few.
func TestFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, flowcontrol.NewConfig(
			[]*flowcontrolv1.FlowSchema{everybody("all", "l", byUser)},
			[]*flowcontrolv1.PriorityLevelConfiguration{level("l", 1, apart()), level("catch-all", 0, nil)},
		), fairqueuing.Options{Seats: 4})
		ctx, stop := context.WithCancel(t.Context())
		for range 40 { // always 40 at once, 10 ms each
			w.running.Go(func() {
				for ctx.Err() == nil {
					w.one(t.Context(), "noisy", 10*time.Millisecond)
				}
			})
		}
		for i := range 8 {
			w.running.Go(func() {
				for ctx.Err() == nil {
					w.one(t.Context(), fmt.Sprint("busy", i), 10*time.Millisecond)
				}
			})
		}
		time.Sleep(time.Second)
		var slowest time.Duration
		for range 100 {
			began := time.Now()
			ticket, err := w.Wait(t.Context(), request("quiet"))
			if err != nil {
				t.Fatal(err)
			}
			slowest = max(slowest, time.Since(began))
			ticket.Done()
			time.Sleep(5 * time.Millisecond)
		}
		stop()
		w.running.Wait()
		// Ten flows share four seats; first come, first served, it would be 120 ms.
		if slowest > 30*time.Millisecond {
			t.Errorf("the quiet user waited for %s", slowest)
		}
		// Nine flows want seats all the time: each gets a ninth, of which a busy user can use no more than one seat.
		noisy, least := w.total["noisy"], w.total["busy0"]
		for i := range 8 {
			least = min(least, w.total[fmt.Sprint("busy", i)])
		}
		if noisy > 2*least || least < 30 {
			t.Errorf("unfair: %v", w.total)
		}
	})
}

// TestTime: flows share time, not requests: who makes long ones gets fewer.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, config(1, apart(), byUser), fairqueuing.Options{Seats: 2})
		ctx, stop := context.WithCancel(t.Context())
		for user, takes := range map[string]time.Duration{"long": 50 * time.Millisecond, "short": 10 * time.Millisecond} {
			for range 10 {
				w.running.Go(func() {
					for ctx.Err() == nil {
						w.one(t.Context(), user, takes)
					}
				})
			}
		}
		time.Sleep(10 * time.Second)
		stop()
		w.running.Wait()
		if long, short := w.total["long"], w.total["short"]; short < 4*long || short > 6*long {
			t.Errorf("%d long and %d short requests were served", long, short)
		}
	})
}

// TestGiveUp: a request waits for a quarter of its time, a minute at most, and not when its client is gone.
func TestGiveUp(t *testing.T) {
	for name, tt := range map[string]struct {
		timeout, cancel, want time.Duration
		reason                flowcontrol.Reason
		options               fairqueuing.Options
	}{
		"deadline":        {timeout: 20 * time.Second, want: 5 * time.Second, reason: flowcontrol.TimeOut},
		"a long deadline": {timeout: time.Hour, want: time.Minute, reason: flowcontrol.TimeOut},
		"no deadline":     {want: 15 * time.Second, reason: flowcontrol.TimeOut},
		"another limit":   {want: 30 * time.Second, reason: flowcontrol.TimeOut, options: fairqueuing.Options{MaxWait: 30 * time.Second}},
		"a long limit":    {want: time.Minute, reason: flowcontrol.TimeOut, options: fairqueuing.Options{MaxWait: time.Hour}},
		"gone":            {cancel: 3 * time.Second, want: 3 * time.Second, reason: flowcontrol.Cancelled},
	} {
		synctest.Test(t, func(t *testing.T) {
			tt.options.Seats = 1
			w := newWorld(t, config(1, queued(5), ""), tt.options)
			w.come(1, "ann")
			ctx := t.Context()
			if tt.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.timeout)
				defer cancel()
			}
			if tt.cancel > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(ctx)
				defer time.AfterFunc(tt.cancel, cancel).Stop()
				defer cancel()
			}
			began := time.Now()
			_, err := w.Wait(ctx, request("bob"))
			var r *flowcontrol.Rejection
			if took := time.Since(began); !errors.As(err, &r) || r.Reason != tt.reason || took != tt.want || r.Class.Level.Name != "l" {
				t.Errorf("%s: %v after %s", name, err, took)
			}
			if l := w.Levels()[2]; l.Waiting != 0 {
				t.Errorf("%s: %d wait", name, l.Waiting)
			}
			w.end()
		})
	}
}

// TestLend: a level that has too few seats borrows those of another after ten seconds, also if nothing but time happens.
func TestLend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		borrower, lender := level("l", 1, queued(50)), level("lender", 1, nil)
		borrower.Spec.Limited.LendablePercent, lender.Spec.Limited.LendablePercent = new(int32(50)), new(int32(50))
		c := flowcontrol.NewConfig([]*flowcontrolv1.FlowSchema{everybody("all", "l", "")},
			[]*flowcontrolv1.PriorityLevelConfiguration{borrower, lender, level("catch-all", 0, nil)})
		w := newWorld(t, c, fairqueuing.Options{Seats: 20, MaxWait: time.Minute})
		w.come(30, "ann")
		if l := w.Levels()[3]; l.Name != "lender" || l.Nominal != 10 || l.Lower != 5 || l.Limit != 10 {
			t.Fatalf("%+v", l)
		}
		w.want("at first", "map[ann:10] map[]")
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		w.want("borrowed", "map[ann:15] map[]")
		if l := w.Levels()[2]; l.Limit != 15 || l.Most != 30 || l.Average != 30 || l.Deviation != 0 || l.Smoothed != 30 {
			t.Errorf("%+v", l)
		}
		w.end()
	})
}

// TestLentAll: a level that has lent all its seats serves one request at a time until it gets some back.
func TestLentAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poor, rich := level("l", 1, queued(5)), level("rich", 20, nil)
		poor.Spec.Limited.LendablePercent = new(int32(100))
		w := newWorld(t, flowcontrol.NewConfig([]*flowcontrolv1.FlowSchema{everybody("all", "l", "")},
			[]*flowcontrolv1.PriorityLevelConfiguration{poor, rich, level("catch-all", 0, nil)}), fairqueuing.Options{Seats: 21})
		if l := w.Levels()[2]; l.Name != "l" || l.Limit != 0 {
			t.Fatalf("%+v", l)
		}
		w.come(3, "ann")
		w.want("at first", "map[ann:1] map[]")
		w.let(1, "ann")
		w.want("then", "map[ann:1] map[]")
		w.end()
	})
}

// TestSet: other queues and limits hold at once; requests of a level that is gone go on, and are all that is left of it.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, config(1, queued(5), ""), fairqueuing.Options{Seats: 4, MaxWait: time.Minute})
		w.come(10, "ann")
		w.want("at first", "map[ann:4] map[]")
		other := flowcontrol.NewConfig([]*flowcontrolv1.FlowSchema{everybody("other", "m", "")}, []*flowcontrolv1.PriorityLevelConfiguration{level("m", 1, nil), level("catch-all", 0, nil)})
		w.Set(other)
		w.come(10, "bob")
		w.want("bob has another level", "map[ann:4 bob:4] map[concurrency-limit:6]")
		w.let(4, "ann")
		w.want("those who waited are served", "map[ann:4 bob:4] map[concurrency-limit:6]")
		if names := fmt.Sprint(names(w)); names != "[catch-all exempt l m]" {
			t.Error(names)
		}
		w.let(4, "ann")
		w.let(2, "ann")
		if names := fmt.Sprint(names(w)); names != "[catch-all exempt m]" {
			t.Error(names)
		}
		w.end()
		// Fewer queues, then none: those who wait stay.
		w.Set(config(1, queued(5), ""))
		w.come(10, "eve")
		w.Set(config(1, &flowcontrolv1.QueuingConfiguration{Queues: 2, HandSize: 1, QueueLengthLimit: 1}, ""))
		w.come(10, "eve")
		w.Set(config(1, nil, ""))
		w.come(1, "eve")
		w.let(4, "eve")
		w.let(4, "eve")
		w.end()
		if w.total["eve"] < 10 || w.total["eve"]+w.refused[flowcontrol.QueueFull]+w.refused[flowcontrol.ConcurrencyLimit]-6 != 21 {
			t.Errorf("%v, %v", w.total, w.refused)
		}
	})
}

func names(w *world) (all []string) {
	for _, l := range w.Levels() {
		all = append(all, l.Name)
	}
	return all
}

// TestRetryAfter: the more are rejected, the later they are to come again; and sooner when there are few.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, config(1, nil, ""), fairqueuing.Options{Seats: 1})
		w.come(1, "ann")
		reject := func() time.Duration {
			_, err := w.Wait(t.Context(), request("bob"))
			var r *flowcontrol.Rejection
			if !errors.As(err, &r) {
				t.Fatal(err)
			}
			return r.RetryAfter
		}
		longest := time.Duration(0)
		for second := range 120 {
			for range 100 {
				after := reject()
				if second == 0 && after != time.Second {
					t.Fatalf("at first: %s", after)
				}
				longest = max(longest, after)
			}
			time.Sleep(time.Second)
		}
		if longest != 32*time.Second {
			t.Errorf("at most %s", longest)
		}
		var last time.Duration
		for range 40 {
			time.Sleep(40 * time.Second)
			last = reject()
		}
		if last != time.Second {
			t.Errorf("in the end %s", last)
		}
		w.end()
	})
}

// TestExempt: masters are served whatever happens.
func TestExempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, flowcontrol.NewConfig(nil, nil), fairqueuing.Options{Seats: 1})
		w.come(2, "ann")
		w.want("one seat", "map[ann:1] map[concurrency-limit:1]")
		root := request("root")
		root.User.Groups = []string{authn.GroupMasters}
		var tickets []flowcontrol.Ticket
		for range 100 {
			ticket, err := w.Wait(t.Context(), root)
			if err != nil || ticket.Class.Schema.Name != "exempt" {
				t.Fatal(ticket, err)
			}
			tickets = append(tickets, ticket)
		}
		for _, ticket := range tickets {
			ticket.Done()
		}
		w.end()
	})
}

// seen counts observations.
type seen struct {
	mu  sync.Mutex
	all []fairqueuing.Observation
}

func (s *seen) Observe(o fairqueuing.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, o)
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &seen{}
		w := newWorld(t, config(1, queued(1), ""), fairqueuing.Options{Seats: 1, Observer: s})
		w.come(2, "ann")
		time.Sleep(2 * time.Second)
		w.let(1, "ann")
		w.come(9, "ann")
		w.end()
		got := map[string]int{}
		for _, o := range s.all {
			if o.Class.Level.Name != "l" || o.Class.Schema.Name != "all" {
				t.Errorf("%+v", o)
			}
			if o.Verb != "get" {
				t.Errorf("%+v", o)
			}
			o.Class, o.Verb = flowcontrol.Class{}, ""
			got[fmt.Sprintf("%+v", o)]++
		}
		for want, n := range map[string]int{
			fmt.Sprintf("%+v", fairqueuing.Observation{Event: fairqueuing.Served}):                                        1,
			fmt.Sprintf("%+v", fairqueuing.Observation{Event: fairqueuing.Served, Queued: true, Waited: 2 * time.Second}): 1,
			fmt.Sprintf("%+v", fairqueuing.Observation{Event: fairqueuing.Served, Queued: true}):                          8,
			fmt.Sprintf("%+v", fairqueuing.Observation{Event: fairqueuing.Rejected, Reason: flowcontrol.QueueFull}):       1,
			fmt.Sprintf("%+v", fairqueuing.Observation{Event: fairqueuing.Ended, Took: 2 * time.Second}):                  1,
			fmt.Sprintf("%+v", fairqueuing.Observation{Event: fairqueuing.Ended}):                                         9,
		} {
			if got[want] != n {
				t.Errorf("%s: %d, want %d; %v", want, got[want], n, got)
			}
		}
	})
}

func BenchmarkWait(b *testing.B) {
	l := fairqueuing.New(flowcontrol.DefaultConfig(), fairqueuing.Options{})
	a := authz.Attributes{
		User: &authn.Identity{Name: "ann", Groups: []string{"system:authenticated"}}, Verb: "get", Resource: "pods", Namespace: "ns", ResourceRequest: true,
	}
	b.ReportAllocs()
	for b.Loop() {
		ticket, err := l.Wait(b.Context(), a)
		if err != nil {
			b.Fatal(err)
		}
		ticket.Done()
	}
}

func Example() {
	// One seat for everybody but masters.
	l := fairqueuing.New(flowcontrol.NewConfig(nil, nil), fairqueuing.Options{Seats: 1})
	ann := authz.Attributes{User: &authn.Identity{Name: "ann"}, Verb: "get", Path: "/version"}
	ticket, err := l.Wait(context.Background(), ann)
	fmt.Println(ticket.Class.Schema.Name, err)
	_, err = l.Wait(context.Background(), ann)
	fmt.Println(err)
	ticket.Done()
	// Output:
	// catch-all <nil>
	// too many requests of the priority level "catch-all" (flow schema "catch-all"): concurrency-limit
}

func TestSuite(t *testing.T) {
	for name, c := range map[string]*flowcontrol.Config{
		"defaults": flowcontrol.DefaultConfig(), "mandatory": flowcontrol.NewConfig(nil, nil), "queues": config(1, queued(5), byUser),
	} {
		t.Run(name, func(t *testing.T) {
			flowcontroltest.Suite{New: func() flowcontrol.Limiter { return fairqueuing.New(c, fairqueuing.Options{Seats: 20}) }, Flood: 400}.Run(t)
		})
	}
}

// TestManyQueues: a level may have millions of queues; only those with requests take memory.
func TestManyQueues(t *testing.T) {
	c := config(1, &flowcontrolv1.QueuingConfiguration{Queues: 10_000_000, HandSize: 2, QueueLengthLimit: 5}, byUser)
	if n := testing.AllocsPerRun(1, func() { fairqueuing.New(c, fairqueuing.Options{}) }); n > 1000 {
		t.Errorf("%v allocations", n)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, c, fairqueuing.Options{Seats: 1})
		w.come(3, "ann")
		w.want("one is served", "map[ann:1] map[]")
		w.end()
		if w.total["ann"] != 3 {
			t.Errorf("%v", w.total)
		}
	})
}
