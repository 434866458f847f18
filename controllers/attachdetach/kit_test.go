package attachdetach_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/attachdetach"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
	"github.com/keelson-dev/keelson/lifecycle"
)

const driver = "disks.example.com"

func core(name string) schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(name)
}

func store(name string) schema.GroupVersionResource {
	return storagev1.SchemeGroupVersion.WithResource(name)
}

func volumeOf(name string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	if len(modes) == 0 {
		modes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: modes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h-" + name}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

func nodeOf(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// podOf is a pod on a node with the claims as volumes.
func podOf(name, node string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{NodeName: node}}
	if space, rest, ok := strings.Cut(name, "/"); ok {
		pod.Namespace, pod.Name = space, rest
	}
	for i, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return pod
}

// bench is an API with the controller, in a bubble.
type bench struct {
	*testing.T
	api    *controllerstest.API
	events controllerstest.Recorder
	nodes  *lag.Source[*corev1.Node] // of the controller
	stop   context.CancelFunc
	ended  chan struct{}
}

func (b *bench) sources() (attachdetach.Sources, []lifecycle.Runnable) {
	o := informer.Options{DetectMutations: func(err error) { b.Error(err) }}
	api := b.api
	b.nodes = controllerstest.Source[*corev1.Node](api, core("nodes"))
	in := attachdetach.Sources{
		Pods:        informer.New(controllerstest.Source[*corev1.Pod](api, core("pods")), o),
		Nodes:       informer.New(b.nodes, o),
		Claims:      informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](api, core("persistentvolumeclaims")), o),
		Volumes:     informer.New(controllerstest.Source[*corev1.PersistentVolume](api, core("persistentvolumes")), o),
		Drivers:     informer.New(controllerstest.Source[*storagev1.CSIDriver](api, store("csidrivers")), o),
		Attachments: informer.New(controllerstest.Source[*storagev1.VolumeAttachment](api, store("volumeattachments")), o),
	}
	return in, []lifecycle.Runnable{in.Pods, in.Nodes, in.Claims, in.Volumes, in.Drivers, in.Attachments}
}

func inBubble(t *testing.T, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{})}
		b.start()
		test(b)
		b.kill()
	})
}

// start runs a new controller; kill ends it.
func (b *bench) start() {
	in, informers := b.sources()
	var ctx context.Context
	ctx, b.stop = context.WithCancel(b.Context())
	loop := controllers.NewLoop(attachdetach.New(in, b.api, &b.events), controllers.Options{})
	b.ended = make(chan struct{}, 7)
	for _, r := range append(informers, loop) {
		go func() {
			if err := r.Run(ctx); err != nil {
				b.Error(err)
			}
			b.ended <- struct{}{}
		}()
	}
	b.settle()
}

func (b *bench) kill() {
	b.stop()
	for range cap(b.ended) {
		<-b.ended
	}
}

// settle lets the controller act.
func (b *bench) settle() {
	synctest.Wait()
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

func (b *bench) add(objects ...informer.Object) {
	b.Helper()
	for _, obj := range objects {
		if pod, ok := obj.(*corev1.Pod); ok {
			obj = controllerstest.Complete(pod)
		}
		if err := b.api.Add(b.Context(), obj); err != nil {
			b.Fatal(err)
		}
	}
	b.settle()
}

// bind adds a volume and the claim that it is bound to, both of that name.
func (b *bench) bind(name string, modes ...corev1.PersistentVolumeAccessMode) {
	b.Helper()
	b.bindTo("default", volumeOf(name, modes...))
}

func (b *bench) bindTo(namespace string, pv *corev1.PersistentVolume) {
	b.Helper()
	name := pv.Name
	claim := controllerstest.Add(b, b.api, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: name, AccessModes: pv.Spec.AccessModes, Resources: corev1.VolumeResourceRequirements{Requests: pv.Spec.Capacity},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	})
	pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name, UID: claim.UID}
	controllerstest.Add(b, b.api, pv)
	b.settle()
}

func attachment(volume, node string) string {
	return attachdetach.AttachmentName("h-"+volume, driver, node)
}

