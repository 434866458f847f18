package noderestriction_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/noderestriction"
)

func TestPodCreate(t *testing.T) {
	create := func(node string, changes ...func(*corev1.Pod)) *admission.Request {
		return admissiontest.Create(t, pod(node, changes...), byNode)
	}
	owner := func(change func(*metav1.OwnerReference)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.OwnerReferences[0]) }
	}
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	project := func(source corev1.VolumeProjection) func(*corev1.Pod) {
		return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}})
	}
	yes := true
	const pre = `pods "pod" is forbidden: `
	toItself := pre + `node "mine" can only create pods with an owner reference set to itself`
	refers := func(to string) string { return pre + `node "mine" can not create pods that reference ` + to }
	run(t, []judged{
		{"mirror", create("mine", mirrored), ""},
		{"mirror with local volumes", create("mine", mirrored, volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})), ""},
		{"mirror with the downward API", create("mine", mirrored, project(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}})), ""},
		{"no mirror", create("mine"), pre + `pod does not have "kubernetes.io/config.mirror" annotation, node "mine" can only create mirror pods`},
		{"nowhere", create("", mirrored), pre + `node "mine" can only create pods with spec.nodeName set to itself`},
		{"elsewhere", create("other", mirrored), pre + `node "mine" can only create pods with spec.nodeName set to itself`},
		{"no owner", create("mine", mirrored, func(p *corev1.Pod) { p.OwnerReferences = nil }), toItself},
		{"two owners", create("mine", mirrored, func(p *corev1.Pod) { p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences[0]) }),
			pre + `node "mine" can only create pods with a single owner reference set to itself`},
		{"owner of another version", create("mine", mirrored, owner(func(o *metav1.OwnerReference) { o.APIVersion = "v2" })), toItself},
		{"owner of another kind", create("mine", mirrored, owner(func(o *metav1.OwnerReference) { o.Kind = "Pod" })), toItself},
		{"another owner", create("mine", mirrored, owner(func(o *metav1.OwnerReference) { o.Name = "other" })), toItself},
		{"no controller", create("mine", mirrored, owner(func(o *metav1.OwnerReference) { o.Controller = nil })),
			pre + `node "mine" can only create pods with a controller owner reference set to itself`},
		{"controller not", create("mine", mirrored, owner(func(o *metav1.OwnerReference) { o.Controller = new(bool) })),
			pre + `node "mine" can only create pods with a controller owner reference set to itself`},
		{"blocking owner", create("mine", mirrored, owner(func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = &yes })),
			pre + `node "mine" must not set blockOwnerDeletion on an owner reference`},
		{"owner of old", create("mine", mirrored, owner(func(o *metav1.OwnerReference) { o.UID = "older" })),
			pre + `node mine UID mismatch: expected older got node-uid`},
		{"service account", create("mine", mirrored, func(p *corev1.Pod) { p.Spec.ServiceAccountName = "account" }), refers("serviceaccounts")},
		{"secret in environment", create("mine", mirrored, func(p *corev1.Pod) {
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
		}), refers("secrets")},
		{"secret volume", create("mine", mirrored, volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}})), refers("secrets")},
		{"pull secret", create("mine", mirrored, func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} }), refers("secrets")},
		{"config map", create("mine", mirrored, volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}})), refers("configmaps")},
		{"resource claim", create("mine", mirrored, func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }), refers("resourceclaims")},
		{"claim", create("mine", mirrored, volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}})), refers("persistentvolumeclaims")},
		{"token", create("mine", mirrored, project(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}})), refers("serviceaccounts (via projected volumes)")},
		{"unknown volume", create("mine", mirrored, volume(corev1.VolumeSource{})), pre + `error checking mirror pod for API references: unknown volume type for volume  "v"`},
		{"something else", admissiontest.Create(t, pod("mine"), byNode, func(r *admission.Request) { r.Object = &corev1.Node{} }), pre + `unexpected type *v1.Node`},
	})
	gone := admissiontest.Create(t, pod("lost", mirrored), admissiontest.By("system:node:lost", "system:nodes"))
	admissiontest.Refuses(t, plugin(), gone, `node "lost" not found`)
}

