package autoscaling_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/autoscaling"
)

const prefix = "autoscaling.alpha.kubernetes.io/"

func TestDefaults(t *testing.T) {
	k := kind(t)
	a := &hpa{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"a": "b", prefix + "metrics": "[]", prefix + "current-metrics": "[]", prefix + "conditions": "[]", prefix + "behavior": "{}",
		prefix + "scale-down-tolerance": "1", prefix + "scale-up-tolerance": "1",
	}}}
	k.Rules.Default(a)
	want := &hpa{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(1)), Metrics: []metric{cpu(utilization(80))}},
	}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Error(diff)
	}
	a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{}
	k.Rules.Default(a)
	behavior := &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp: &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: new(int32(0)), SelectPolicy: new(autoscalingv2.MaxChangePolicySelect),
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: "Pods", Value: 4, PeriodSeconds: 15}, {Type: "Percent", Value: 100, PeriodSeconds: 15}},
		},
		ScaleDown: &autoscalingv2.HPAScalingRules{
			SelectPolicy: new(autoscalingv2.MaxChangePolicySelect),
			Policies:     []autoscalingv2.HPAScalingPolicy{{Type: "Percent", Value: 100, PeriodSeconds: 15}},
		},
	}
	if diff := cmp.Diff(behavior, a.Spec.Behavior); diff != "" {
		t.Error(diff)
	}
	set := autoscaler()
	k.Rules.Default(set)
	if diff := cmp.Diff(autoscaler(), set); diff != "" {
		t.Errorf("what is set: %s", diff)
	}
}

// TestDefaultsOfV1: the defaults of behaviors are those of v2, so that they are set only when the object is stored.
func TestDefaultsOfV1(t *testing.T) {
	k := kind(t)
	rules := k.Also[0].Rules
	a := &hpa{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		Metrics: []metric{pods(average("1"))}, Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{},
	}}
	rules.Default(a)
	if *a.Spec.MinReplicas != 1 || a.Spec.Behavior.ScaleUp != nil {
		t.Errorf("defaults: %+v", a.Spec)
	}
	rules.Store(a)
	if a.Spec.Behavior.ScaleUp == nil || a.Spec.Behavior.ScaleDown == nil {
		t.Errorf("stored: %+v", a.Spec)
	}
	bad := autoscaler()
	bad.Spec.MaxReplicas = 0
	if errs := rules.Validate(bad); len(errs) != 2 {
		t.Errorf("errors in v1: %v", errs)
	}
}

func fromV1(t *testing.T, k registry.Kind, a *autoscalingv1.HorizontalPodAutoscaler) *hpa {
	t.Helper()
	out, err := k.Also[0].ToStored(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return out.(*hpa)
}

func toV1(t *testing.T, k registry.Kind, a *hpa) *autoscalingv1.HorizontalPodAutoscaler {
	t.Helper()
	out, err := k.Also[0].FromStored(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return out.(*autoscalingv1.HorizontalPodAutoscaler)
}

// full is an autoscaler with a status of all kinds of metrics.
func full() *hpa {
	a := autoscaler()
	a.Annotations = map[string]string{"a": "b"}
	a.Spec.Metrics = append([]metric{cpu(average("100m")), container(utilization(3)), object(average("3")), external(value("4"))}, a.Spec.Metrics...)
	ref := autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "s"}
	a.Status = autoscalingv2.HorizontalPodAutoscalerStatus{
		ObservedGeneration: new(int64(2)), LastScaleTime: new(metav1.Unix(1e9, 0)), CurrentReplicas: 3, DesiredReplicas: 4,
		CurrentMetrics: []autoscalingv2.MetricStatus{
			{Type: "Object", Object: &autoscalingv2.ObjectMetricStatus{DescribedObject: ref, Metric: identifier("hits"),
				Current: autoscalingv2.MetricValueStatus{Value: quantity("1"), AverageValue: quantity("2")}}},
			{Type: "External", External: &autoscalingv2.ExternalMetricStatus{Metric: identifier("queue"),
				Current: autoscalingv2.MetricValueStatus{Value: quantity("3"), AverageValue: quantity("4")}}},
			{Type: "Pods", Pods: &autoscalingv2.PodsMetricStatus{Metric: identifier("qps"),
				Current: autoscalingv2.MetricValueStatus{AverageValue: quantity("5")}}},
			{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{Name: "memory", Container: "app",
				Current: autoscalingv2.MetricValueStatus{AverageValue: quantity("6"), AverageUtilization: new(int32(6))}}},
			{Type: "Resource", Resource: &autoscalingv2.ResourceMetricStatus{Name: "cpu",
				Current: autoscalingv2.MetricValueStatus{AverageValue: quantity("7"), AverageUtilization: new(int32(8))}}},
		},
		Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{
			Type: "AbleToScale", Status: "True", LastTransitionTime: metav1.Unix(1e9, 0).Rfc3339Copy(), Reason: "R", Message: "m", ObservedGeneration: new(int64(2)),
		}},
	}
	return a
}

