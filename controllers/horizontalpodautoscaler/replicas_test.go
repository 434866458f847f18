package horizontalpodautoscaler_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/controllerstest"
)

// scene is a single evaluation of a Deployment of three replicas.
type scene struct {
	metric   metric
	replicas int32 // 0 is three
	pods     func(*bench)
	script   func(*scripted)
	tune     func(*hpa)
	want     int32  // 0 is no change
	active   string // condition; empty is not checked
	status   string // of the metric; empty is not checked
}

// evaluate is one evaluation of each scene.
func evaluate(t *testing.T, scenes map[string]scene) {
	t.Helper()
	for name, s := range scenes {
		t.Run(name, func(t *testing.T) {
			if s.replicas == 0 {
				s.replicas = 3
			}
			run(t, &bench{}, func(b *bench) {
				b.deployment("web", s.replicas)
				if s.pods == nil {
					b.pods("web", int(s.replicas))
				} else {
					s.pods(b)
				}
				s.script(&b.metrics)
				b.autoscaler("web", metrics(s.metric), func(a *hpa) {
					if s.tune != nil {
						s.tune(a)
					}
				})
			}, func(b *bench) {
				want := s.want
				if want == 0 {
					want = s.replicas
				}
				b.wantReplicas("web", want)
				if s.active != "" {
					b.wantCondition("web", autoscalingv2.ScalingActive, s.active)
				}
				if s.status != "" {
					if got := text(t, b.stored("web").Status.CurrentMetrics); got != "["+s.status+"]" {
						t.Errorf("current metrics %s, want %s", got, s.status)
					}
				}
			})
		})
	}
}

func samples(values ...int64) func(*scripted) {
	return func(s *scripted) { s.samples = used(values...) }
}

const counted = "True ValidMetricFound: the HPA was able to successfully calculate a replica count from "

func unable(reason, message string) string {
	return "False " + reason + ": the HPA was unable to compute the replica count: " + message
}

func TestUtilization(t *testing.T) {
	evaluate(t, map[string]scene{
		"more": {metric: cpu(utilization(50)), script: samples(1000, 1000, 700), want: 6,
			active: counted + "cpu resource utilization (percentage of request)",
			status: `{"type":"Resource","resource":{"name":"cpu","current":{"averageValue":"900m","averageUtilization":90}}}`},
		"fewer":           {metric: cpu(utilization(50)), script: samples(100, 200, 300), want: 2},
		"just within":     {metric: cpu(utilization(50)), script: samples(550, 550, 550)},
		"just beyond":     {metric: cpu(utilization(50)), script: samples(560, 560, 560), want: 4},
		"just below":      {metric: cpu(utilization(50)), script: samples(450, 450, 450)},
		"further below":   {metric: cpu(utilization(50)), replicas: 10, script: samples(440, 440, 440, 440, 440, 440, 440, 440, 440, 440), want: 9},
		"above requests":  {metric: cpu(utilization(200)), script: samples(4000, 4000, 4000), want: 6},
		"memory in bytes": {metric: of("memory", utilization(50)), script: samples(100<<20*1000, 100<<20*1000, 100<<20*1000), want: 6, status: `{"type":"Resource","resource":{"name":"memory","current":{"averageValue":"100Mi","averageUtilization":100}}}`},
		"own tolerance up": {metric: cpu(utilization(50)), script: samples(900, 900, 900), tune: func(a *hpa) {
			a.Spec.Behavior.ScaleUp.Tolerance = quantity("0.8")
		}},
		"own tolerance down": {metric: cpu(utilization(50)), replicas: 10, script: samples(480, 480, 480, 480, 480, 480, 480, 480, 480, 480), want: 9, tune: func(a *hpa) {
			a.Spec.Behavior.ScaleDown.Tolerance = quantity("0.01")
		}, pods: func(b *bench) { b.pods("web", 9) }},
		"average": {metric: cpu(average("300m")), script: samples(500, 600, 700), want: 6,
			active: counted + "cpu resource", status: `{"type":"Resource","resource":{"name":"cpu","current":{"averageValue":"600m"}}}`},
		"memory average": {metric: of("memory", average("50Mi")), script: samples(100<<20*1000, 100<<20*1000, 100<<20*1000), want: 6,
			active: counted + "memory resource", status: `{"type":"Resource","resource":{"name":"memory","current":{"averageValue":"100Mi"}}}`},
		"container": {metric: container("app", utilization(50)), script: samples(1000, 1000, 1000), want: 6,
			active: counted + "cpu container resource utilization (percentage of request)",
			status: `{"type":"ContainerResource","containerResource":{"name":"cpu","current":{"averageValue":"1","averageUtilization":100},"container":"app"}}`},
		"container average": {metric: container("app", average("500m")), script: samples(1000, 1000, 1000), want: 6, active: counted + "cpu resource"},
		"no metrics": {metric: cpu(utilization(50)), script: func(s *scripted) { s.err = errors.New("no route") },
			active: unable("FailedGetResourceMetric", "failed to get cpu utilization: unable to get metrics for resource cpu: no route")},
		"no average": {metric: cpu(average("1")), script: func(s *scripted) { s.err = errors.New("no route") },
			active: unable("FailedGetResourceMetric", "failed to get cpu usage: unable to get metrics for resource cpu: no route")},
		"no container metrics": {metric: container("app", utilization(50)), script: func(s *scripted) { s.err = errors.New("no route") },
			active: unable("FailedGetContainerResourceMetric", "failed to get cpu utilization: unable to get metrics for resource cpu: no route")},
		"no pods": {metric: cpu(utilization(50)), pods: func(*bench) {}, script: samples(1),
			active: unable("FailedGetResourceMetric", "failed to get cpu utilization: no pods returned by selector while calculating replica count")},
		"no pods for an average": {metric: cpu(average("1")), pods: func(*bench) {}, script: samples(1),
			active: unable("FailedGetResourceMetric", "failed to get cpu usage: no pods returned by selector while calculating replica count")},
		"of other pods only": {metric: cpu(utilization(50)), pods: func(b *bench) { b.pods("web", 3, func(p *corev1.Pod) { p.Name = "other-" + p.Name }) }, script: samples(1),
			active: unable("FailedGetResourceMetric", "failed to get cpu utilization: no metrics returned matched known pods")},
	})
}

