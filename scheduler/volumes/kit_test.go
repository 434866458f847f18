package volumes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

const (
	completed = "pv.kubernetes.io/bind-completed"
	byUs      = "pv.kubernetes.io/bound-by-controller"
	selected  = "volume.kubernetes.io/selected-node"
)

// server is an API server's claims, volumes and nodes, to which a Volumes writes.
type server struct {
	t       *testing.T
	nodes   *memory.Store[*corev1.Node]
	claims  *memory.Store[*corev1.PersistentVolumeClaim]
	volumes *memory.Store[*corev1.PersistentVolume]
	classes *memory.Store[*storagev1.StorageClass]
	// What CSI drivers publish.
	csiNodes    *memory.Store[*storagev1.CSINode]
	drivers     *memory.Store[*storagev1.CSIDriver]
	capacities  *memory.Store[*storagev1.CSIStorageCapacity]
	attachments *memory.Store[*storagev1.VolumeAttachment]
	in          volumes.Sources
	options     volumes.Options

	mu      sync.Mutex
	fail    error // of the next writes
	written []string
}

func newServer(t *testing.T) *server {
	s := &server{
		t: t, nodes: memory.New[*corev1.Node](), claims: memory.New[*corev1.PersistentVolumeClaim](),
		volumes: memory.New[*corev1.PersistentVolume](), classes: memory.New[*storagev1.StorageClass](),
		csiNodes: memory.New[*storagev1.CSINode](), drivers: memory.New[*storagev1.CSIDriver](),
		capacities: memory.New[*storagev1.CSIStorageCapacity](), attachments: memory.New[*storagev1.VolumeAttachment](),
	}
	o := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
	s.in = volumes.Sources{
		Nodes: informer.New[*corev1.Node](s.nodes, o), Claims: informer.New[*corev1.PersistentVolumeClaim](s.claims, o),
		Volumes: informer.New[*corev1.PersistentVolume](s.volumes, o), Classes: informer.New[*storagev1.StorageClass](s.classes, o),
		CSINodes:    informer.New[*storagev1.CSINode](s.csiNodes, o),
		CSIDrivers:  informer.New[*storagev1.CSIDriver](s.drivers, o),
		Capacities:  informer.New[*storagev1.CSIStorageCapacity](s.capacities, o),
		Attachments: informer.New[*storagev1.VolumeAttachment](s.attachments, o),
	}
	for _, name := range []string{"n", "m"} {
		s.nodes.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}})
	}
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	s.classes.Put(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &wait})
	s.classes.Put(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "made"}, Provisioner: "disk.example.com", VolumeBindingMode: &wait})
	return s
}

// run runs a test in a bubble with a Volumes whose caches are full.
func run(t *testing.T, test func(*testing.T, *server, *volumes.Volumes), prepare ...func(*server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		for _, f := range prepare {
			f(s)
		}
		v := volumes.New(s.in, s, s.options)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, run := range []func(context.Context) error{
			s.in.Nodes.Run, s.in.Claims.Run, s.in.Volumes.Run, s.in.Classes.Run, s.in.CSINodes.Run, s.in.CSIDrivers.Run,
			s.in.Capacities.Run, s.in.Attachments.Run,
		} {
			all.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		if err := v.WaitSynced(ctx); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		test(t, s, v)
		cancel()
		all.Wait()
	})
}

// Update implements client.Updater with the check of versions.
func (s *server) Update(_ context.Context, to client.Target, obj runtime.Object, _ metav1.UpdateOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	conflict := func(was metav1.Object, is metav1.Object) error {
		if to.Name != is.GetName() || to.Namespace != is.GetNamespace() {
			s.t.Errorf("wrote %s/%s to %+v", is.GetNamespace(), is.GetName(), to)
		}
		if was.GetResourceVersion() != is.GetResourceVersion() {
			return apierrors.NewConflict(corev1.Resource(to.Resource.Resource), to.Name, errors.New("too old"))
		}
		return nil
	}
	switch obj := obj.(type) {
	case *corev1.PersistentVolume:
		was, ok := s.volumes.Get("", obj.Name)
		if !ok {
			return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumes"), obj.Name)
		}
		if err := conflict(was, obj); err != nil {
			return nil, err
		}
		ref := obj.Spec.ClaimRef
		s.written = append(s.written, fmt.Sprintf("%s for %s/%s %s %s", obj.Name, ref.Namespace, ref.Name, ref.UID, obj.Annotations[byUs]))
		return s.volumes.Put(obj), nil
	case *corev1.PersistentVolumeClaim:
		was, ok := s.claims.Get(obj.Namespace, obj.Name)
		if !ok {
			return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), obj.Name)
		}
		if err := conflict(was, obj); err != nil {
			return nil, err
		}
		s.written = append(s.written, obj.Name+" on "+obj.Annotations[selected])
		return s.claims.Put(obj), nil
	}
	return nil, fmt.Errorf("wrote a %T", obj)
}

func (s *server) wrote() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.written)
	return strings.Join(s.written, ", ")
}

// bind does what the binder of volumes does for a claim.
func (s *server) bind(claim, volume string) {
	c, _ := s.claims.Get("ns", claim)
	c = c.DeepCopy()
	c.Spec.VolumeName = volume
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, completed, "yes")
	s.claims.Put(c)
}

func claim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		}},
	}
}

// disk returns a local volume of a node.
func disk(name, node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "local", Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

func pod(name string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	for _, c := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c},
		}})
	}
	return p
}

// with puts objects before a test begins.
func with(objects ...any) func(*server) {
	return func(s *server) {
		for _, obj := range objects {
			switch obj := obj.(type) {
			case *corev1.PersistentVolumeClaim:
				s.claims.Put(obj)
			case *corev1.PersistentVolume:
				s.volumes.Put(obj)
			case *storagev1.StorageClass:
				s.classes.Put(obj)
			case *storagev1.CSINode:
				s.csiNodes.Put(obj)
			case *storagev1.CSIDriver:
				s.drivers.Put(obj)
			case *storagev1.CSIStorageCapacity:
				s.capacities.Put(obj)
			case *storagev1.VolumeAttachment:
				s.attachments.Put(obj)
			}
		}
	}
}
