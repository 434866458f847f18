package horizontalpodautoscaler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/horizontalpodautoscaler"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

type (
	hpa    = autoscalingv2.HorizontalPodAutoscaler
	metric = autoscalingv2.MetricSpec
	target = autoscalingv2.MetricTarget
	sample = horizontalpodautoscaler.Sample
)

var (
	autoscalers = autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// scripted is what metrics say. Samples without a time are of now.
type scripted struct {
	mu       sync.Mutex
	samples  map[string]sample
	value    int64   // of an object
	series   []int64 // of an external metric
	err      error
	failing  string // the only metric that err is about, if any
	selector string // of the last question
}

func (s *scripted) set(change func(s *scripted)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// failure is the error of asking for a metric; the caller holds the lock.
func (s *scripted) failure(name string) error {
	if s.failing != "" && s.failing != name {
		return nil
	}
	return s.err
}

func (s *scripted) all(name string) (map[string]sample, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := maps.Clone(s.samples)
	for pod, v := range out {
		if v.At.IsZero() {
			v.At = time.Now()
			out[pod] = v
		}
	}
	return out, s.failure(name)
}

func (s *scripted) Resource(_ context.Context, _ string, pods labels.Selector, r horizontalpodautoscaler.Resource) (map[string]sample, error) {
	s.set(func(s *scripted) { s.selector = pods.String() })
	return s.all(string(r.Name))
}

func (s *scripted) Pods(_ context.Context, _ string, pods labels.Selector, m horizontalpodautoscaler.Metric) (map[string]sample, error) {
	s.set(func(s *scripted) { s.selector = pods.String() + " " + m.Selector.String() })
	return s.all(m.Name)
}

func (s *scripted) Object(_ context.Context, _ string, _ autoscalingv2.CrossVersionObjectReference, m horizontalpodautoscaler.Metric) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.selector = m.Selector.String()
	return s.value, s.failure(m.Name)
}

func (s *scripted) External(_ context.Context, _ string, m horizontalpodautoscaler.Metric) ([]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.selector = m.Selector.String()
	return slices.Clone(s.series), s.failure(m.Name)
}

// bench is a controller and its API, in a bubble.
type bench struct {
	*testing.T
	api     *controllerstest.API
	events  controllerstest.Recorder
	metrics scripted
	source  *lag.Source[*hpa]
	options horizontalpodautoscaler.Options
	// before, when set, sees the controller's requests before they are carried out.
	before func(faults.Request) error
	// scale, when set, changes the scales that the controller reads.
	scale func(*autoscalingv1.Scale)
	// old, when set, changes autoscalers on their way to the controller into what validation does not let in today.
	old func(*hpa)
}

// Get reads for the controller.
func (b *bench) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	obj, err := b.api.Get(ctx, t)
	if scale, ok := obj.(*autoscalingv1.Scale); ok && b.scale != nil {
		scale = scale.DeepCopy()
		b.scale(scale)
		return scale, err
	}
	return obj, err
}

// Update writes for the controller.
func (b *bench) Update(ctx context.Context, t client.Target, obj runtime.Object, o metav1.UpdateOptions) (runtime.Object, error) {
	return b.api.Update(ctx, t, obj, o)
}

// run runs test against a controller; prepare makes what is there before it starts.
func run(t *testing.T, b *bench, prepare, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b.T = t
		b.api = controllerstest.Start(t, controllerstest.Options{Before: func(r faults.Request) error {
			if b.before == nil {
				return nil
			}
			return b.before(r)
		}})
		b.source = controllerstest.Source[*hpa](b.api, autoscalers)
		var seen informer.Source[*hpa] = b.source
		if b.old != nil {
			seen = informer.Transform(seen, func(a *hpa) (*hpa, error) {
				a = a.DeepCopy()
				b.old(a)
				return a, nil
			}, nil)
		}
		strict := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := horizontalpodautoscaler.Sources{
			Autoscalers: informer.New(seen, strict),
			Pods:        informer.New(controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods()), strict),
		}
		b.options.Served = func(_ context.Context, kind schema.GroupKind) []schema.GroupVersionResource {
			switch kind {
			case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
				return []schema.GroupVersionResource{deployments}
			case schema.GroupKind{Group: "example.com", Kind: "Twice"}:
				return []schema.GroupVersionResource{{Group: "example.com", Version: "v1", Resource: "twices"}, deployments}
			}
			return nil
		}
		time.Sleep(time.Hour) // so that pods can have started before
		prepare(b)
		c := horizontalpodautoscaler.New(in, b, &b.metrics, &b.events, b.options)
		controllerstest.Go(t, in.Autoscalers, in.Pods, controllers.NewLoop(c, controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

// after lets virtual time pass.
func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// deployment has a number of replicas, which all exist.
func (b *bench) deployment(name string, replicas int32) {
	b.Helper()
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas}, Status: appsv1.DeploymentStatus{Replicas: replicas},
	}
	controllerstest.Add(b, b.api, d)
}