func TestRequests(t *testing.T) {
	request := func(s string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(s)}}
	}
	always := corev1.ContainerRestartPolicyAlways
	with := func(change func(*corev1.PodSpec)) func(*bench) {
		return func(b *bench) { b.pods("web", 3, func(p *corev1.Pod) { change(&p.Spec) }) }
	}
	two := func(s *corev1.PodSpec) {
		s.Containers = append(s.Containers, corev1.Container{Name: "more", Image: "i", Resources: request("3")})
	}
	evaluate(t, map[string]scene{
		"all containers": {metric: cpu(utilization(50)), pods: with(two), script: samples(4000, 4000, 4000), want: 6},
		"a container":    {metric: container("more", utilization(50)), pods: with(two), script: samples(3000, 3000, 3000), want: 6},
		"sidecars count": {metric: cpu(utilization(50)), pods: with(func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{
				{Name: "init", Image: "i"}, {Name: "side", Image: "i", RestartPolicy: &always, Resources: request("3")},
			}
		}), script: samples(4000, 4000, 4000), want: 6},
		"pod level": {metric: cpu(utilization(50)), pods: with(func(s *corev1.PodSpec) { s.Resources = new(request("4")) }), script: samples(4000, 4000, 4000), want: 6},
		"pod level but a container": {metric: container("app", utilization(50)), pods: with(func(s *corev1.PodSpec) { s.Resources = new(request("4")) }),
			script: samples(1000, 1000, 1000), want: 6},
		"pod level without": {metric: of("memory", utilization(50)), pods: with(func(s *corev1.PodSpec) {
			s.Resources, s.Containers[0].Resources = new(request("4")), corev1.ResourceRequirements{}
		}), script: samples(1, 1, 1),
			active: unable("FailedGetResourceMetric", "failed to get memory utilization: missing pod-level request for memory in Pod web-0")},
		"none": {metric: of("memory", utilization(50)), pods: with(func(s *corev1.PodSpec) { s.Containers[0].Resources = request("4") }), script: samples(1, 1, 1),
			active: unable("FailedGetResourceMetric", "failed to get memory utilization: missing request for memory in container app of Pod web-0")},
		"no such container": {metric: container("x", utilization(50)), script: samples(1, 1, 1),
			active: unable("FailedGetContainerResourceMetric", "failed to get cpu utilization: container x not found in Pod web-0")},
	})
}

