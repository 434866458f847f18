package static_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/keelson-dev/keelson/podspec/origin"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/kubelet/static"
)

func staticPod(hash string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web-n1", UID: "static", Generation: 3, Annotations: map[string]string{
			"kubernetes.io/config.hash": hash, "kubernetes.io/config.source": "file", "kubernetes.io/config.seen": "then",
		},
	}}
}

func node() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node"}} }

// mirrored is the mirror of a static pod as the API has it.
func mirrored(hash string, change ...func(*corev1.Pod)) *corev1.Pod {
	m := static.MirrorOf(staticPod(hash), node())
	m.UID = "mirror"
	for _, f := range change {
		f(m)
	}
	return m
}

func deleted(p *corev1.Pod)  { now := metav1.Now(); p.DeletionTimestamp = &now }
func ordinary(p *corev1.Pod) { delete(p.Annotations, corev1.MirrorPodAnnotationKey) }

func TestMirrorOf(t *testing.T) {
	pod := staticPod("h")
	before := pod.DeepCopy()
	m := static.MirrorOf(pod, node())
	if !reflect.DeepEqual(pod, before) {
		t.Error("the static pod was changed")
	}
	if m.UID != "" || m.Generation != 0 || m.Annotations["kubernetes.io/config.mirror"] != "h" || m.Annotations["kubernetes.io/config.seen"] != "then" {
		t.Errorf("got %+v", m)
	}
	yes := true
	want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "node", Controller: &yes}}
	if !reflect.DeepEqual(m.OwnerReferences, want) {
		t.Errorf("got owners %+v", m.OwnerReferences)
	}
	if !origin.Mirror(m) || origin.Mirror(pod) || !static.IsMirrorOf(m, pod) || static.IsMirrorOf(m, staticPod("other")) {
		t.Error("it is the mirror of this pod alone")
	}
	api := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/config.source": "api"}}}
	if origin.Static(api) || origin.Static(&corev1.Pod{}) || !origin.Static(pod) {
		t.Error("only what comes from elsewhere is static")
	}
	bare := static.MirrorOf(&corev1.Pod{}, node())
	if _, ok := bare.Annotations[corev1.MirrorPodAnnotationKey]; !ok {
		t.Error("a mirror is always marked")
	}
}

