package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/flowcontrol/fairqueuing"
	"github.com/keelson-dev/keelson/flowcontrol/metrics"
)

func request(user, verb string, groups ...string) authz.Attributes {
	return authz.Attributes{User: &authn.Identity{Name: user, Groups: groups}, Verb: verb, Path: "/x"}
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *fairqueuing.Limiter
		m := metrics.New(func() []fairqueuing.Level { return l.Levels() })
		l = fairqueuing.New(flowcontrol.DefaultConfig(), fairqueuing.Options{Seats: 12, Observer: m})
		wait := func(a authz.Attributes) (flowcontrol.Ticket, error) { return l.Wait(t.Context(), a) }
		ann := request("ann", "watch", "system:authenticated")
		held, err := wait(ann)
		if err != nil {
			t.Fatal(err)
		}
		var queued flowcontrol.Ticket
		go func() { queued, _ = wait(ann) }()
		synctest.Wait()
		check(t, m, `
apiserver_flowcontrol_current_executing_requests{flow_schema="global-default",priority_level="global-default"} 1
apiserver_flowcontrol_current_executing_seats{flow_schema="global-default",priority_level="global-default"} 1
apiserver_flowcontrol_current_inqueue_requests{flow_schema="global-default",priority_level="global-default"} 1
apiserver_flowcontrol_current_inqueue_seats{flow_schema="global-default",priority_level="global-default"} 1
apiserver_flowcontrol_current_limit_seats{priority_level="global-default"} 0
apiserver_flowcontrol_dispatched_requests_total{flow_schema="global-default",priority_level="global-default"} 1
apiserver_flowcontrol_lower_limit_seats{priority_level="global-default"} 0
apiserver_flowcontrol_nominal_limit_seats{priority_level="global-default"} 1
apiserver_flowcontrol_upper_limit_seats{priority_level="global-default"} 13
`)
		time.Sleep(3 * time.Second)
		held.Done()
		synctest.Wait()
		queued.Done()
		nobody := request("bob", "get")
		for range 3 {
			if held, err = wait(nobody); err != nil {
				break
			}
			defer held.Done()
		}
		check(t, m, `
apiserver_flowcontrol_current_executing_requests{flow_schema="catch-all",priority_level="catch-all"} 2
apiserver_flowcontrol_current_limit_seats{priority_level="global-default"} 0
apiserver_flowcontrol_dispatched_requests_total{flow_schema="catch-all",priority_level="catch-all"} 2
apiserver_flowcontrol_dispatched_requests_total{flow_schema="global-default",priority_level="global-default"} 2
apiserver_flowcontrol_rejected_requests_total{flow_schema="catch-all",priority_level="catch-all",reason="concurrency-limit"} 1
apiserver_flowcontrol_request_execution_seconds_count{flow_schema="global-default",priority_level="global-default",type="watch"} 2
apiserver_flowcontrol_request_execution_seconds_sum{flow_schema="global-default",priority_level="global-default",type="watch"} 3
apiserver_flowcontrol_request_wait_duration_seconds_count{execute="true",flow_schema="global-default",priority_level="global-default"} 1
apiserver_flowcontrol_request_wait_duration_seconds_sum{execute="true",flow_schema="global-default",priority_level="global-default"} 3
`)
		time.Sleep(10 * time.Second)
		if held, err = wait(ann); err != nil {
			t.Fatal(err)
		}
		held.Done()
		check(t, m, `
apiserver_flowcontrol_demand_seats_high_watermark{priority_level="global-default"} 2
`)
	})
}

// check wants these lines among those of the metrics.
func check(t *testing.T, m *metrics.Metrics, want string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := w.Body.String()
	have := map[string]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		have[line] = true
	}
	for line := range strings.SplitSeq(strings.TrimSpace(want), "\n") {
		if !have[line] {
			name, _, _ := strings.Cut(line, "{")
			var near []string
			for other := range have {
				if strings.HasPrefix(other, name) {
					near = append(near, other)
				}
			}
			t.Errorf("no %s among\n%s", line, strings.Join(near, "\n"))
		}
	}
}

func Example() {
	var l *fairqueuing.Limiter
	m := metrics.New(func() []fairqueuing.Level { return l.Levels() })
	l = fairqueuing.New(flowcontrol.DefaultConfig(), fairqueuing.Options{Observer: m})
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	ticket, err := l.Wait(context.Background(), request("ann", "get", "system:authenticated"))
	if err != nil {
		panic(err)
	}
	ticket.Done()
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() == "apiserver_flowcontrol_dispatched_requests_total" {
			fmt.Println(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output: 1
}