// mixed adds two ready pods, web-0 and web-1, and one, web-2, that is changed.
func mixed(change ...func(*corev1.Pod)) func(*bench) {
	return func(b *bench) {
		b.pods("web", 2)
		p := pod("web-2", change...)
		p.Labels = map[string]string{"app": "web"}
		controllerstest.Add(b, b.api, p)
	}
}

func ready(status corev1.ConditionStatus, since time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = status, metav1.NewTime(time.Now().Add(-since))
	}
}

func started(since time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.StartTime = new(metav1.NewTime(time.Now().Add(-since))) }
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func TestReadiness(t *testing.T) {
	const minute = time.Minute
	fast := cpu(utilization(50))
	old := func(s *scripted) {
		s.samples = used(1000, 1000, 1000)
		late := s.samples["web-2"]
		late.At = time.Now().Add(-40 * time.Second)
		s.samples["web-2"] = late
	}
	evaluate(t, map[string]scene{
		// Ready: three pods of twice the target become six. A pod that does not count uses nothing: 2*2/3 of three are four.
		"ready":                            {metric: fast, pods: mixed(), script: samples(1000, 1000, 1000), want: 6},
		"pending":                          {metric: fast, pods: mixed(phase(corev1.PodPending)), script: samples(1000, 1000), want: 4},
		"failed":                           {metric: fast, pods: mixed(phase(corev1.PodFailed)), script: samples(1000, 1000, 5000), want: 4},
		"new and unready":                  {metric: fast, pods: mixed(started(minute), ready("False", minute)), script: samples(1000, 1000, 9000), want: 4},
		"new and ready":                    {metric: fast, pods: mixed(started(2*minute), ready("True", minute)), script: samples(1000, 1000, 1000), want: 6},
		"new and ready since":              {metric: fast, pods: mixed(started(minute), ready("True", 50*time.Second)), script: old, want: 4},
		"initialized":                      {metric: fast, pods: mixed(started(6*minute), ready("False", minute)), script: samples(1000, 1000, 1000), want: 6},
		"never ready":                      {metric: fast, pods: mixed(started(6*minute), ready("False", 6*minute-20*time.Second)), script: samples(1000, 1000, 1000), want: 4},
		"never started":                    {metric: fast, pods: mixed(func(p *corev1.Pod) { p.Status.StartTime = nil }), script: samples(1000, 1000, 1000), want: 4},
		"no condition":                     {metric: fast, pods: mixed(func(p *corev1.Pod) { p.Status.Conditions = nil }), script: samples(1000, 1000, 1000), want: 4},
		"unready counts for memory":        {metric: of("memory", average("1")), pods: mixed(started(minute), ready("False", minute)), script: samples(2000, 2000, 2000), want: 6},
		"unready counts for other metrics": {metric: podsMetric(average("1")), pods: mixed(started(minute), ready("False", minute)), script: samples(2000, 2000, 2000), want: 6},
		"unready and fewer":                {metric: fast, pods: mixed(phase(corev1.PodPending)), script: samples(100, 100), want: 1},
		"unready damps to nothing":         {metric: fast, pods: mixed(phase(corev1.PodPending)), script: samples(800, 800)},
		"all unready": {metric: fast, pods: func(b *bench) { b.pods("web", 3, phase(corev1.PodPending)) }, script: samples(1, 1, 1),
			active: unable("FailedGetResourceMetric", "failed to get cpu utilization: did not receive metrics for targeted pods (pods might be unready)")},
		"all unready for others": {metric: podsMetric(average("1")), pods: func(b *bench) { b.pods("web", 3, phase(corev1.PodPending)) }, script: samples(1, 1, 1),
			active: unable("FailedGetPodsMetric", "did not receive metrics for targeted pods (pods might be unready)")},
	})
}

