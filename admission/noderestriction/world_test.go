package noderestriction_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/noderestriction"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// getter finds objects by namespace/name.
type getter[T any] map[string]T

func (g getter[T]) Get(namespace, name string) (T, bool) {
	obj, ok := g[namespace+"/"+name]
	return obj, ok
}

// plugin returns a plugin in a world of two nodes, mine and other, with a pod on each.
func plugin() *noderestriction.Plugin {
	mine := pod("mine")
	mine.Spec.Volumes = []corev1.Volume{
		projected("api", corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}),
		projected("vault", corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t", Audience: "vault"}}),
		projected("cert", corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/mounted"}}),
	}
	return noderestriction.New(sources(mine), authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
		switch {
		case !a.ResourceRequest || a.Namespace != "ns" || a.Name != "account" || a.User.Name != "system:node:mine" || a.Version != "v1":
			return authz.Decision{}, nil
		case a.Verb == "request-serviceaccounts-token-audience" && a.Group == "" && a.Resource == "granted",
			a.Verb == "request-serviceaccounts-podcertificate-signer" && a.Group == "certificates.k8s.io" && a.Resource == "example.com:granted":
			return authz.Decision{Verdict: authz.Allow}, errors.New("beside the point")
		case a.Resource == "broken" || a.Resource == "example.com:broken":
			return authz.Decision{}, errors.New("no connection")
		}
		return authz.Decision{}, nil
	}))
}

func sources(mine *corev1.Pod) noderestriction.Sources {
	mirror := pod("mine", mirrored)
	mirror.Name = "mirror"
	foreign := pod("other")
	foreign.Name = "foreign"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "node-uid"}}
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "volume"}}
	lost := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "nowhere"}}
	legacy := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "legacy"}}
	volume, disk := &corev1.PersistentVolume{}, &corev1.PersistentVolume{}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "driver"}
	disk.Spec.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{}
	driver := func(audience string) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: audience}}}}
	}
	return noderestriction.Sources{
		Pods:            getter[*corev1.Pod]{"ns/pod": mine, "ns/mirror": mirror, "ns/foreign": foreign},
		Nodes:           getter[*corev1.Node]{"/mine": node},
		ServiceAccounts: getter[*corev1.ServiceAccount]{"ns/account": {ObjectMeta: metav1.ObjectMeta{UID: "account-uid"}}},
		Claims:          getter[*corev1.PersistentVolumeClaim]{"ns/claim": claim, "ns/pod-scratch": claim, "ns/lost": lost, "ns/legacy": legacy},
		Volumes:         getter[*corev1.PersistentVolume]{"/volume": volume, "/legacy": disk},
		Drivers: getter[*storagev1.CSIDriver]{"/driver": driver("csi"), "/pd.csi.storage.gke.io": driver("gce"),
			"/file.csi.azure.com": driver("azure")},
	}
}

func projected(name string, source corev1.VolumeProjection) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}}}
}

// pod returns a pod on a node.
func pod(node string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "pod-uid", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: "account", Containers: []corev1.Container{{Name: "c"}}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// mirrored makes a pod a mirror pod as kubelets do.
func mirrored(p *corev1.Pod) {
	yes := true
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	p.Spec.ServiceAccountName = ""
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: p.Spec.NodeName, UID: types.UID("node-uid"), Controller: &yes}}
}

func byNode(r *admission.Request) {
	r.User = &authn.Identity{Name: "system:node:mine", Groups: []string{authn.GroupNodes, authn.GroupAuthenticated}}
}

// at makes a request one by node mine for a resource or subresource.
func at(gr schema.GroupResource, subresource, name string) func(*admission.Request) {
	return func(r *admission.Request) {
		byNode(r)
		r.Resource, r.Subresource = gr.WithVersion("v1"), subresource
		r.Namespace, r.Name = "ns", name
	}
}

// judged is a request and its expected outcome.
type judged struct {
	name    string
	request *admission.Request
	refusal string // empty if it passes
}

func run(t *testing.T, tests []judged) {
	t.Helper()
	p := plugin()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.refusal != "" {
				admissiontest.Refuses(t, p, test.request, test.refusal)
				test.request.User = &authn.Identity{Name: "system:node:mine", Groups: []string{authn.GroupAuthenticated}} // not a node
			}
			admissiontest.Admits(t, p, test.request, test.request.Object)
		})
	}
}

func Example() {
	pods := getter[*corev1.Pod]{} // in a server, an informer of pods
	plugin := noderestriction.New(noderestriction.Sources{Pods: pods}, nil)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "spy"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	r := &admission.Request{
		Operation: admission.Create, Namespace: "kube-system", Name: "spy", Object: pod,
		User: &authn.Identity{Name: "system:node:n1", Groups: []string{authn.GroupNodes}},
	}
	r.Resource.Resource = "pods"
	fmt.Println(plugin.Admit(context.Background(), r))
	// Output: pods "spy" is forbidden: pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods
}