// TestV1 pins the annotations, in which upstream's servers and clients read what v1 has no fields for.
func TestV1(t *testing.T) {
	k := kind(t)
	a := full()
	a.Annotations[prefix+"metrics"] = "stale"
	got := toV1(t, k, a)
	if *got.Spec.TargetCPUUtilizationPercentage != 60 || *got.Status.CurrentCPUUtilizationPercentage != 8 || got.Spec.MaxReplicas != 10 {
		t.Errorf("spec %+v, status %+v", got.Spec, got.Status)
	}
	const selector, ref = `{"matchLabels":{"a":"b"}}`, `"apiVersion":"networking.k8s.io/v1"`
	want := map[string]string{
		"a": "b",
		prefix + "metrics": `[{"type":"Resource","resource":{"name":"cpu","targetAverageValue":"100m"}},` +
			`{"type":"ContainerResource","containerResource":{"name":"memory","targetAverageUtilization":3,"container":"app"}},` +
			`{"type":"Object","object":{"target":{"kind":"Ingress","name":"web",` + ref + `},"metricName":"hits","targetValue":"0","selector":` + selector + `,"averageValue":"3"}},` +
			`{"type":"External","external":{"metricName":"queue","metricSelector":` + selector + `,"targetValue":"4"}},` +
			`{"type":"Object","object":{"target":{"kind":"Ingress","name":"web",` + ref + `},"metricName":"hits","targetValue":"2k","selector":` + selector + `}},` +
			`{"type":"External","external":{"metricName":"queue","metricSelector":` + selector + `,"targetAverageValue":"30"}},` +
			`{"type":"Pods","pods":{"metricName":"qps","targetAverageValue":"1k","selector":` + selector + `}},` +
			`{"type":"ContainerResource","containerResource":{"name":"memory","targetAverageValue":"1Gi","container":"app"}}]`,
		prefix + "behavior": `{"ScaleUp":{"StabilizationWindowSeconds":60,"SelectPolicy":"Min","Policies":[{"Type":"Pods","Value":5,"PeriodSeconds":30}],"Tolerance":"50m"},` +
			`"ScaleDown":{"StabilizationWindowSeconds":60,"SelectPolicy":"Min","Policies":[{"Type":"Percent","Value":5,"PeriodSeconds":30}],"Tolerance":"50m"}}`,
		prefix + "conditions": `[{"type":"AbleToScale","status":"True","lastTransitionTime":"2001-09-09T01:46:40Z","reason":"R","message":"m","observedGeneration":2}]`,
		prefix + "current-metrics": `[{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},"metricName":"hits","currentValue":"1","selector":` + selector + `,"averageValue":"2"}},` +
			`{"type":"External","external":{"metricName":"queue","metricSelector":` + selector + `,"currentValue":"3","currentAverageValue":"4"}},` +
			`{"type":"Pods","pods":{"metricName":"qps","currentAverageValue":"5","selector":` + selector + `}},` +
			`{"type":"ContainerResource","containerResource":{"name":"memory","currentAverageUtilization":6,"currentAverageValue":"6","container":"app"}},` +
			`{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":8,"currentAverageValue":"7"}}]`,
	}
	if diff := cmp.Diff(want, got.Annotations); diff != "" {
		t.Error(diff)
	}
	back := fromV1(t, k, got)
	delete(a.Annotations, prefix+"metrics")
	if !equality.Semantic.DeepEqual(back, a) {
		t.Errorf("after a round trip:\n%s", cmp.Diff(a, back))
	}
}

