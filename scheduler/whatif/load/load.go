package load

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/budgets"
	"github.com/keelson-dev/keelson/scheduler/groups"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// Objects are the objects on which scheduling depends. Make one with New, Read or Decode.
type Objects struct {
	pods    *informer.Informer[*corev1.Pod]
	storage volumes.Sources // with the nodes
	related groups.Sources
	budgets *informer.Informer[*policyv1.PodDisruptionBudget]

	// What plugins read; made at once, as these must see every object.
	volumes *volumes.Volumes
	groups  *groups.Groups
	limits  *budgets.Budgets
}

// New returns no objects.
func New() *Objects {
	o := &Objects{
		pods:    none[*corev1.Pod](),
		budgets: none[*policyv1.PodDisruptionBudget](),
		storage: volumes.Sources{
			Nodes: none[*corev1.Node](), Claims: none[*corev1.PersistentVolumeClaim](), Volumes: none[*corev1.PersistentVolume](),
			Classes: none[*storagev1.StorageClass](), CSINodes: none[*storagev1.CSINode](), CSIDrivers: none[*storagev1.CSIDriver](),
			Capacities: none[*storagev1.CSIStorageCapacity](), Attachments: none[*storagev1.VolumeAttachment](),
		},
		related: groups.Sources{
			Namespaces: none[*corev1.Namespace](), Services: none[*corev1.Service](),
			ReplicationControllers: none[*corev1.ReplicationController](), ReplicaSets: none[*appsv1.ReplicaSet](),
			StatefulSets: none[*appsv1.StatefulSet](),
		},
	}
	o.volumes, o.groups, o.limits = volumes.New(o.storage, nil, volumes.Options{}), groups.New(o.related), budgets.New(o.budgets)
	return o
}

// none returns an informer that is not run, and has what is put into it.
func none[T informer.Object]() *informer.Informer[T] {
	return informer.New[T](memory.New[T](), informer.Options{})
}

// resources are the kinds to read.
func resources() []schema.GroupVersionResource {
	core, apps, storage := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, storagev1.SchemeGroupVersion
	return []schema.GroupVersionResource{
		core.WithResource("nodes"), core.WithResource("pods"), core.WithResource("namespaces"), core.WithResource("services"),
		core.WithResource("replicationcontrollers"), apps.WithResource("replicasets"), apps.WithResource("statefulsets"),
		policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"),
		core.WithResource("persistentvolumeclaims"), core.WithResource("persistentvolumes"),
		storage.WithResource("storageclasses"), storage.WithResource("csinodes"), storage.WithResource("csidrivers"),
		storage.WithResource("csistoragecapacities"), storage.WithResource("volumeattachments"),
	}
}

// Read lists the objects that a client's server has. The kinds are listed one after the other.
func Read(ctx context.Context, c client.Lister) (*Objects, error) {
	o := New()
	for _, resource := range resources() {
		list, err := c.List(ctx, client.Target{Resource: resource}, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = meta.EachListItem(list, o.Add)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", resource.Resource, err)
		}
	}
	return o, nil
}

// Add adds an object, which must not be changed any more. One on which scheduling does not depend is left out.
func (o *Objects) Add(obj runtime.Object) error {
	switch obj := obj.(type) {
	case *corev1.Pod:
		return put(o.pods, obj)
	case *corev1.Node:
		return put(o.storage.Nodes, obj)
	case *policyv1.PodDisruptionBudget:
		return put(o.budgets, obj)
	case *corev1.Namespace:
		return put(o.related.Namespaces, obj)
	case *corev1.Service:
		return put(o.related.Services, obj)
	case *corev1.ReplicationController:
		return put(o.related.ReplicationControllers, obj)
	case *appsv1.ReplicaSet:
		return put(o.related.ReplicaSets, obj)
	case *appsv1.StatefulSet:
		return put(o.related.StatefulSets, obj)
	}
	return o.addStorage(obj)
}

func (o *Objects) addStorage(obj runtime.Object) error {
	switch obj := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		return put(o.storage.Claims, obj)
	case *corev1.PersistentVolume:
		return put(o.storage.Volumes, obj)
	case *storagev1.StorageClass:
		return put(o.storage.Classes, obj)
	case *storagev1.CSINode:
		return put(o.storage.CSINodes, obj)
	case *storagev1.CSIDriver:
		return put(o.storage.CSIDrivers, obj)
	case *storagev1.CSIStorageCapacity:
		return put(o.storage.Capacities, obj)
	case *storagev1.VolumeAttachment:
		return put(o.storage.Attachments, obj)
	}
	return nil
}

func put[T informer.Object](in *informer.Informer[T], obj T) error {
	if _, ok := in.Get(obj.GetNamespace(), obj.GetName()); ok {
		return fmt.Errorf("two objects %T of namespace %q and name %q", obj, obj.GetNamespace(), obj.GetName())
	}
	in.Put(obj)
	return nil
}

// Snapshot returns the nodes with the pods on them that have not ended.
func (o *Objects) Snapshot() *scheduler.Snapshot {
	pods := slices.DeleteFunc(o.pods.List(""), func(p *corev1.Pod) bool { return ended(p) || p.Spec.NodeName == "" })
	return scheduler.NewSnapshot(o.storage.Nodes.List(""), pods)
}

// Pending returns the pods without a node that have neither ended nor been asked to, in the order of their creation, and then of
// their names.
func (o *Objects) Pending() []*corev1.Pod {
	pods := slices.DeleteFunc(o.pods.List(""), func(p *corev1.Pod) bool {
		return ended(p) || p.Spec.NodeName != "" || p.DeletionTimestamp != nil
	})
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return pods
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Plugins returns a copy of plugins that read these objects, unless they read others already.
func (o *Objects) Plugins(some []scheduler.Enabled) []scheduler.Enabled {
	return plugins.WithBudgets(plugins.WithGroups(plugins.WithVolumes(some, o.volumes), o.groups), o.limits)
}
