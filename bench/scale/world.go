package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/wal"
)

// Requests have answers of the same size in each world, however many pods it has.
const (
	perNamespace = 100
	perNode      = 25
	perApp       = 50
)

// world is one API server with that many pods, on its own durable store.
type world struct {
	pods      int
	dir       string
	store     *wal.Store
	registry  *registry.Registry
	server    *apiserver.Server
	transport *apiserver.Transport
	cancel    context.CancelFunc
	done      chan error
}

// build creates the store of a world.
func build(ctx context.Context, dir string, pods int) (_ *world, err error) {
	w := &world{pods: pods, dir: filepath.Join(dir, strconv.Itoa(pods))}
	store, err := wal.Open(w.dir, wal.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for n := range pods / perNamespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceName(n), UID: types.UID(uid(1<<40, n))}}
		ns.Status.Phase = corev1.NamespaceActive
		if err := put(ctx, store, "Namespace", "namespaces/"+ns.Name, ns); err != nil {
			return nil, err
		}
	}
	var next atomic.Int64
	var writers sync.WaitGroup
	errs := make([]error, 64)
	for i := range errs {
		writers.Go(func() {
			for errs[i] == nil {
				n := int(next.Add(1) - 1)
				if n >= pods {
					return
				}
				p := pod(pods, n)
				errs[i] = put(ctx, store, "Pod", "pods/"+p.Namespace+"/"+p.Name, p)
			}
		})
	}
	writers.Wait()
	return w, errors.Join(errs...)
}

func put(ctx context.Context, store storage.Store, kind, key string, obj registry.Object) error {
	value, err := codec.Stored(corev1.SchemeGroupVersion.WithKind(kind), obj)
	if err != nil {
		return err
	}
	_, err = store.Create(ctx, registry.Root+key, value)
	return err
}

// open starts the server on the store; it is ready when this returns.
func (w *world) open(ctx context.Context) (err error) {
	if w.store, err = wal.Open(w.dir, wal.Options{}); err != nil {
		return err
	}
	kinds := core.Kinds(core.Options{})
	if w.registry, err = registry.New(w.store, kinds, registry.Options{}); err != nil {
		return errors.Join(err, w.store.Close())
	}
	var running context.Context
	running, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.done = make(chan error, 1)
	go func() { w.done <- w.registry.Run(running) }()
	w.server = apiserver.New(w.registry, apiserver.Options{Authorizer: alwaysallow.New()})
	w.transport = apiserver.NewTransport(w.server, nil)
	if err := w.registry.WaitSynced(ctx); err != nil {
		return errors.Join(err, w.close())
	}
	return nil
}

// close stops the server and keeps the store's files.
func (w *world) close() error {
	w.transport.Close()
	w.cancel()
	err := errors.Join(<-w.done, w.store.Close())
	w.store, w.registry, w.server, w.transport = nil, nil, nil, nil
	return err
}

func namespaceName(n int) string { return fmt.Sprintf("team-%04d", n) }

func uid(high, n int) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", high>>32, n)
}

// pod returns the n-th of that many pods: as large as running pods of a deployment. The pods of its namespace are on
// different nodes and of different applications.
func pod(pods, n int) *corev1.Pod {
	namespace := namespaceName(n / perNamespace)
	app := "app-" + strconv.Itoa(n%(pods/perApp))
	name := fmt.Sprintf("%s-6d4cf56db6-%05d", app, n)
	node := "node-" + strconv.Itoa(n%(pods/perNode))
	born := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, n%60, 0, time.UTC))
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, GenerateName: app + "-6d4cf56db6-", Namespace: namespace, UID: types.UID(uid(2<<40, n)), Generation: 1,
			CreationTimestamp: born,
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app + "-prod", "pod-template-hash": "6d4cf56db6",
				"tier": []string{"web", "worker"}[n%2],
			},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "kubectl.kubernetes.io/restartedAt": "2026-01-02T03:04:05Z"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-6d4cf56db6", UID: types.UID(uid(3<<40, n%(pods/perApp))), Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec:   podSpec(app, node),
		Status: podStatus(n, born),
	}
}

func podSpec(app, node string) corev1.PodSpec {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")}}, PeriodSeconds: 10}
	}
	seconds, expires := int64(300), int64(3607)
	return corev1.PodSpec{
		NodeName: node, ServiceAccountName: "default",
		Containers: []corev1.Container{{
			Name: "server", Image: "registry.example.com/team/" + app + ":v1.27.3", Args: []string{"--listen=:8080", "--log-level=info"},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9090}},
			Env: []corev1.EnvVar{
				{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
				{Name: "DATABASE", Value: "postgres://database." + app + ".svc:5432/main"},
				{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: app}, Key: "token"}}},
			},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
			},
			LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/readyz"),
			VolumeMounts: []corev1.VolumeMount{
				{Name: "config", MountPath: "/etc/server", ReadOnly: true},
				{Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}}}},
			{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &expires, Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
			}}}},
		},
		Tolerations: []corev1.Toleration{
			{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
		},
	}
}

func podStatus(n int, born metav1.Time) corev1.PodStatus {
	condition := func(t corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: born}
	}
	ip := fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)
	started := true
	return corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "192.168.0.7", PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &born, QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{condition(corev1.PodScheduled), condition(corev1.PodInitialized), condition(corev1.ContainersReady), condition(corev1.PodReady)},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "server", Ready: true, Started: &started, Image: "registry.example.com/team/server:v1.27.3",
			ImageID:     "registry.example.com/team/server@sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0",
			ContainerID: fmt.Sprintf("containerd://%064x", n), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: born}},
		}},
	}
}
