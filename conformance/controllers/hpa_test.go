package controllers_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"
)

// TestHorizontalPodAutoscaler: autoscalers over pods that come, go, start and change how much they use, and over external
// metrics. There are no custom metrics: what depends on them fails.
func TestHorizontalPodAutoscaler(t *testing.T) {
	c := &contest{
		names:  []string{"horizontal-pod-autoscaler-controller"},
		theirs: upstreamAutoscaler,
		step:   autoscalerStep,
		serve:  serveMetrics,
		written: append(resources(autoscalingv2.SchemeGroupVersion, "horizontalpodautoscalers"),
			resources(appsv1.SchemeGroupVersion, "deployments")...),
		pauses: []int{20, 35, 50, 80, 200, 400},
	}
	c.run(t)
}

func upstreamAutoscaler(ctx context.Context, u *theirs) (func(context.Context), error) {
	const account = "horizontal-pod-autoscaler"
	client, config := u.client(account), u.config(account)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	scales, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(client.Discovery()))
	if err != nil {
		return nil, err
	}
	resources, err := resourceclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	external, err := external_metrics.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	custom := custom_metrics.NewForConfig(config, mapper, custom_metrics.NewAvailableAPIsGetter(client.Discovery()))
	c := podautoscaler.NewHorizontalController(ctx, client.CoreV1(), scales, client.AutoscalingV2(), mapper,
		metrics.NewRESTMetricsClient(resources, custom, external), u.shared.Autoscaling().V2().HorizontalPodAutoscalers(), u.shared.Core().V1().Pods(),
		15*time.Second, 5*time.Minute, 0.1, 5*time.Minute, 30*time.Second)
	return func(ctx context.Context) { c.Run(ctx, 5) }, nil
}

// usage is what pods use and what external metrics say.
type usage struct{ milli int64 }

// serveMetrics answers for the servers of metrics.
func serveMetrics(w *world, r *http.Request) (*http.Response, bool) {
	var list any
	switch {
	case strings.HasPrefix(r.URL.Path, "/apis/metrics.k8s.io/v1beta1/namespaces/"):
		selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
		if err != nil {
			return nil, false
		}
		list = w.podMetrics(selector)
	case strings.HasPrefix(r.URL.Path, "/apis/external.metrics.k8s.io/v1beta1/namespaces/"):
		all := &externalv1beta1.ExternalMetricValueList{TypeMeta: metav1.TypeMeta{APIVersion: "external.metrics.k8s.io/v1beta1", Kind: "ExternalMetricValueList"}}
		if queue, ok := w.data.Load("queue"); ok {
			all.Items = append(all.Items, externalv1beta1.ExternalMetricValue{
				MetricName: "queue", Timestamp: metav1.Now(), Value: *resource.NewMilliQuantity(queue.(usage).milli, resource.DecimalSI),
			})
		}
		list = all
	default:
		return nil, false
	}
	response, err := answer(r, http.StatusOK, list)
	return response, err == nil
}

func (w *world) podMetrics(selector labels.Selector) any {
	all := &metricsv1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetricsList"}}
	w.data.Range(func(key, value any) bool {
		name := key.(string)
		app, _, ok := strings.Cut(name, "-")
		if !ok || !selector.Matches(labels.Set{"set": app}) {
			return true
		}
		cpu := *resource.NewMilliQuantity(value.(usage).milli, resource.DecimalSI)
		all.Items = append(all.Items, metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"set": app}},
			Timestamp:  metav1.Now(), Window: metav1.Duration{Duration: time.Minute},
			Containers: []metricsv1beta1.ContainerMetrics{
				{Name: "c", Usage: corev1.ResourceList{"cpu": cpu, "memory": *resource.NewQuantity(value.(usage).milli<<20, resource.BinarySI)}},
				{Name: "side", Usage: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(value.(usage).milli/2, resource.DecimalSI), "memory": resource.MustParse("10Mi")}},
			},
		})
		return true
	})
	return all
}

func autoscalerStep(w *world) {
	all := w.api.AutoscalingV2().HorizontalPodAutoscalers(namespace)
	list, err := all.List(w.Context(), metav1.ListOptions{})
	w.must(err)
	app := pick(w, "web0", "web1")
	switch n := w.IntN(100); {
	case n < 10:
		h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: w.autoscalerSpec(app)}
		_, err := all.Create(w.Context(), h, metav1.CreateOptions{})
		w.do(fmt.Sprintf("create %s %s", app, text(h.Spec)), err)
	case n < 15 && len(list.Items) > 0:
		h := pick(w, list.Items...)
		h.Spec = w.autoscalerSpec(h.Name)
		_, err := all.Update(w.Context(), &h, metav1.UpdateOptions{})
		w.do(fmt.Sprintf("update %s %s", h.Name, text(h.Spec)), err)
	case n < 17:
		w.do("delete "+app, all.Delete(w.Context(), app, metav1.DeleteOptions{}))
	case n < 25:
		w.scaleByHand(app)
	case n < 50:
		w.replicate(app)
	case n < 55:
		if w.chance(3) {
			w.data.Delete("queue")
		} else {
			w.data.Store("queue", usage{int64(w.IntN(50_000))})
		}
		w.do("change the queue", nil)
	default:
		w.load(app)
	}
}

