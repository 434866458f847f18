package autoscaling_test

import (
	"slices"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/autoscaling"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestKinds(t *testing.T) { registrytest.Kinds(t, autoscaling.Kinds()) }

func kind(t *testing.T) registry.Kind {
	return registrytest.Find(t, autoscaling.Kinds(), "horizontalpodautoscalers")
}

type change = registrytest.Change[*hpa]

// with replaces the metrics.
func with(m ...metric) func(*hpa) { return func(a *hpa) { a.Spec.Metrics = m } }

func TestSpec(t *testing.T) {
	to := func(f func(*autoscalingv2.HorizontalPodAutoscalerSpec)) func(*hpa) {
		return func(a *hpa) { f(&a.Spec) }
	}
	type spec = autoscalingv2.HorizontalPodAutoscalerSpec
	changes := []change{
		{Name: "as it is", To: func(*hpa) {}},
		{Name: "the least of everything", To: to(func(s *spec) {
			s.MaxReplicas, s.Behavior.ScaleUp.StabilizationWindowSeconds, s.Behavior.ScaleUp.Tolerance = 2, new(int32(0)), quantity("0")
		})},
		{Name: "no minimum", To: to(func(s *spec) { s.MinReplicas, s.MaxReplicas, s.Metrics = nil, 1, []metric{pods(average("1"))} })},
		{Name: "zero with an object first", To: to(func(s *spec) {
			s.MinReplicas, s.Metrics = new(int32(0)), []metric{object(average("1")), pods(average("1"))}
		})},
		{Name: "nothing at most", To: to(func(s *spec) {
			s.MinReplicas, s.MaxReplicas, s.Metrics = new(int32(0)), 0, []metric{object(value("1"))}
		}), Refused: []string{`spec.maxReplicas: Required value`}},
		{Name: "negative minimum", To: to(func(s *spec) { s.MinReplicas = new(int32(-1)) }), Refused: []string{
			`spec.minReplicas: Invalid value: -1: must be greater than or equal to 0`}},
		{Name: "no maximum", To: to(func(s *spec) { s.MaxReplicas = 0 }), Refused: []string{
			"spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
			`spec.maxReplicas: Required value`}},
		{Name: "negative maximum and other errors", To: to(func(s *spec) { s.MinReplicas, s.MaxReplicas, s.ScaleTargetRef.Name = new(int32(-7)), -2, "" }), Refused: []string{
			`spec.scaleTargetRef.name: Required value`,
			`spec.minReplicas: Invalid value: -7: must be greater than or equal to 0`,
			`spec.maxReplicas: Invalid value: -2: must be greater than or equal to 1`}},
		{Name: "zero with an object", To: to(func(s *spec) { s.MinReplicas, s.Metrics = new(int32(0)), []metric{object(value("1"))} })},
		{Name: "zero with an external metric", To: to(func(s *spec) {
			s.MinReplicas, s.Metrics = new(int32(0)), []metric{cpu(utilization(1)), external(value("1"))}
		})},
		{Name: "zero without", To: to(func(s *spec) {
			s.MinReplicas, s.Metrics = new(int32(0)), []metric{cpu(utilization(1)), pods(average("1"))}
		}), Refused: []string{
			`spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas`}},
		{Name: "slashes", To: to(func(s *spec) {
			s.ScaleTargetRef.Kind, s.ScaleTargetRef.Name, s.ScaleTargetRef.APIVersion = "a/b", "..", "a/b/c"
		}), Refused: []string{
			`spec.scaleTargetRef.kind: Invalid value: "a/b": may not contain '/'`,
			`spec.scaleTargetRef.name: Invalid value: "..": may not be '..'`,
			`spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`}},
		{Name: "no kind", To: to(func(s *spec) { s.ScaleTargetRef.Kind = "" }), Refused: []string{`spec.scaleTargetRef.kind: Required value`}},
		{Name: "core group", To: to(func(s *spec) { s.ScaleTargetRef.APIVersion = "v1" }), Refused: []string{
			`spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group`}},
		{Name: "replication controller", To: to(func(s *spec) { s.ScaleTargetRef.APIVersion, s.ScaleTargetRef.Kind = "v1", "ReplicationController" })},
		{Name: "no behavior", To: to(func(s *spec) { s.Behavior = nil })},
		{Name: "window below", To: to(func(s *spec) { s.Behavior.ScaleUp.StabilizationWindowSeconds = new(int32(-1)) }), Refused: []string{
			`spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero`}},
		{Name: "window above", To: to(func(s *spec) { s.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(3601)) }), Refused: []string{
			`spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600`}},
		{Name: "longest window", To: to(func(s *spec) { s.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(3600)) })},
		{Name: "policy choice", To: to(func(s *spec) { s.Behavior.ScaleDown.SelectPolicy = new(autoscalingv2.ScalingPolicySelect("x")) }), Refused: []string{
			`spec.behavior.scaleDown.selectPolicy: Unsupported value: "x": supported values: "Disabled", "Max", "Min"`}},
		{Name: "no policies", To: to(func(s *spec) { s.Behavior.ScaleDown.Policies = []autoscalingv2.HPAScalingPolicy{} }), Refused: []string{
			`spec.behavior.scaleDown.policies: Required value: must specify at least one Policy`}},
		{Name: "empty policy", To: to(func(s *spec) { s.Behavior.ScaleDown.Policies[0] = autoscalingv2.HPAScalingPolicy{} }), Refused: []string{
			`spec.behavior.scaleDown.policies[0].type: Unsupported value: "": supported values: "Percent", "Pods"`,
			`spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero`,
			`spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 0: must be greater than zero`}},
		{Name: "long period", To: to(func(s *spec) { s.Behavior.ScaleUp.Policies[0].PeriodSeconds = 1801 }), Refused: []string{
			`spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800`}},
		{Name: "tolerance", To: to(func(s *spec) { s.Behavior.ScaleUp.Tolerance = quantity("-1m") }), Refused: []string{
			`spec.behavior.scaleUp.tolerance: Invalid value: "-1m": must be greater than or equal to 0`}},
	}
	registrytest.Create(t, kind(t), autoscaler(), changes)
	registrytest.Update(t, kind(t), "", autoscaler(), changes)
}

