package noderestriction_test

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
)

func node(name string, labels map[string]string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	for _, change := range changes {
		change(n)
	}
	return n
}

func TestNodes(t *testing.T) {
	const pre = `nodes "mine" is forbidden: `
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
	}
	owned := func(n *corev1.Node) { n.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }
	configured := func(n *corev1.Node) { n.Spec.ConfigSource = &corev1.NodeConfigSource{} }
	create := func(n *corev1.Node) *admission.Request { return admissiontest.Create(t, n, byNode) }
	update := func(old, n *corev1.Node) *admission.Request { return admissiontest.Update(t, old, n, byNode) }
	good := map[string]string{
		"own": "x", "example.com/x": "x", "kubernetes.io/hostname": "x", "kubernetes.io/os": "x", "kubernetes.io/arch": "x",
		"beta.kubernetes.io/os": "x", "beta.kubernetes.io/instance-type": "x", "node.kubernetes.io/x": "x", "a.node.kubernetes.io/x": "x",
		"kubelet.kubernetes.io/x": "x", "topology.kubernetes.io/zone": "x", "failure-domain.beta.kubernetes.io/region": "x", "notkubernetes.io/x": "x",
	}
	bad := map[string]string{
		"node-restriction.kubernetes.io/x": "x", "a.node-restriction.kubernetes.io/x": "x", "node-role.kubernetes.io/control-plane": "",
		"kubernetes.io/x": "x", "topology.kubernetes.io/rack": "x", "k8s.io/x": "x", "a.k8s.io/x": "x",
	}
	const all = "a.k8s.io/x, a.node-restriction.kubernetes.io/x, k8s.io/x, kubernetes.io/x, node-restriction.kubernetes.io/x, node-role.kubernetes.io/control-plane, topology.kubernetes.io/rack"
	run(t, []judged{
		{"create", create(node("mine", good, tainted)), ""},
		{"create another", create(node("other", nil)), `nodes "other" is forbidden: node "mine" is not allowed to modify node "other"`},
		{"create with labels", create(node("mine", bad)), pre + `node "mine" is not allowed to set the following labels: ` + all},
		{"create with a configuration", create(node("mine", nil, configured)), pre + `node "mine" is not allowed to create pods with a non-nil configSource`},
		{"update", update(node("mine", nil, tainted, owned), node("mine", good, tainted, owned)), ""},
		{"update with labels as before", update(node("mine", bad), node("mine", bad)), ""},
		{"update another", update(node("other", nil), node("other", nil)), `nodes "other" is forbidden: node "mine" is not allowed to modify node "other"`},
		{"add labels", update(node("mine", nil), node("mine", bad)), pre + `is not allowed to modify labels: ` + all},
		{"remove labels", update(node("mine", bad), node("mine", nil)), pre + `is not allowed to modify labels: ` + all},
		{"change a label", update(node("mine", map[string]string{"k8s.io/x": "a"}), node("mine", map[string]string{"k8s.io/x": "b"})), pre + `is not allowed to modify labels: k8s.io/x`},
		{"add a taint", update(node("mine", nil), node("mine", nil, tainted)), pre + `node "mine" is not allowed to modify taints`},
		{"remove a taint", update(node("mine", nil, tainted), node("mine", nil)), pre + `node "mine" is not allowed to modify taints`},
		{"change owners", update(node("mine", nil), node("mine", nil, owned)), pre + `node "mine" is not allowed to modify ownerReferences`},
		{"add a configuration", update(node("mine", nil), node("mine", nil, configured)), pre + `node "mine" is not allowed to update configSource to a new non-nil configSource`},
		{"lose a configuration", update(node("mine", nil, configured), node("mine", nil)), ""},
		{"another's status", admissiontest.Update(t, node("other", nil), node("other", nil), byNode, admissiontest.Subresource("status")),
			`nodes "other" is forbidden: node "mine" is not allowed to modify node "other"`},
		{"delete", admissiontest.Delete(t, node("mine", nil), byNode), ""},
		{"delete another", admissiontest.Delete(t, node("other", nil), byNode), `nodes "other" is forbidden: node "mine" is not allowed to modify node "other"`},
		{"another type", admissiontest.Create(t, node("mine", nil), byNode, func(r *admission.Request) { r.Object = pod("mine") }), pre + `unexpected type *v1.Pod`},
	})
}