func (w *world) autoscalerSpec(app string) autoscalingv2.HorizontalPodAutoscalerSpec {
	spec := autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app},
		MinReplicas:    pick(w, nil, new(int32(1)), new(int32(3))), MaxReplicas: int32(3 + w.IntN(8)),
	}
	if w.chance(12) {
		spec.ScaleTargetRef.Kind = "Nothing"
	}
	target := func() autoscalingv2.MetricTarget {
		return pick(w, autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(20 + w.IntN(80)))},
			autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewMilliQuantity(int64(20+w.IntN(100)), resource.DecimalSI)})
	}
	for range w.IntN(3) {
		var m autoscalingv2.MetricSpec
		switch w.IntN(7) {
		case 0, 1:
			m = autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: target()}}
		case 2:
			m = autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: "memory", Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(int64(20+w.IntN(100))<<20, resource.BinarySI),
			}}}
		case 3:
			m = autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: "cpu", Container: pick(w, "c", "side", "none"), Target: target()}}
		case 4, 5:
			to := autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: resource.NewQuantity(int64(1+w.IntN(20)), resource.DecimalSI)}
			if w.chance(2) {
				to = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(int64(1+w.IntN(10)), resource.DecimalSI)}
			}
			m = autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "queue"}, Target: to}}
		default:
			m = autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "packets"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(5, resource.DecimalSI)},
			}}
		}
		spec.Metrics = append(spec.Metrics, m)
	}
	if w.chance(3) {
		spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: w.scaling(), ScaleDown: w.scaling()}
	}
	return spec
}

func (w *world) scaling() *autoscalingv2.HPAScalingRules {
	rules := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: pick(w, nil, new(int32(0)), new(int32(60)))}
	for range w.IntN(3) {
		rules.Policies = append(rules.Policies, autoscalingv2.HPAScalingPolicy{
			Type: pick(w, autoscalingv2.PodsScalingPolicy, autoscalingv2.PercentScalingPolicy), Value: int32(1 + w.IntN(120)), PeriodSeconds: int32(15 + w.IntN(100)),
		})
	}
	if w.chance(2) {
		rules.SelectPolicy = new(pick(w, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect))
	}
	return rules
}

// scaleByHand creates a deployment, or sets the number of its replicas.
func (w *world) scaleByHand(app string) {
	w.Helper()
	all, n := w.api.AppsV1().Deployments(namespace), int32(w.IntN(6))
	template := w.template(map[string]string{"set": app})
	_, err := all.Create(w.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: appsv1.DeploymentSpec{
		Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template,
	}}, metav1.CreateOptions{})
	if err != nil {
		_, err = all.UpdateScale(w.Context(), app, &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: n},
		}, metav1.UpdateOptions{})
	}
	w.do(fmt.Sprint("scale ", app, " to ", n), err)
	w.replicate(app) // upstream divides by the number of replicas in the status
}

// replicate makes pods and status of a deployment what its controller would make them.
func (w *world) replicate(app string) {
	w.Helper()
	d, err := w.api.AppsV1().Deployments(namespace).Get(w.Context(), app, metav1.GetOptions{})
	if err != nil {
		return
	}
	pods := w.pods(func(pod *corev1.Pod) bool { return pod.Labels["set"] == app })
	for i := len(pods); i < int(*d.Spec.Replicas); i++ {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: w.next(app + "-"), Labels: map[string]string{"set": app}}, Spec: d.Spec.Template.Spec}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "side", Image: "image:1"})
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("100Mi")}
		}
		_, err := w.api.CoreV1().Pods(namespace).Create(w.Context(), pod, metav1.CreateOptions{})
		w.do("create "+pod.Name, err)
		w.bind(pod)
		w.ready(pod, !w.chance(4))
		w.data.Store(pod.Name, usage{int64(w.IntN(200))})
	}
	for _, pod := range pods[min(len(pods), int(*d.Spec.Replicas)):] {
		w.gone(pod)
		w.data.Delete(pod.Name)
	}
	d.Status = appsv1.DeploymentStatus{Replicas: *d.Spec.Replicas, UpdatedReplicas: *d.Spec.Replicas}
	_, err = w.api.AppsV1().Deployments(namespace).UpdateStatus(w.Context(), d, metav1.UpdateOptions{})
	w.do(fmt.Sprint(app, " has ", *d.Spec.Replicas), err)
}

// load changes what pods use, or whether that is known, and whether they are ready.
func (w *world) load(app string) {
	w.Helper()
	use := int64(w.IntN(250))
	for _, pod := range w.pods(func(pod *corev1.Pod) bool { return pod.Labels["set"] == app }) {
		switch w.IntN(12) {
		case 0:
			w.data.Delete(pod.Name)
		case 1:
			w.ready(pod, phaseOf(pod) != ready)
		case 2:
			w.end(pod, exit{code: 1})
		default:
			w.data.Store(pod.Name, usage{use + int64(w.IntN(20))})
		}
	}
	w.do(fmt.Sprint("load of ", app, " about ", use), nil)
}