func TestMetrics(t *testing.T) {
	const types = `"ContainerResource", "External", "Object", "Pods", "Resource"`
	both := utilization(5)
	both.AverageValue = quantity("1")
	twice := value("1")
	twice.AverageValue = quantity("1")
	named := func(m metric, change func(*metric)) metric {
		change(&m)
		return m
	}
	changes := []change{
		{Name: "no type", To: with(metric{}), Refused: []string{
			`spec.metrics[0].type: Required value: must specify a metric source type`,
			`spec.metrics[0].type: Unsupported value: "": supported values: ` + types}},
		{Name: "unknown type", To: with(named(cpu(utilization(1)), func(m *metric) { m.Type = "Guess" })), Refused: []string{
			`spec.metrics[0].type: Unsupported value: "Guess": supported values: ` + types}},
		{Name: "another source", To: with(cpu(utilization(1)), named(cpu(utilization(1)), func(m *metric) { m.Type = "Pods" })), Refused: []string{
			`spec.metrics[1].pods: Required value: must populate information for the given metric source`}},
		{Name: "two sources", To: with(named(cpu(utilization(0)), func(m *metric) { m.Pods = pods(average("0")).Pods })), Refused: []string{
			`spec.metrics[0].pods.target.averageValue: Invalid value: "0": must be positive`,
			`spec.metrics[0].pods: Forbidden: must populate the given metric source only`}},
		{Name: "nothing in an object", To: with(metric{Type: "Object", Object: &autoscalingv2.ObjectMetricSource{}}), Refused: []string{
			`spec.metrics[0].object.describedObject.kind: Required value`,
			`spec.metrics[0].object.describedObject.name: Required value`,
			`spec.metrics[0].object.metric.name: Required value: must specify a metric name`,
			`spec.metrics[0].object.target.type: Required value: must specify a metric target type`,
			`spec.metrics[0].object.target.type: Invalid value: "": must be either Utilization, Value, or AverageValue`,
			`spec.metrics[0].object.target.averageValue: Required value: must set either a target value or averageValue`}},
		{Name: "object of the core group", To: with(named(object(twice), func(m *metric) { m.Object.DescribedObject.APIVersion = "" }))},
		{Name: "object of a bad version", To: with(named(object(value("0")), func(m *metric) { m.Object.DescribedObject.APIVersion = "a/b/c" })), Refused: []string{
			`spec.metrics[0].object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`,
			`spec.metrics[0].object.target.value: Invalid value: "0": must be positive`}},
		{Name: "external without target", To: with(external(target{Type: "Value"})), Refused: []string{
			`spec.metrics[0].external.target.averageValue: Required value: must set either a target value for metric or a per-pod target`}},
		{Name: "external with two", To: with(named(external(twice), func(m *metric) { m.External.Metric.Name = "a/b" })), Refused: []string{
			`spec.metrics[0].external.metric.name: Invalid value: "a/b": may not contain '/'`,
			`spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a per-pod target`}},
		{Name: "pods without target", To: with(pods(utilization(0))), Refused: []string{
			`spec.metrics[0].pods.target.averageUtilization: Invalid value: 0: must be greater than 0`,
			`spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue`}},
		{Name: "resource without name and target", To: with(metric{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Target: target{Type: "Value"}}}), Refused: []string{
			`spec.metrics[0].resource.name: Required value: must specify a resource name`,
			`spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization`}},
		{Name: "resource with two", To: with(cpu(both)), Refused: []string{
			`spec.metrics[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization`}},
		{Name: "container without names", To: with(named(container(both), func(m *metric) {
			m.ContainerResource.Name, m.ContainerResource.Container = "", ""
		})), Refused: []string{
			`spec.metrics[0].containerResource.name: Required value: must specify a resource name`,
			`spec.metrics[0].containerResource.container: Required value: must specify a container`,
			`spec.metrics[0].containerResource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization`}},
		{Name: "container with odd names", To: with(named(container(average("1")), func(m *metric) {
			m.ContainerResource.Name, m.ContainerResource.Container = "pods", "A"
		})), Refused: []string{
			`spec.metrics[0].containerResource.name: Invalid value: "pods": must be a standard resource for containers`,
			`spec.metrics[0].containerResource.container: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`}},
	}
	registrytest.Create(t, kind(t), autoscaler(), changes)
	registrytest.Update(t, kind(t), "", autoscaler(), changes)
}