// pods adds ready pods of an app, which started half an hour ago, are called app-0 and so on, and request a core and
// 100 MiB.
func (b *bench) pods(app string, n int, change ...func(*corev1.Pod)) {
	b.Helper()
	for i := range n {
		p := pod(fmt.Sprintf("%s-%d", app, i), change...)
		p.Labels = map[string]string{"app": app}
		controllerstest.Add(b, b.api, p)
	}
}

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	since := metav1.NewTime(time.Now().Add(-30 * time.Minute))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "i", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("100Mi")},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &since, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since},
		}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// autoscaler adds an autoscaler of the Deployment of its name, with 1 to 100 replicas that may change by 1000 at once.
func (b *bench) autoscaler(name string, change ...func(*hpa)) {
	b.Helper()
	a := &hpa{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			MaxReplicas:    100, Metrics: []metric{cpu(utilization(50))}, Behavior: free(),
		},
	}
	for _, f := range change {
		f(a)
	}
	controllerstest.Add(b, b.api, a)
}

// free is a behavior that limits nothing.
func free() *autoscalingv2.HorizontalPodAutoscalerBehavior {
	rules := func() *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: new(int32(0)),
			Policies:                   []autoscalingv2.HPAScalingPolicy{{Type: "Pods", Value: 1000, PeriodSeconds: 1}},
		}
	}
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(), ScaleDown: rules()}
}

// change updates an autoscaler.
func (b *bench) change(name string, change func(*hpa)) {
	b.Helper()
	a := b.stored(name).DeepCopy()
	change(a)
	if _, err := b.api.Others.Update(b.Context(), client.Target{Resource: autoscalers, Namespace: "ns", Name: name}, a, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) stored(name string) *hpa {
	b.Helper()
	a, err := client.As[*hpa](b.api.Others.Get(b.Context(), client.Target{Resource: autoscalers, Namespace: "ns", Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// replicas are those that a Deployment shall have.
func (b *bench) replicas(name string) int32 {
	b.Helper()
	d, err := client.As[*appsv1.Deployment](b.api.Others.Get(b.Context(), client.Target{Resource: deployments, Namespace: "ns", Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	return *d.Spec.Replicas
}

// become sets how many replicas a Deployment has and shall have.
func (b *bench) become(name string, replicas int32) {
	b.Helper()
	at := client.Target{Resource: deployments, Namespace: "ns", Name: name}
	d, err := client.As[*appsv1.Deployment](b.api.Others.Get(b.Context(), at))
	if err != nil {
		b.Fatal(err)
	}
	d = d.DeepCopy()
	d.Spec.Replicas = &replicas
	if _, err := b.api.Others.Update(b.Context(), at, d, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// condition returns "status reason: message" of a condition.
func (b *bench) condition(name string, kind autoscalingv2.HorizontalPodAutoscalerConditionType) string {
	b.Helper()
	for _, c := range b.stored(name).Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

func (b *bench) wantReplicas(name string, want int32) {
	b.Helper()
	if got := b.replicas(name); got != want {
		b.Errorf("%d replicas of %s, want %d", got, name, want)
	}
}

func (b *bench) wantCondition(name string, kind autoscalingv2.HorizontalPodAutoscalerConditionType, want string) {
	b.Helper()
	if got := b.condition(name, kind); got != want {
		b.Errorf("condition %s of %s is\n%q, want\n%q", kind, name, got, want)
	}
}

// wantEvents compares the events since the last call.
func (b *bench) wantEvents(want ...string) {
	b.Helper()
	if got := b.events.Take(); !slices.Equal(got, want) {
		b.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

func utilization(percent int32) target {
	return target{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent}
}

func average(s string) target {
	return target{Type: autoscalingv2.AverageValueMetricType, AverageValue: quantity(s)}
}

func value(s string) target {
	return target{Type: autoscalingv2.ValueMetricType, Value: quantity(s)}
}

func cpu(t target) metric { return of("cpu", t) }

func of(name corev1.ResourceName, t target) metric {
	return metric{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: name, Target: t}}
}

func container(name string, t target) metric {
	return metric{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: "cpu", Container: name, Target: t}}
}

func podsMetric(t target) metric {
	return metric{Type: "Pods", Pods: &autoscalingv2.PodsMetricSource{Metric: identifier("qps"), Target: t}}
}

func object(t target) metric {
	return metric{Type: "Object", Object: &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "s"}, Metric: identifier("hits"), Target: t,
	}}
}

func external(t target) metric {
	return metric{Type: "External", External: &autoscalingv2.ExternalMetricSource{Metric: identifier("queue"), Target: t}}
}

func identifier(name string) autoscalingv2.MetricIdentifier {
	return autoscalingv2.MetricIdentifier{Name: name, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
}

func metrics(m ...metric) func(*hpa) { return func(a *hpa) { a.Spec.Metrics = m } }

// used are samples of pods web-0 and so on.
func used(values ...int64) map[string]sample {
	out := map[string]sample{}
	for i, v := range values {
		out[fmt.Sprintf("web-%d", i)] = sample{Value: v, Window: 30 * time.Second}
	}
	return out
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
