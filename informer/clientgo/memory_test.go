package clientgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/clientgo"
	"github.com/keelson-dev/keelson/informer/wire"
	"github.com/keelson-dev/keelson/internal/testserver"
	"github.com/keelson-dev/keelson/registry"
)

// cutDown reduces a pod to what a simple scheduler reads.
func cutDown(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Labels: p.Labels},
		Spec:       corev1.PodSpec{NodeName: p.Spec.NodeName},
		Status:     corev1.PodStatus{Phase: p.Status.Phase},
	}, nil
}

// stored measures client-go's store itself.
func stored(b *testing.B, source informer.Source[*corev1.Pod]) (stop func()) {
	items, _, err := source.List(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	x := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, p := range items {
		if err := x.Add(p); err != nil {
			b.Fatal(err)
		}
	}
	return func() { runtime.KeepAlive(x) }
}

// realPod is a typical pod.
func realPod(n int) *corev1.Pod {
	app := fmt.Sprint("shop-", n%100)
	yes, grace, seconds := true, int64(30), int64(300)
	now := metav1.NewTime(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http"), Scheme: "HTTP"}},
			PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
		}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: fmt.Sprint("team-", n%50), Name: fmt.Sprintf("%s-6c9f7d5b8c-%05d", app, n),
		GenerateName: app + "-6c9f7d5b8c-", UID: types.UID(fmt.Sprintf("0c9812a5-256f-4133-9e6a-%012d", n)), CreationTimestamp: now,
		Labels:      map[string]string{"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app + "-prod", "pod-template-hash": "6c9f7d5b8c"},
		Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": fmt.Sprintf("%064d", n)},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-6c9f7d5b8c", UID: "da8cf8df-3c44-424f-bbd1-05d13770520c",
			Controller: &yes, BlockOwnerDeletion: &yes,
		}},
	}}
	p.Spec = corev1.PodSpec{
		NodeName: fmt.Sprint("node-", n/30), ServiceAccountName: "default", DeprecatedServiceAccount: "default", RestartPolicy: "Always",
		DNSPolicy: "ClusterFirst", SchedulerName: "default-scheduler", TerminationGracePeriodSeconds: &grace,
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes}, EnableServiceLinks: &yes,
		Containers: []corev1.Container{{
			Name: "app", Image: "registry.example.com/shop/app:v1.2.3", ImagePullPolicy: "IfNotPresent",
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
			Env:   []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}, {Name: "DB_HOST", Value: "db.prod.svc.cluster.local"}, {Name: "APP", Value: app}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")},
			},
			VolumeMounts:  []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app", ReadOnly: true}},
			LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/readyz"),
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
		}},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}}}}},
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds},
			{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds},
		},
	}
	p.Status = corev1.PodStatus{
		Phase: "Running", PodIP: fmt.Sprintf("10.1.%d.%d", n/250, n%250), HostIP: "10.0.0.1", StartTime: &now, QOSClass: "Burstable",
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Ready: true, Image: "registry.example.com/shop/app:v1.2.3", ContainerID: fmt.Sprintf("containerd://%064d", n),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}, Started: &yes,
		}},
	}
	for _, c := range []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: "True", LastTransitionTime: now})
	}
	return p
}

// kept is how much stays on the heap for each of n objects while the result is referenced.
func kept(b *testing.B, n int, build func() (stop func())) {
	b.Helper()
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		before := heap()
		stop := build()
		b.ReportMetric((heap()-before)/float64(n), "B/pod")
		stop()
	}
}

// BenchmarkMemory reports how many bytes an informer keeps for each of 10,000 pods, beside those of the API server in
// the same process. Run it with -benchtime 1x.
func BenchmarkMemory(b *testing.B) {
	const count = 10_000
	config, reg := testserver.Start(b)
	size := 0
	for n := range count {
		p := realPod(n)
		if _, err := reg.Access().Create(b.Context(), corev1.Resource("pods"), p); err != nil {
			b.Fatal(err)
		}
		if n == 0 {
			data, err := json.Marshal(p)
			if err != nil {
				b.Fatal(err)
			}
			size = len(data)
		}
	}
	registered, err := registry.Source[*corev1.Pod](reg, corev1.Resource("pods"), registry.Selection{})
	if err != nil {
		b.Fatal(err)
	}
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	wired, err := wire.New[*corev1.Pod](config, scheme.Scheme, pods, wire.Options{})
	if err != nil {
		b.Fatal(err)
	}
	metadata, err := wire.NewMetadata(config, pods, wire.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if _, _, err := wired.List(b.Context()); err != nil { // the server encodes at the first read
		b.Fatal(err)
	}
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	for _, test := range []struct {
		name  string
		build func() (stop func())
	}{
		{"informer in process", func() func() { return keep(b, registered) }},
		{"informer over the wire", func() func() { return keep(b, wired) }},
		{"informer over the wire, metadata", func() func() { return keep(b, metadata) }},
		{"clientgo in process, shared", func() func() {
			return hold(b, clientgo.New(registered, clientgo.Options{Share: true, Indexers: byNamespace}), nil)
		}},
		{"clientgo in process, copies", func() func() {
			return hold(b, clientgo.New(registered, clientgo.Options{Indexers: byNamespace}), nil)
		}},
		{"clientgo over the wire", func() func() {
			return hold(b, clientgo.New(wired, clientgo.Options{Share: true, Indexers: byNamespace}), nil)
		}},
		{"clientgo over the wire, cut down", func() func() {
			return hold(b, clientgo.New(wired, clientgo.Options{Share: true, Indexers: byNamespace}), cutDown)
		}},
		{"client-go's store, shared objects", func() func() { return stored(b, registered) }},
		{"client-go, protobuf", func() func() { return theirs(b, config, "application/vnd.kubernetes.protobuf") }},
		{"client-go, JSON", func() func() { return theirs(b, config, "application/json") }},
	} {
		b.Run(test.name, func(b *testing.B) {
			kept(b, count, test.build)
			b.ReportMetric(float64(size), "B/JSON")
		})
	}
	runtime.KeepAlive(reg)
}

func keep[T informer.Object](b *testing.B, source informer.Source[T]) (stop func()) {
	i := informer.New(source, informer.Options{})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- i.Run(ctx) }()
	if err := i.WaitSynced(ctx); err != nil {
		b.Fatal(err)
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

func hold(b *testing.B, i cache.SharedIndexInformer, transform cache.TransformFunc) (stop func()) {
	if err := i.SetTransform(transform); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.RunWithContext(ctx)
	}()
	if !cache.WaitFor(ctx, "", i.HasSyncedChecker()) {
		b.Fatal("not in sync")
	}
	return func() { cancel(); <-done }
}

func theirs(b *testing.B, config *rest.Config, contentType string) (stop func()) {
	config = rest.CopyConfig(config)
	config.ContentType = contentType
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	lw := cache.NewListWatchFromClient(clients.CoreV1().RESTClient(), "pods", "", fields.Everything())
	return hold(b, cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, clients), &corev1.Pod{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}), nil)
}
