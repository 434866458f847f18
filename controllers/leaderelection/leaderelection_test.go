package leaderelection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/leaderelection"
	"github.com/keelson-dev/keelson/lifecycle"
)

var lease = types.NamespacedName{Namespace: "kube-system", Name: "office"}

// office is a server and a log of who did what at which second.
type office struct {
	*testing.T
	api   *controllerstest.API
	start time.Time

	mu  sync.Mutex
	log []string
}

func inBubble(t *testing.T, o controllerstest.Options, test func(*office)) {
	synctest.Test(t, func(t *testing.T) {
		test(&office{T: t, api: controllerstest.Start(t, o), start: time.Now()})
	})
}

func (o *office) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, fmt.Sprintf("%v ", time.Since(o.start))+fmt.Sprintf(format, args...))
}

// candidate starts running for office; the function it returns cancels and waits for the result.
func (o *office) candidate(name string, options leaderelection.Options) (stop func() error, done <-chan error) {
	o.Helper()
	led := lifecycle.Func(func(ctx context.Context) error {
		o.note("%s leads", name)
		<-ctx.Done()
		time.Sleep(time.Second)
		o.note("%s stops", name)
		return nil
	})
	e, err := leaderelection.New(lease, name, o.api, led, options)
	if err != nil {
		o.Fatal(err)
	}
	ctx, cancel := context.WithCancel(o.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	synctest.Wait()
	return func() error { cancel(); return <-ended }, ended
}

func (o *office) want(want ...string) {
	o.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.log, want) {
		o.Errorf("log %q, want %q", o.log, want)
	}
}

// last is the newest line of the log.
func (o *office) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.log[len(o.log)-1]
}

func (o *office) lease() *coordinationv1.Lease {
	o.Helper()
	out, err := o.api.Get(o.Context(), client.Target{
		Resource: coordinationv1.SchemeGroupVersion.WithResource("leases"), Namespace: lease.Namespace, Name: lease.Name,
	})
	if err != nil {
		o.Fatal(err)
	}
	return out.(*coordinationv1.Lease)
}

func TestTakesRenewsAndPasses(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(o *office) {
		stopA, _ := o.candidate("a", leaderelection.Options{})
		stopB, _ := o.candidate("b", leaderelection.Options{})
		acquired := time.Now()
		time.Sleep(61 * time.Second)
		l := o.lease().Spec
		if *l.HolderIdentity != "a" || *l.LeaseDurationSeconds != 15 || *l.LeaseTransitions != 0 || !l.AcquireTime.Time.Equal(acquired) || !l.RenewTime.Time.Equal(acquired.Add(time.Minute)) {
			o.Errorf("lease %+v", l)
		}
		if err := stopA(); err != nil {
			o.Error(err)
		}
		time.Sleep(time.Minute)
		// a renewed at 60 s; b saw that at 60 or 62 s, and finds it 15 s old at 76 or 78 s.
		if got := o.last(); got != "1m16s b leads" && got != "1m18s b leads" {
			o.Errorf("log %q", o.log)
		}
		if l := o.lease().Spec; *l.HolderIdentity != "b" || *l.LeaseTransitions != 1 {
			o.Errorf("lease %+v", l)
		}
		if err := stopB(); err != nil {
			o.Error(err)
		}
	})
}

func TestReleaseOnCancel(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(o *office) {
		stopA, _ := o.candidate("a", leaderelection.Options{ReleaseOnCancel: true})
		time.Sleep(time.Second)
		stopB, _ := o.candidate("b", leaderelection.Options{})
		time.Sleep(59500 * time.Millisecond)
		if err := stopA(); err != nil {
			o.Error(err)
		}
		if l := o.lease().Spec; *l.HolderIdentity != "" || *l.LeaseDurationSeconds != 1 || *l.LeaseTransitions != 0 {
			o.Errorf("released lease %+v", l)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := stopB(); err != nil {
			o.Error(err)
		}
		// b leads only after what a led has returned, at its next try.
		if want := []string{"0s a leads", "1m1.5s a stops", "1m3s b leads"}; len(o.log) < 3 || !slices.Equal(o.log[:3], want) {
			o.Errorf("log %q, want %q", o.log, want)
		}
	})
}

func TestLostLeaseEndsTheRun(t *testing.T) {
	var broken atomic.Bool
	down := errors.New("server is down")
	inBubble(t, controllerstest.Options{Before: func(faults.Request) error {
		if broken.Load() {
			return down
		}
		return nil
	}}, func(o *office) {
		_, done := o.candidate("a", leaderelection.Options{ReleaseOnCancel: true})
		time.Sleep(21 * time.Second) // renewed at 20 s, next at 22 s
		broken.Store(true)
		if err := <-done; !errors.Is(err, leaderelection.ErrLost) {
			o.Errorf("Run: %v", err)
		}
		o.want("0s a leads", "33s a stops") // ten seconds of tries, and one to stop
		broken.Store(false)
		if got := *o.lease().Spec.HolderIdentity; got != "a" {
			o.Errorf("holder %q: it could not be released", got)
		}
	})
}