func TestPodWrites(t *testing.T) {
	const pre = `pods "pod" is forbidden: `
	status := func(old, changed *corev1.Pod) *admission.Request {
		return admissiontest.Update(t, old, changed, byNode, admissiontest.Subresource("status"))
	}
	claims := func(name *string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: name}}
		}
	}
	a, b := "a", "b"
	extended := func(p *corev1.Pod) {
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "x"}
	}
	allocatable := func(cores string) func(*corev1.Pod) {
		q := resource.MustParse(cores)
		return func(p *corev1.Pod) {
			p.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{
				ResourceClaimName: "x", Mapping: []corev1.NodeAllocatableMappedResources{{Name: "cpu", Quantity: &q}},
			}}
		}
	}
	evict := func(name string) *admission.Request {
		e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		return admissiontest.Create(t, e, at(schema.GroupResource{Resource: "pods"}, "eviction", name))
	}
	named := func(p *corev1.Pod, name string) *corev1.Pod { p.Name = name; return p }
	run(t, []judged{
		{"delete", admissiontest.Delete(t, pod("mine"), byNode), ""},
		{"delete another's", admissiontest.Delete(t, named(pod("other"), "foreign"), byNode),
			`pods "foreign" is forbidden: node "mine" can only delete pods with spec.nodeName set to itself`},
		{"delete a missing pod", admissiontest.Delete(t, named(pod("mine"), "gone"), byNode), `pod "gone" not found`},
		{"update", admissiontest.Update(t, pod("mine"), pod("mine"), byNode), pre + `unexpected operation "UPDATE", node "mine" can only create and delete mirror pods`},
		{"status", status(pod("mine"), pod("mine", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })), ""},
		{"status with claims as before", status(pod("mine", claims(&a), extended, allocatable("1")), pod("mine", claims(&a), extended, allocatable("1000m"))), ""},
		{"status of another's", status(pod("other"), pod("mine")), pre + `node "mine" can only update pod status for pods with spec.nodeName set to itself`},
		{"labels by status", status(pod("mine"), pod("mine", func(p *corev1.Pod) { p.Labels = nil })), pre + `node "mine" cannot update labels through pod status`},
		{"claims by status", status(pod("mine"), pod("mine", claims(nil))), pre + `node "mine" cannot update resource claim statues`},
		{"claims named by status", status(pod("mine", claims(nil)), pod("mine", claims(&a))), pre + `node "mine" cannot update resource claim statues`},
		{"claims renamed by status", status(pod("mine", claims(&a)), pod("mine", claims(&b))), pre + `node "mine" cannot update resource claim statues`},
		{"extended claim by status", status(pod("mine"), pod("mine", extended)), pre + `node "mine" cannot update extended resource claim status`},
		{"allocatable claims by status", status(pod("mine", allocatable("1")), pod("mine", allocatable("2"))),
			pre + `node "mine" cannot update node allocatable resource claim statuses`},
		{"status created", admissiontest.Create(t, pod("mine"), byNode, admissiontest.Subresource("status")), pre + `unexpected operation "CREATE"`},
		{"evict", evict("pod"), ""},
		{"evict another's", evict("foreign"), `pods "foreign" is forbidden: node mine can only evict pods with spec.nodeName set to itself`},
		{"evict a missing pod", evict("gone"), `pod "gone" not found`},
		{"evict nobody", evict(""), `pods "Unknown" is forbidden: could not determine pod from request data`},
		{"bind", admissiontest.Create(t, pod("mine"), byNode, admissiontest.Subresource("binding")),
			pre + `unexpected pod subresource "binding", only 'status' and 'eviction' are allowed`},
	})
	nobody := admissiontest.Create(t, pod("mine", mirrored), admissiontest.By("system:node:", "system:nodes"))
	admissiontest.Refuses(t, plugin(), nobody, pre+`could not determine node from user "system:node:"`)
}

func TestContract(t *testing.T) {
	admissiontest.TestPlugin(t, plugin(),
		admissiontest.Create(t, pod("mine", mirrored), byNode), admissiontest.Create(t, pod("other"), byNode),
		admissiontest.Delete(t, pod("mine"), byNode), admissiontest.Create(t, &corev1.ConfigMap{}, byNode))
	bare := noderestriction.New(noderestriction.Sources{}, nil)
	admissiontest.Refuses(t, bare, admissiontest.Delete(t, pod("mine"), byNode), `pod "pod" not found`)
}