// attachments are node:volume of what there is, with + if it is attached and - if it is being deleted.
func (b *bench) attachments() string {
	b.Helper()
	list, err := client.As[*storagev1.VolumeAttachmentList](b.api.Others.List(b.Context(), client.Target{Resource: store("volumeattachments")}, metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	var out []string
	for _, va := range list.Items {
		name := *va.Spec.Source.PersistentVolumeName
		if va.Name != attachment(name, va.Spec.NodeName) || va.Spec.Attacher != driver {
			b.Errorf("attachment %s of %s to %s by %s", va.Name, name, va.Spec.NodeName, va.Spec.Attacher)
		}
		s := va.Spec.NodeName + ":" + name
		if va.Status.Attached {
			s += "+"
		}
		if va.DeletionTimestamp != nil {
			s += "-"
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// reported are the volumes that a node's status says are attached.
func (b *bench) reported(node string) string {
	b.Helper()
	n, err := client.As[*corev1.Node](b.api.Others.Get(b.Context(), client.Target{Resource: core("nodes"), Name: node}))
	if err != nil {
		b.Fatal(err)
	}
	var out []string
	for _, v := range n.Status.VolumesAttached {
		out = append(out, strings.TrimPrefix(string(v.Name), "kubernetes.io/csi/"+driver+"^h-"))
	}
	return strings.Join(out, " ")
}

// want checks the attachments, and what is reported of nodes: node=volumes.
func (b *bench) want(attachments string, reported ...string) {
	b.Helper()
	b.settle()
	if got := b.attachments(); got != attachments {
		b.Errorf("attachments: %q, want %q", got, attachments)
	}
	for _, r := range reported {
		node, volumes, _ := strings.Cut(r, "=")
		if got := b.reported(node); got != volumes {
			b.Errorf("%s reports %q, want %q", node, got, volumes)
		}
	}
}

// told checks the events since the last time, each once, in order.
func (b *bench) told(want ...string) {
	b.Helper()
	b.settle()
	var got []string
	for _, e := range b.events.Events() {
		got = append(got, e.Regarding.Name+": "+e.Type+" "+e.Reason+" "+e.Message)
	}
	b.events.Take()
	if !slices.Equal(got, want) {
		b.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// patch changes an object as others do.
func patch[T informer.Object](b *bench, at client.Target, change func(T)) {
	b.Helper()
	obj, err := client.As[T](b.api.Others.Get(b.Context(), client.Target{Resource: at.Resource, Namespace: at.Namespace, Name: at.Name}))
	if err != nil {
		b.Fatal(err)
	}
	next, ok := obj.DeepCopyObject().(T)
	if !ok {
		b.Fatal("a copy of another type")
	}
	change(next)
	if _, err := b.api.Others.Update(b.Context(), at, next, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.settle()
}

func (b *bench) node(name string, change func(*corev1.Node)) {
	b.Helper()
	patch(b, client.Target{Resource: core("nodes"), Name: name, Subresource: "status"}, change)
}

// uses is what a kubelet says: that it uses volumes.
func (b *bench) uses(node string, volumes ...string) {
	b.Helper()
	b.node(node, func(n *corev1.Node) {
		n.Status.VolumesInUse = nil
		for _, v := range volumes {
			n.Status.VolumesInUse = append(n.Status.VolumesInUse, attachdetach.VolumeName(driver, "h-"+v))
		}
	})
}

// attached is what the external-attacher of the driver writes. It keeps the attachment by a finalizer.
func (b *bench) attached(volume, node string) {
	b.Helper()
	at := client.Target{Resource: store("volumeattachments"), Name: attachment(volume, node)}
	patch(b, at, func(va *storagev1.VolumeAttachment) { va.Finalizers = []string{"external-attacher/" + driver} })
	at.Subresource = "status"
	patch(b, at, func(va *storagev1.VolumeAttachment) { va.Status = storagev1.VolumeAttachmentStatus{Attached: true} })
}

// refused is what it writes if the driver cannot attach or detach.
func (b *bench) refused(volume, node, attach, detach string) {
	b.Helper()
	patch(b, client.Target{Resource: store("volumeattachments"), Name: attachment(volume, node), Subresource: "status"}, func(va *storagev1.VolumeAttachment) {
		va.Status.AttachError, va.Status.DetachError = nil, nil
		if attach != "" {
			va.Status.AttachError = &storagev1.VolumeError{Message: attach}
		}
		if detach != "" {
			va.Status.DetachError = &storagev1.VolumeError{Message: detach}
		}
	})
}

// detached is what it does once the driver has detached.
func (b *bench) detached(volume, node string) {
	b.Helper()
	patch(b, client.Target{Resource: store("volumeattachments"), Name: attachment(volume, node)}, func(va *storagev1.VolumeAttachment) { va.Finalizers = nil })
}

func (b *bench) delete(at client.Target) {
	b.Helper()
	var now int64
	err := b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		b.Fatal(err)
	}
	b.settle()
}

func (b *bench) deletePod(name string) {
	b.Helper()
	at := client.Target{Resource: core("pods"), Namespace: "default", Name: name}
	if space, rest, ok := strings.Cut(name, "/"); ok {
		at.Namespace, at.Name = space, rest
	}
	b.delete(at)
}

func (b *bench) uid(resource schema.GroupVersionResource, namespace, name string) types.UID {
	b.Helper()
	obj, err := b.api.Others.Get(b.Context(), client.Target{Resource: resource, Namespace: namespace, Name: name})
	if err != nil {
		b.Fatal(err)
	}
	return obj.(metav1.Object).GetUID() //nolint:forcetypeassert // all objects of the API have one
}