func TestObjectsByName(t *testing.T) {
	lease := func(namespace, name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	csi := func(name string) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	slice := func(node *string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{NodeName: node}}
	}
	mine, other := "mine", "other"
	const leaseName = "can only access node lease with the same name as the requesting node"
	const csiName = "can only access CSINode with the same name as the requesting node"
	run(t, []judged{
		{"create a lease", admissiontest.Create(t, lease("kube-node-lease", "mine"), byNode), ""},
		{"update a lease", admissiontest.Update(t, lease("kube-node-lease", "mine"), lease("kube-node-lease", "mine"), byNode), ""},
		{"lease elsewhere", admissiontest.Create(t, lease("kube-system", "mine"), byNode),
			`leases.coordination.k8s.io "mine" is forbidden: can only access leases in the "kube-node-lease" system namespace`},
		{"another's lease", admissiontest.Create(t, lease("kube-node-lease", "other"), byNode), `leases.coordination.k8s.io "other" is forbidden: ` + leaseName},
		{"update another's lease", admissiontest.Update(t, lease("kube-node-lease", "other"), lease("kube-node-lease", "other"), byNode), `leases.coordination.k8s.io "other" is forbidden: ` + leaseName},
		{"delete another's lease", admissiontest.Delete(t, lease("kube-node-lease", "other"), byNode), `leases.coordination.k8s.io "other" is forbidden: ` + leaseName},
		{"create a CSINode", admissiontest.Create(t, csi("mine"), byNode), ""},
		{"another's CSINode", admissiontest.Create(t, csi("other"), byNode), `csinodes.storage.k8s.io "other" is forbidden: ` + csiName},
		{"delete another's CSINode", admissiontest.Delete(t, csi("other"), byNode), `csinodes.storage.k8s.io "other" is forbidden: ` + csiName},
		{"CSINode's status", admissiontest.Update(t, csi("mine"), csi("mine"), byNode, admissiontest.Subresource("status")),
			`csinodes.storage.k8s.io "mine" is forbidden: CSIVolumeHealth feature gate is disabled`},
		{"create a slice", admissiontest.Create(t, slice(&mine), byNode), ""},
		{"create another's slice", admissiontest.Create(t, slice(&other), byNode), `resourceslices.resource.k8s.io "s" is forbidden: can only create ResourceSlice with the same NodeName as the requesting node`},
		{"create nobody's slice", admissiontest.Create(t, slice(nil), byNode), `resourceslices.resource.k8s.io "s" is forbidden: can only create ResourceSlice with the same NodeName as the requesting node`},
		{"update a slice", admissiontest.Update(t, slice(&mine), slice(&mine), byNode), ""},
		{"delete a slice", admissiontest.Delete(t, slice(&mine), byNode), ""},
		{"delete another's slice", admissiontest.Delete(t, slice(&other), byNode), `resourceslices.resource.k8s.io "s" is forbidden: can only delete ResourceSlice with the same NodeName as the requesting node`},
		{"anything else", admissiontest.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}, byNode), ""},
	})
}

func TestClaims(t *testing.T) {
	claim := func(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", ResourceVersion: "5"}}
		for _, change := range changes {
			change(c)
		}
		return c
	}
	grown := func(c *corev1.PersistentVolumeClaim) {
		size := corev1.ResourceList{"storage": resource.MustParse("2Gi")}
		c.ResourceVersion, c.ManagedFields = "", []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		c.Status.Capacity, c.Status.AllocatedResources = size, size
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{"storage": "x"}
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimResizing}}
	}
	status := admissiontest.Subresource("status")
	run(t, []judged{
		{"grown", admissiontest.Update(t, claim(), claim(grown), byNode, status), ""},
		{"whole", admissiontest.Update(t, claim(), claim(grown), byNode), `persistentvolumeclaims "c" is forbidden: may only update PVC status`},
		{"created", admissiontest.Create(t, claim(), byNode, status), `persistentvolumeclaims "c" is forbidden: unexpected operation "CREATE"`},
	})
	relabelled := claim(func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"a": "b"} })
	_, err := admissiontest.Run(t, plugin(), admissiontest.Update(t, claim(), relabelled, byNode, status))
	const want = `persistentvolumeclaims "c" is forbidden: node "mine" is not allowed to update fields other than status.quantity and status.conditions: `
	if err == nil || len(err.Error()) <= len(want) || err.Error()[:len(want)] != want {
		t.Errorf("relabelled: %v", err)
	}
}