func TestShortOutageIsSurvived(t *testing.T) {
	var broken atomic.Bool
	inBubble(t, controllerstest.Options{Before: func(faults.Request) error {
		if broken.Load() {
			return errors.New("server is down")
		}
		return nil
	}}, func(o *office) {
		stop, _ := o.candidate("a", leaderelection.Options{})
		for range 10 {
			time.Sleep(21 * time.Second)
			broken.Store(true)
			time.Sleep(7 * time.Second)
			broken.Store(false)
		}
		o.want("0s a leads")
		if err := stop(); err != nil {
			o.Error(err)
		}
	})
}

func TestLedReturns(t *testing.T) {
	failed := errors.New("failed")
	inBubble(t, controllerstest.Options{}, func(o *office) {
		led := lifecycle.Func(func(context.Context) error { time.Sleep(5 * time.Second); return failed })
		var leaders []string
		var recorder controllerstest.Recorder
		e, err := leaderelection.New(lease, "a", o.api, led, leaderelection.Options{
			Recorder: &recorder, NewLeader: func(id string) { leaders = append(leaders, id) }, ReleaseOnCancel: true,
			Jitter: func() float64 { return 0.5 },
		})
		if err != nil {
			o.Fatal(err)
		}
		if err := e.Run(o.Context()); !errors.Is(err, failed) || errors.Is(err, leaderelection.ErrLost) || e.Leader() != "" {
			o.Errorf("Run: %v, leader %q", err, e.Leader())
		}
		if !slices.Equal(leaders, []string{"a"}) {
			o.Errorf("leaders %q", leaders)
		}
		if got := recorder.Take(); !slices.Equal(got, []string{"Normal LeaderElection a became leader", "Normal LeaderElection a stopped leading"}) {
			o.Errorf("events %q", got)
		}
		if err := e.Run(o.Context()); !errors.Is(err, controllers.ErrStarted) {
			o.Errorf("second Run: %v", err)
		}
	})
}

func TestNeverTwoLeaders(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(o *office) {
		var (
			mu      sync.Mutex
			leading int
			terms   int
		)
		ctx, cancel := context.WithTimeout(o.Context(), 10*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				for round := 0; ctx.Err() == nil; round++ {
					led := lifecycle.Func(func(ctx context.Context) error {
						mu.Lock()
						leading++
						terms++
						if leading > 1 {
							o.Error("two leaders")
						}
						mu.Unlock()
						select {
						case <-ctx.Done():
						case <-time.After(time.Duration(5+i) * time.Second):
						}
						mu.Lock()
						leading--
						mu.Unlock()
						return nil
					})
					e, err := leaderelection.New(lease, fmt.Sprint(i, "-", round), o.api, led, leaderelection.Options{ReleaseOnCancel: i%2 == 0})
					if err != nil {
						o.Error(err)
						return
					}
					if err := e.Run(ctx); err != nil {
						o.Error(err)
					}
				}
			})
		}
		all.Wait()
		if terms < 10 {
			o.Errorf("%d terms", terms)
		}
	})
}

func TestOptions(t *testing.T) {
	const positive, longer, retry = "durations must be positive", "leaseDuration must be greater", "renewDeadline must be greater"
	short := func(change func(*leaderelection.Options)) leaderelection.Options {
		o := leaderelection.Options{LeaseDuration: time.Second, RenewDeadline: 500 * time.Millisecond, RetryPeriod: 100 * time.Millisecond}
		change(&o)
		return o
	}
	for name, tt := range map[string]struct {
		identity string
		options  leaderelection.Options
		want     string // "" is no error
	}{
		"none":                        {"a", leaderelection.Options{}, ""},
		"as short as can be":          {"a", short(func(*leaderelection.Options) {}), ""},
		"less than a second":          {"a", short(func(o *leaderelection.Options) { o.LeaseDuration -= time.Millisecond }), positive},
		"negative deadline":           {"a", short(func(o *leaderelection.Options) { o.RenewDeadline = -1 }), positive},
		"negative period":             {"a", short(func(o *leaderelection.Options) { o.RetryPeriod = -1 }), positive},
		"no identity":                 {"", leaderelection.Options{}, "identity is empty"},
		"lease short":                 {"a", leaderelection.Options{LeaseDuration: 9 * time.Second}, longer},
		"deadline short":              {"a", leaderelection.Options{RenewDeadline: 2 * time.Second}, retry},
		"no longer than the deadline": {"a", leaderelection.Options{LeaseDuration: 10 * time.Second, RenewDeadline: 10 * time.Second}, longer},
		"no longer than a retry":      {"a", leaderelection.Options{RenewDeadline: 2400 * time.Millisecond}, retry},
	} {
		_, err := leaderelection.New(lease, tt.identity, nil, nil, tt.options)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, leaderelection.ErrOptions) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