// TestV1Plain: without other fields, v1 has no annotations.
func TestV1Plain(t *testing.T) {
	k := kind(t)
	a := &hpa{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []metric{cpu(utilization(5)), cpu(utilization(6))}}}
	a.Annotations = map[string]string{prefix + "conditions": "stale"}
	a.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{Type: "Resource"}} // of a metric that has failed
	if got := toV1(t, k, a); got.Annotations[prefix+"current-metrics"] != `[{"type":"Resource"}]` || len(got.Annotations) != 1 {
		t.Errorf("annotations %v", got.Annotations)
	}
	a.Status.CurrentMetrics = nil
	got := toV1(t, k, a)
	if len(got.Annotations) != 0 || *got.Spec.TargetCPUUtilizationPercentage != 5 || got.Status.CurrentCPUUtilizationPercentage != nil {
		t.Errorf("%+v", got)
	}
	other := autoscalingv2.ResourceMetricStatus{Name: "cpu", Current: autoscalingv2.MetricValueStatus{AverageUtilization: new(int32(7))}}
	a.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{Type: "Pods", Resource: &other}}
	if got := toV1(t, k, a); got.Status.CurrentCPUUtilizationPercentage != nil {
		t.Errorf("utilization %d of another metric", *got.Status.CurrentCPUUtilizationPercentage)
	}
	a.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{Type: "Resource", Resource: &autoscalingv2.ResourceMetricStatus{Name: "cpu"}}}
	a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{}}
	got = toV1(t, k, a)
	if got.Status.CurrentCPUUtilizationPercentage != nil {
		t.Errorf("utilization %d of none", *got.Status.CurrentCPUUtilizationPercentage)
	}
	if s := got.Annotations[prefix+"behavior"]; s != `{"ScaleUp":{"StabilizationWindowSeconds":null,"SelectPolicy":null,"Policies":null,"Tolerance":null},"ScaleDown":null}` {
		t.Errorf("behavior %s", s)
	}
	if back := fromV1(t, k, got); back.Spec.Behavior.ScaleUp == nil || back.Spec.Behavior.ScaleUp.Policies != nil || back.Spec.Behavior.ScaleDown != nil {
		t.Errorf("behavior %+v", back.Spec.Behavior)
	}
}

// TestFromV1: annotations that cannot be read are ignored, and removed with the others.
func TestFromV1(t *testing.T) {
	k := kind(t)
	for name, tt := range map[string]struct {
		annotations    map[string]string
		target, status *int32
		want           []metric
		wantStatus     int
	}{
		"default":         {nil, nil, nil, []metric{cpu(utilization(80))}, 0},
		"field":           {nil, new(int32(7)), new(int32(3)), []metric{cpu(utilization(7))}, 1},
		"others first":    {map[string]string{prefix + "metrics": `[{"type":"Resource","resource":{"name":"cpu","targetAverageValue":"1"}}]`}, new(int32(7)), nil, []metric{cpu(average("1")), cpu(utilization(7))}, 0},
		"only others":     {map[string]string{prefix + "metrics": `[{"type":"Resource","resource":{"name":"cpu","targetAverageValue":"1"}}]`}, nil, nil, []metric{cpu(average("1"))}, 0},
		"none of others":  {map[string]string{prefix + "metrics": `[]`}, nil, nil, []metric{cpu(utilization(80))}, 0},
		"not JSON":        {map[string]string{prefix + "metrics": `[{"type":"Pods"},1]`, prefix + "current-metrics": "[1]", prefix + "behavior": "1", prefix + "conditions": "{}"}, new(int32(7)), new(int32(3)), []metric{cpu(utilization(7))}, 1},
		"empty":           {map[string]string{prefix + "behavior": "{}", prefix + "current-metrics": "[]"}, new(int32(7)), new(int32(3)), []metric{cpu(utilization(7))}, 0},
		"status in words": {map[string]string{prefix + "current-metrics": `[{"type":"Pods"},{"type":"External"}]`}, new(int32(7)), new(int32(3)), []metric{cpu(utilization(7))}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			in := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: tt.annotations}}
			in.Spec.TargetCPUUtilizationPercentage, in.Status.CurrentCPUUtilizationPercentage = tt.target, tt.status
			was := in.DeepCopy()
			got := fromV1(t, k, in)
			if diff := cmp.Diff(tt.want, got.Spec.Metrics); diff != "" {
				t.Error(diff)
			}
			if len(got.Annotations) > 0 || got.Spec.Behavior != nil || len(got.Status.Conditions) > 0 || len(got.Status.CurrentMetrics) != tt.wantStatus {
				t.Errorf("%+v", got)
			}
			if !reflect.DeepEqual(in, was) {
				t.Errorf("the argument became %+v", in)
			}
		})
	}
}

