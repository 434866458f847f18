package authorization_test

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	upstream "k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/node"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
)

// table is a source that computes its index on demand.
type table[T metav1.Object] struct {
	objects map[string]T
	values  func(T) []string
}

func (f *table[T]) Get(namespace, name string) (T, bool) {
	obj, ok := f.objects[namespace+"/"+name]
	return obj, ok
}

func (f *table[T]) AddIndex(_ string, values func(T) []string) { f.values = values }

func (f *table[T]) ByIndex(_, value string) []T {
	var found []T
	for _, obj := range f.objects {
		if slices.Contains(f.values(obj), value) {
			found = append(found, obj)
		}
	}
	return found
}

// hosts is a cluster whose pods and volumes both authorizers know.
type hosts struct {
	*rand.Rand
	graph   *upstream.Graph
	pods    table[*corev1.Pod]
	volumes table[*corev1.PersistentVolume]
	made    int
}

func (h *hosts) pick(of ...string) string { return of[h.Intn(len(of))] }

func (h *hosts) name() string { return h.pick("a", "b", "c", "") }

func (h *hosts) putPod() {
	h.made++
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.pick("x", "y"), Name: h.pick("p1", "p2", "p3", "p4"), UID: types.UID(fmt.Sprint(h.made))},
		Spec:       corev1.PodSpec{NodeName: h.pick("n1", "n2"), ServiceAccountName: h.name()},
	}
	if h.Intn(6) == 0 {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	}
	for range h.Intn(4) {
		local := corev1.LocalObjectReference{Name: h.name()}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: h.pick("v", "w"), VolumeSource: []corev1.VolumeSource{
			{Secret: &corev1.SecretVolumeSource{SecretName: local.Name}},
			{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local}},
			{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: local.Name}},
			{Ephemeral: &corev1.EphemeralVolumeSource{}},
			{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: &local}},
			{AzureFile: &corev1.AzureFileVolumeSource{SecretName: local.Name}},
		}[h.Intn(6)]})
	}
	h.pods.objects[p.Namespace+"/"+p.Name] = p
	h.graph.AddPod(p)
}

func (h *hosts) deletePod() {
	for _, key := range slices.Sorted(maps.Keys(h.pods.objects)) {
		if h.Intn(4) == 0 {
			p := h.pods.objects[key]
			delete(h.pods.objects, key)
			h.graph.DeletePod(p.Name, p.Namespace)
			return
		}
	}
}

func (h *hosts) putVolume() {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: h.pick("a", "b", "c")}}
	if h.Intn(5) > 0 {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: h.pick("x", "y"), Name: h.pick("a", "b", "c", "p1-v")}
	}
	here := &corev1.SecretReference{Namespace: h.pick("x", "y"), Name: h.pick("a", "b", "c")}
	home := &corev1.SecretReference{Namespace: h.pick("", "x", "y"), Name: h.pick("a", "b", "c")}
	v.Spec.PersistentVolumeSource = []corev1.PersistentVolumeSource{
		{},
		{CephFS: &corev1.CephFSPersistentVolumeSource{SecretRef: home}},
		{ISCSI: &corev1.ISCSIPersistentVolumeSource{SecretRef: home}},
		{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: here.Name}},
		{CSI: &corev1.CSIPersistentVolumeSource{NodeStageSecretRef: here, ControllerPublishSecretRef: home}},
	}[h.Intn(5)]
	h.volumes.objects["/"+v.Name] = v
	h.graph.AddPV(v)
}

func (h *hosts) deleteVolume() {
	name := h.pick("a", "b", "c")
	delete(h.volumes.objects, "/"+name)
	h.graph.DeletePV(name)
}

// request prefers the kinds that depend on pods.
func (h *hosts) request() authz.Attributes {
	a := authz.Attributes{
		User: &authn.Identity{Name: "system:node:" + h.pick("n1", "n2", "n1", "n2", "n3", ""), Groups: []string{h.pick("system:nodes", "system:nodes", "system:nodes", "x")}},
		Verb: "get", ResourceRequest: true,
		Resource:  h.pick("secrets", "configmaps", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts", "pods"),
		Namespace: h.pick("x", "y"), Name: h.pick("a", "b", "c", "p1", "p2", "p1-v"),
	}
	if h.Intn(2) == 0 {
		kind := [][2]string{
			{"", "nodes"}, {"", "pods"}, {"", "services"}, {"", "events"}, {"", a.Resource}, {"resource.k8s.io", "resourceclaims"},
			{"resource.k8s.io", "resourceslices"}, {"storage.k8s.io", "volumeattachments"}, {"storage.k8s.io", "csinodes"}, {"storage.k8s.io", "csidrivers"},
			{"coordination.k8s.io", "leases"}, {"certificates.k8s.io", "podcertificaterequests"}, {"apps", "deployments"}, {"node.k8s.io", "runtimeclasses"},
		}[h.Intn(14)]
		a.Group, a.Resource = kind[0], kind[1]
		a.Verb = h.pick("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "x")
		a.Namespace, a.Name = h.pick("x", "y", "", "kube-node-lease"), h.pick("a", "", "n1", "n2", "p1")
		a.Subresource = h.pick("", "", "", "", "status", "token", "eviction", "exec")
		if h.Intn(2) == 0 {
			a.FieldSelector = []authz.Requirement{{Key: "spec.nodeName", Operator: h.pick("=", "!="), Values: []string{h.pick("n1", "n2")}}}
		}
	}
	if a.Resource == "persistentvolumes" {
		a.Namespace = ""
	}
	return a
}

func TestNode(t *testing.T) {
	h := &hosts{Rand: rand.New(rand.NewSource(*seed)), graph: upstream.NewGraph()}
	h.pods.objects, h.volumes.objects = map[string]*corev1.Pod{}, map[string]*corev1.PersistentVolume{}
	theirs := upstream.NewAuthorizer(h.graph, nodeidentifier.NewDefaultNodeIdentifier(), bootstrappolicy.NodeRules())
	ours := node.New(node.Sources{Pods: &h.pods, Volumes: &h.volumes}, rbac.Rules(bootstrap.NodeRules()))
	allowed := map[string]int{}
	for range *requests {
		switch h.Intn(20) {
		case 0, 1:
			h.putPod()
		case 2:
			h.deletePod()
		case 3:
			h.putVolume()
		case 4:
			h.deleteVolume()
		}
		a := h.request()
		r := record(a)
		for _, term := range a.FieldSelector {
			r.FieldSelectorRequirements = fields.Requirements{{Field: term.Key, Operator: selection.Operator(term.Operator), Value: term.Values[0]}}
		}
		if compare(t, theirs, ours, a, r) {
			allowed[a.Resource]++
		}
	}
	t.Logf("allowed of %d requests: %v", *requests, allowed)
	for _, resource := range []string{"secrets", "configmaps", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts", "pods"} {
		if *requests >= 10_000 && allowed[resource] < 20 {
			t.Errorf("too few requests for %s are allowed to tell much", resource)
		}
	}
}