func TestMissing(t *testing.T) {
	evaluate(t, map[string]scene{
		"up, as nothing":             {metric: cpu(utilization(50)), script: samples(1000, 1000), want: 4},
		"down, as all requested":     {metric: cpu(utilization(50)), replicas: 10, script: samples(100, 100, 100, 100, 100, 100, 100, 100, 100), want: 4},
		"down, as the target":        {metric: cpu(utilization(200)), replicas: 10, script: samples(100, 100, 100, 100, 100, 100, 100, 100, 100), want: 2},
		"not in the other direction": {metric: cpu(utilization(50)), script: samples(300, 300)},
		"exactly as it should be":    {metric: cpu(utilization(50)), script: samples(500, 500)},
		"average up":                 {metric: podsMetric(average("500m")), script: samples(1000, 1000), want: 4},
		"average down":               {metric: podsMetric(average("500m")), replicas: 10, script: samples(100, 100, 100, 100, 100, 100, 100, 100, 100), want: 3},
		"up although fewer are known": {metric: cpu(utilization(50)), replicas: 6, pods: func(b *bench) { b.pods("web", 3) },
			script: samples(1000, 1000)}, // four, which are not more than six
		"down although more are known": {metric: podsMetric(average("500m")), pods: func(b *bench) { b.pods("web", 10) },
			script: samples(100, 100, 100, 100, 100, 100, 100, 100, 400)}, // four, which are not fewer than three
	})
}

func TestPodsMetric(t *testing.T) {
	evaluate(t, map[string]scene{
		"more": {metric: podsMetric(average("100")), script: samples(150000, 200000, 250000), want: 6, active: counted + "pods metric qps",
			status: `{"type":"Pods","pods":{"metric":{"name":"qps","selector":{"matchLabels":{"a":"b"}}},"current":{"averageValue":"200"}}}`},
		"within": {metric: podsMetric(average("100")), script: samples(105000, 105000, 105000)},
		"unknown": {metric: podsMetric(average("100")), script: func(s *scripted) { s.err = errors.New("no route") },
			active: unable("FailedGetPodsMetric", "unable to get metric qps: no route")},
		"no pods": {metric: podsMetric(average("100")), pods: func(*bench) {}, script: samples(1),
			active: unable("FailedGetPodsMetric", "no pods returned by selector while calculating replica count")},
	})
}

func TestObject(t *testing.T) {
	is := func(v int64) func(*scripted) { return func(s *scripted) { s.value = v } }
	failing := func(s *scripted) { s.err = errors.New("no route") }
	const shown = `{"type":"Object","object":{"metric":{"name":"hits","selector":{"matchLabels":{"a":"b"}}},"current":`
	const described = `,"describedObject":{"kind":"Service","name":"s","apiVersion":"v1"}}}`
	evaluate(t, map[string]scene{
		"value": {metric: object(value("100")), script: is(200000), want: 6, active: counted + "Service metric hits",
			status: shown + `{"value":"200"}` + described},
		"value within":             {metric: object(value("100")), script: is(109000)},
		"value, ready pods only":   {metric: object(value("100")), pods: mixed(ready("False", time.Minute)), script: is(300000), want: 6},
		"value, running pods only": {metric: object(value("100")), pods: mixed(phase(corev1.PodPending)), script: is(300000), want: 6},
		"value without pods": {metric: object(value("100")), pods: func(*bench) {}, script: is(300000),
			active: unable("FailedGetObjectMetric", "unable to calculate ready pods: no pods returned by selector while calculating replica count")},
		"share": {metric: object(average("100")), script: is(600000), want: 6,
			active: counted + "external metric hits(&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},})",
			status: shown + `{"averageValue":"200"}` + described},
		"share within": {metric: object(average("100")), script: is(320000)},
		"unknown value": {metric: object(value("100")), script: failing,
			active: unable("FailedGetObjectMetric", "unable to get metric hits on Service ns/s: no route")},
		"unknown share": {metric: object(average("100")), script: failing,
			active: unable("FailedGetObjectMetric", "unable to get metric hits on Service ns/s: no route")},
		"mixed up": {metric: object(target{Type: "Value", AverageValue: quantity("1")}), script: is(1),
			active: unable("FailedGetObjectMetric", "invalid object metric source: neither a value target nor an average value target was set")},
	})
}