func TestDecide(t *testing.T) {
	leaving := node()
	now := metav1.Now()
	leaving.DeletionTimestamp = &now
	for name, test := range map[string]struct {
		pod, mirror *corev1.Pod
		node        *corev1.Node
		want        static.Action
	}{
		"nothing":                {},
		"new":                    {pod: staticPod("h"), node: node(), want: static.Action{Create: true}},
		"new, node unknown":      {pod: staticPod("h")},
		"new, node leaving":      {pod: staticPod("h"), node: leaving},
		"in order":               {pod: staticPod("h"), mirror: mirrored("h"), node: node()},
		"of another content":     {pod: staticPod("h"), mirror: mirrored("g"), node: node(), want: static.Action{Delete: true, Create: true}},
		"being deleted":          {pod: staticPod("h"), mirror: mirrored("h", deleted), node: node(), want: static.Action{Delete: true, Create: true}},
		"being deleted, no node": {pod: staticPod("h"), mirror: mirrored("h", deleted), want: static.Action{Delete: true}},
		"orphan":                 {mirror: mirrored("h"), node: node(), want: static.Action{Delete: true}},
		"somebody else's":        {pod: staticPod("h"), mirror: mirrored("h", ordinary), node: node()},
		"somebody else's alone":  {mirror: mirrored("h", ordinary), node: node()},
	} {
		if got := static.Decide(test.pod, test.mirror, test.node); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

// server records requests and fails them when told to.
type server struct {
	requests             []string
	createErr, deleteErr error
}

func (s *server) Create(_ context.Context, t client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	s.requests = append(s.requests, fmt.Sprintf("create %s/%s %s", t.Namespace, obj.(*corev1.Pod).Name, obj.(*corev1.Pod).Annotations[corev1.MirrorPodAnnotationKey]))
	return obj, s.createErr
}

func (s *server) Delete(_ context.Context, t client.Target, o metav1.DeleteOptions) error {
	s.requests = append(s.requests, fmt.Sprintf("delete %s/%s uid=%s grace=%d", t.Namespace, t.Name, *o.Preconditions.UID, *o.GracePeriodSeconds))
	return s.deleteErr
}

func TestReconcile(t *testing.T) {
	pods, boom := schema.GroupResource{Resource: "pods"}, errors.New("boom")
	create, remove := "create ns/web-n1 h", "delete ns/web-n1 uid=mirror grace=0"
	for name, test := range map[string]struct {
		server server
		pod    *corev1.Pod
		mirror *corev1.Pod
		want   []string
		err    error
	}{
		"in order":            {pod: staticPod("h"), mirror: mirrored("h")},
		"new":                 {pod: staticPod("h"), want: []string{create}},
		"made by now":         {pod: staticPod("h"), want: []string{create}, server: server{createErr: apierrors.NewAlreadyExists(pods, "web-n1")}},
		"cannot be made":      {pod: staticPod("h"), want: []string{create}, server: server{createErr: boom}, err: boom},
		"replaced":            {pod: staticPod("h"), mirror: mirrored("g"), want: []string{remove, create}},
		"orphan":              {mirror: mirrored("g"), want: []string{remove}},
		"gone by now":         {pod: staticPod("h"), mirror: mirrored("g"), want: []string{remove}, server: server{deleteErr: apierrors.NewNotFound(pods, "web-n1")}},
		"another by now":      {pod: staticPod("h"), mirror: mirrored("g"), want: []string{remove}, server: server{deleteErr: apierrors.NewConflict(pods, "web-n1", boom)}},
		"cannot be deleted":   {pod: staticPod("h"), mirror: mirrored("g"), want: []string{remove}, server: server{deleteErr: boom}, err: boom},
		"of nobody's concern": {pod: staticPod("h"), mirror: mirrored("h", ordinary)},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := static.Reconcile(t.Context(), &test.server, test.pod, test.mirror, node())
			if !errors.Is(err, test.err) {
				t.Errorf("got %v, want %v", err, test.err)
			}
			created := len(test.want) > 0 && test.want[len(test.want)-1] == create && test.server.createErr == nil
			if (made != nil) != created {
				t.Errorf("made %v", made)
			}
			if !reflect.DeepEqual(test.server.requests, test.want) {
				t.Errorf("got %q, want %q", test.server.requests, test.want)
			}
		})
	}
}

// TestIsMirrorOf: a mirror has the name, the namespace and the hash of its pod, and says that it is one.
func TestIsMirrorOf(t *testing.T) {
	pod := staticPod("web")
	pod.Namespace = "ns"
	for name, change := range map[string]func(m *corev1.Pod){
		"":                  func(*corev1.Pod) {},
		"another name":      func(m *corev1.Pod) { m.Name = "other" },
		"another namespace": func(m *corev1.Pod) { m.Namespace = "other" },
		"another hash":      func(m *corev1.Pod) { m.Annotations[origin.MirrorAnnotation] = "other" },
		"no mirror":         func(m *corev1.Pod) { m.Annotations = nil },
	} {
		m := pod.DeepCopy()
		m.Annotations = map[string]string{origin.MirrorAnnotation: pod.Annotations[origin.HashAnnotation]}
		change(m)
		if static.IsMirrorOf(m, pod) != (name == "") {
			t.Errorf("%q: %t", name, name != "")
		}
	}
	pod.Annotations = nil
	if static.IsMirrorOf(pod.DeepCopy(), pod) {
		t.Error("a pod is its own mirror")
	}
}