func TestStatus(t *testing.T) {
	registrytest.Update(t, kind(t), "status", autoscaler(), []change{
		{Name: "the spec stays", To: func(a *hpa) { a.Spec.MaxReplicas = -1 }},
		{Name: "negative", To: func(a *hpa) {
			a.Status.CurrentReplicas, a.Status.DesiredReplicas = -1, -2
			a.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{}, {ObservedGeneration: new(int64(-3))}}
		}, Refused: []string{
			`status.conditions[1].observedGeneration: Invalid value: -3: must be greater than or equal to 0`,
			`status.currentReplicas: Invalid value: -1: must be greater than or equal to 0`,
			`status.desiredReplicas: Invalid value: -2: must be greater than or equal to 0`}},
	})
}

// TestOldValuesStay: an update may keep references that older rules accepted, and is told of limits in upstream's older words
// if it does not change the value.
func TestOldValuesStay(t *testing.T) {
	old := autoscaler()
	old.Spec.ScaleTargetRef.APIVersion = ""
	old.Spec.Metrics[0].Object.DescribedObject.APIVersion = "a/b/c"
	registrytest.Update(t, kind(t), "", old, []change{
		{Name: "unchanged", To: func(*hpa) {}},
		{Name: "another kind", To: func(a *hpa) { a.Spec.ScaleTargetRef.Kind = "ReplicaSet" }, Refused: []string{
			`spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group`}},
		{Name: "another bad version", To: func(a *hpa) { a.Spec.Metrics[0].Object.DescribedObject.APIVersion = "d/e/f" }},
	})
	k, limits := kind(t), autoscaler()
	limits.Spec.MinReplicas, limits.Spec.MaxReplicas = new(int32(-5)), 0
	next := limits.DeepCopy()
	next.Spec.ScaleTargetRef.Name = ""
	refused(t, registrytest.Replace(k, "", next, limits),
		`spec.minReplicas: Invalid value: -5: must be greater than or equal to 0`,
		`spec.maxReplicas: Required value: must be set and greater than 0`,
		`spec.scaleTargetRef.name: Required value`)
	limits.Spec.MaxReplicas, next.Spec.MaxReplicas, next.Spec.MinReplicas = -4, -4, new(int32(1))
	refused(t, registrytest.Replace(k, "", next, limits),
		`spec.maxReplicas: Invalid value: -4: must be greater than or equal to 1`,
		"spec.maxReplicas: Invalid value: -4: must be greater than or equal to `minReplicas`",
		`spec.scaleTargetRef.name: Required value`)
}

func refused(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("refused with\n%q, want\n%q", got, want)
	}
}

// TestUnknownTypes: the list of errors names an unknown type twice, as upstream's.
func TestUnknownTypes(t *testing.T) {
	a, old := autoscaler(), autoscaler()
	old.Spec.Metrics = []metric{{Type: "Object"}, {Type: "Guess", Object: object(value("1")).Object}}
	if errs := registrytest.Replace(kind(t), "", a, old); len(errs) > 0 {
		t.Errorf("instead of an unknown one: %v", errs)
	}
	a.Spec.Metrics = []metric{{Type: "Guess"}}
	const message = `spec.metrics[0].type: Unsupported value: "Guess": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"`
	refused(t, kind(t).Rules.Validate(a), message, message)
}

func TestPrepare(t *testing.T) {
	k := kind(t)
	a := autoscaler()
	a.Status.CurrentReplicas = 5
	registrytest.Prepare(k, a)
	if a.Generation != 1 || a.Status.CurrentReplicas != 0 {
		t.Errorf("created as %+v", a)
	}
	old := autoscaler()
	a = old.DeepCopy()
	a.Status.CurrentReplicas = 5
	registrytest.Replace(k, "", a, old)
	if a.Generation != 3 || a.Status.CurrentReplicas != 0 {
		t.Errorf("updated to %+v", a)
	}
	a.Spec.MaxReplicas++
	registrytest.Replace(k, "", a, old)
	if a.Generation != 4 {
		t.Errorf("generation %d after a change of the spec", a.Generation)
	}
	a = old.DeepCopy()
	a.Spec.MaxReplicas, a.Status.CurrentReplicas = 99, 5
	registrytest.Replace(k, "status", a, old)
	if a.Spec.MaxReplicas != 10 || a.Status.CurrentReplicas != 5 || a.Generation != 3 {
		t.Errorf("the view of the status wrote %+v", a)
	}
}