func TestExternal(t *testing.T) {
	odd := external(value("100"))
	odd.External.Metric.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	series := func(v ...int64) func(*scripted) { return func(s *scripted) { s.series = v } }
	failing := func(s *scripted) { s.err = errors.New("no route") }
	const selector = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}"
	const shown = `{"type":"External","external":{"metric":{"name":"queue","selector":{"matchLabels":{"a":"b"}}},"current":`
	evaluate(t, map[string]scene{
		"value":        {metric: external(value("100")), script: series(150000, 50000), want: 6, active: counted + "external metric queue(" + selector + ")", status: shown + `{"value":"200"}}}`},
		"value within": {metric: external(value("100")), script: series(95000)},
		"share": {metric: external(average("100")), script: series(300000, 300000), want: 6,
			status: shown + `{"averageValue":"200"}}}`},
		"huge": {metric: external(value("1")), script: series(math.MaxInt64, 1), want: 100},
		"huge share": {metric: external(average("1")), replicas: 1, script: series(math.MaxInt64), want: 100,
			status: shown + `{"averageValue":"9223372036854775807m"}}}`},
		"unknown": {metric: external(value("100")), script: failing,
			active: unable("FailedGetExternalMetric", "unable to get external metric ns/queue/"+selector+": no route")},
		"a selector that is none": {metric: odd, script: series(1),
			active: unable("FailedGetExternalMetric", `"Near" is not a valid label selector operator`)},
		"value without pods": {metric: external(value("100")), pods: func(*bench) {}, script: series(1),
			active: unable("FailedGetExternalMetric", "unable to calculate ready pods: no pods returned by selector while calculating replica count")},
	})
}

// TestErrors pins the texts of events, which tell more than the condition where several metrics fail.
func TestErrors(t *testing.T) {
	bad := errors.New("no route")
	run(t, &bench{}, func(b *bench) {
		b.deployment("web", 3)
		b.pods("web", 3)
		b.metrics.err = bad
		b.autoscaler("web", metrics(external(average("1")), external(value("1")), object(average("1")), object(value("1")), podsMetric(average("1")),
			container("app", utilization(1)), cpu(utilization(1))))
	}, func(b *bench) {
		const selector = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}"
		b.wantEvents(
			"Warning FailedGetExternalMetric unable to get external metric ns/queue/"+selector+": no route",
			"Warning FailedGetExternalMetric unable to get external metric ns/queue/"+selector+": no route",
			"Warning FailedGetObjectMetric unable to get metric hits on Service ns/s: no route",
			"Warning FailedGetObjectMetric unable to get metric hits on Service ns/s: no route",
			"Warning FailedGetPodsMetric unable to get metric qps: no route",
			"Warning FailedGetContainerResourceMetric failed to get cpu utilization: unable to get metrics for resource cpu: no route",
			"Warning FailedGetResourceMetric failed to get cpu utilization: unable to get metrics for resource cpu: no route",
			"Warning FailedComputeMetricsReplicas invalid metrics (7 invalid out of 7), first error is: failed to get queue external metric value: failed to get queue external metric: unable to get external metric ns/queue/"+selector+": no route",
		)
		b.wantCondition("web", autoscalingv2.ScalingActive, unable("FailedGetExternalMetric", "unable to get external metric ns/queue/"+selector+": no route"))
		for _, m := range []struct {
			metric metric
			want   string
		}{
			{external(value("1")), "failed to get queue external metric value: failed to get external metric queue: unable to get external metric ns/queue/" + selector + ": no route"},
			{object(average("1")), "failed to get object metric value: failed to get hits object metric: unable to get metric hits on Service ns/s: no route"},
			{object(value("1")), "failed to get object metric value: unable to get metric hits on Service ns/s: no route"},
			{podsMetric(average("1")), "failed to get pods metric value: unable to get metric qps: no route"},
			{container("app", utilization(1)), "failed to get app container metric value: failed to get cpu utilization: unable to get metrics for resource cpu: no route"},
			{cpu(utilization(1)), "failed to get cpu resource metric value: failed to get cpu utilization: unable to get metrics for resource cpu: no route"},
		} {
			b.events.Take()
			b.change("web", metrics(m.metric))
			got := b.events.Take()
			if want := "Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: " + m.want; !slices.Contains(got, want) {
				t.Errorf("events %q, want %q", got, want)
			}
		}
		b.wantReplicas("web", 3)
	})
}