func TestCells(t *testing.T) {
	k := kind(t)
	now := time.Now()
	made := metav1.NewTime(now.Add(-3 * time.Hour))
	stati := func(current autoscalingv2.MetricValueStatus) []autoscalingv2.MetricStatus {
		return []autoscalingv2.MetricStatus{{
			Object:            &autoscalingv2.ObjectMetricStatus{Current: current},
			External:          &autoscalingv2.ExternalMetricStatus{Current: current},
			Pods:              &autoscalingv2.PodsMetricStatus{Current: current},
			Resource:          &autoscalingv2.ResourceMetricStatus{Current: current},
			ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{Current: current},
		}}
	}
	now3 := stati(autoscalingv2.MetricValueStatus{Value: quantity("1"), AverageValue: quantity("2"), AverageUtilization: new(int32(3))})
	nothing := stati(autoscalingv2.MetricValueStatus{})
	auto := cpu(target{})
	for name, tt := range map[string]struct {
		metrics []metric
		status  []autoscalingv2.MetricStatus
		want    string
	}{
		"none":                       {nil, nil, "<none>"},
		"unknown type":               {[]metric{{Type: "x"}}, nil, "<unknown type>"},
		"no source":                  {[]metric{{Type: "Pods"}}, nil, "<unknown type>"},
		"another source":             {[]metric{{Type: "Guess", Pods: pods(average("5")).Pods}, {Type: "Object"}}, nil, "<unknown type>, <unknown type>"},
		"no container":               {[]metric{{Type: "ContainerResource"}, {Type: "External"}}, nil, "<unknown type>, <unknown type>"},
		"external":                   {[]metric{external(value("5"))}, now3, "1/5"},
		"external, unknown":          {[]metric{external(value("5"))}, nil, "<unknown>/5"},
		"external, nothing":          {[]metric{external(value("5"))}, nothing, "<nil>/5"},
		"external average":           {[]metric{external(average("5"))}, now3, "2/5 (avg)"},
		"external average, unknown":  {[]metric{external(average("5"))}, nil, "<unknown>/5 (avg)"},
		"external average, nothing":  {[]metric{external(average("5"))}, nothing, "<unknown>/5 (avg)"},
		"object":                     {[]metric{object(value("5"))}, now3, "1/5"},
		"object average":             {[]metric{object(average("5"))}, now3, "2/5 (avg)"},
		"pods":                       {[]metric{pods(average("5"))}, now3, "2/5"},
		"pods, unknown":              {[]metric{pods(average("5"))}, nil, "<unknown>/5"},
		"utilization":                {[]metric{cpu(utilization(5))}, now3, "cpu: 3%/5%"},
		"utilization, unknown":       {[]metric{cpu(utilization(5))}, nil, "cpu: <unknown>/5%"},
		"utilization, nothing":       {[]metric{cpu(utilization(5))}, nothing, "cpu: <unknown>/5%"},
		"resource average":           {[]metric{cpu(average("5"))}, now3, "cpu: 2/5"},
		"resource average, unknown":  {[]metric{cpu(average("5"))}, nil, "cpu: <unknown>/5"},
		"no target":                  {[]metric{auto}, now3, "cpu: 3%/<auto>"},
		"container":                  {[]metric{container(utilization(5))}, now3, "memory: 3%/5%"},
		"two":                        {[]metric{cpu(utilization(5)), cpu(utilization(6))}, now3, "cpu: 3%/5%, cpu: <unknown>/6%"},
		"four":                       {[]metric{cpu(utilization(5)), auto, auto, auto}, now3, "cpu: 3%/5%, cpu: <unknown>/<auto> + 2 more..."},
		"object, unknown":            {[]metric{object(value("5"))}, nil, "<unknown>/5"},
		"container average, unknown": {[]metric{container(average("5"))}, nil, "memory: <unknown>/5"},
	} {
		a := autoscaler()
		a.CreationTimestamp, a.Spec.Metrics, a.Status.CurrentMetrics, a.Status.CurrentReplicas = made, tt.metrics, tt.status, 4
		want := []any{"web", "Deployment/web", tt.want, "2", int64(10), int64(4), "3h"}
		if got := k.Columns.Cells(a, now); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		a.Spec.MinReplicas = nil
		if got := k.Columns.Cells(a, now)[3]; got != "<unset>" {
			t.Errorf("%s: minimum %v", name, got)
		}
	}
}

func TestNames(t *testing.T) {
	k := kind(t)
	if !k.Namespaced || k.Rules.CreateOnUpdate || k.Rules.ConditionalUpdate || k.Rules.AnyFinalizer || k.Sub.Scale != nil {
		t.Errorf("%+v", k)
	}
	list, ok := k.Also[0].NewList().(*autoscalingv1.HorizontalPodAutoscalerList)
	if !ok || list == nil {
		t.Errorf("v1 has lists of type %T", k.Also[0].NewList())
	}
}

func ExampleKinds() {
	for _, k := range autoscaling.Kinds() {
		for _, served := range k.Served() {
			fmt.Println(served.GroupVersion, served.Plural, served.Short)
		}
		v1 := &autoscalingv1.HorizontalPodAutoscaler{Spec: autoscalingv1.HorizontalPodAutoscalerSpec{MaxReplicas: 3, TargetCPUUtilizationPercentage: new(int32(50))}}
		stored, _ := k.Also[0].ToStored(context.Background(), v1)
		metrics, _ := json.Marshal(stored.(*autoscalingv2.HorizontalPodAutoscaler).Spec.Metrics)
		fmt.Println(string(metrics))
	}
	// Output:
	// autoscaling/v2 horizontalpodautoscalers [hpa]
	// autoscaling/v1 horizontalpodautoscalers [hpa]
	// [{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]
}
