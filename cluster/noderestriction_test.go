package cluster_test

import (
	"context"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
)

// stolen is a cluster of two nodes with a pod on each, and the credentials of the first.
type stolen struct {
	t     *testing.T
	ctx   context.Context
	admin kubernetes.Interface
	node  kubernetes.Interface // as node-0
	uid   types.UID            // of node-0
	mine  *corev1.Pod
	other *corev1.Pod // on node-1
}

func steal(t *testing.T, o cluster.Options) *stolen {
	t.Helper()
	o.Nodes.Count = 2
	c := start(t, o)
	if err := c.WaitNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &stolen{t: t, ctx: t.Context(), admin: clientset(t, c.Config()), node: clientset(t, c.ConfigFor(authn.NodeIdentity("node-0")))}
	_, err := s.admin.CoreV1().Secrets("kube-system").Create(s.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "crown"}}, metav1.CreateOptions{})
	s.check(err)
	_, err = s.admin.CoreV1().ServiceAccounts("kube-system").Create(s.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "admin"}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		s.check(err)
	}
	node, err := s.admin.CoreV1().Nodes().Get(s.ctx, "node-0", metav1.GetOptions{})
	s.check(err)
	s.uid = node.UID
	place := func(name, node string) *corev1.Pod {
		pod := testPod(name)
		pod.Spec.NodeName = node
		made, err := s.admin.CoreV1().Pods("default").Create(s.ctx, pod, metav1.CreateOptions{})
		s.check(err)
		return made
	}
	s.mine, s.other = place("mine", "node-0"), place("other", "node-1")
	return s
}

func (s *stolen) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// spy creates a pod on a node that mounts a system secret and runs as a system account.
func (s *stolen) spy(node string, mirror bool) error {
	pod := testPod("spy")
	pod.Spec.NodeName = node
	if mirror {
		yes := true
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-0", UID: s.uid, Controller: &yes}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "crown"}}}}
	} else {
		pod.Spec.ServiceAccountName = "admin"
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "crown"}}}}
	}
	_, err := s.node.CoreV1().Pods("kube-system").Create(s.ctx, pod, metav1.CreateOptions{})
	return err
}

func (s *stolen) token(pod *corev1.Pod, audiences ...string) error {
	spec := authenticationv1.TokenRequestSpec{Audiences: audiences}
	if pod != nil {
		spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	_, err := s.node.CoreV1().ServiceAccounts("default").CreateToken(s.ctx, "default", &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
	return err
}

func (s *stolen) patchNode(name, patch string) error {
	_, err := s.node.CoreV1().Nodes().Patch(s.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (s *stolen) patchStatus(pod, patch string) error {
	_, err := s.node.CoreV1().Pods("default").Patch(s.ctx, pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

func (s *stolen) evict(pod string) error {
	return s.node.CoreV1().Pods("default").EvictV1(s.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod}})
}

func (s *stolen) lease(namespace string) error {
	_, err := s.node.CoordinationV1().Leases(namespace).Create(s.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "node-7"}}, metav1.CreateOptions{})
	return err
}

// attack is something that a thief of a node's credentials tries.
type attack struct {
	name    string
	try     func() error
	refusal string
}

// attacks returns the attacks that only admission can refuse, because the Node authorizer allows the request.
func (s *stolen) attacks() []attack {
	pods := s.node.CoreV1().Pods("default")
	return []attack{
		{"read a secret by a pod", func() error { return s.spy("node-0", false) },
			`pods "spy" is forbidden: pod does not have "kubernetes.io/config.mirror" annotation, node "node-0" can only create mirror pods`},
		{"read a secret by a pod elsewhere", func() error { return s.spy("node-1", false) },
			`pods "spy" is forbidden: pod does not have "kubernetes.io/config.mirror" annotation, node "node-0" can only create mirror pods`},
		{"read data by a mirror pod", func() error { return s.spy("node-0", true) },
			`pods "spy" is forbidden: node "node-0" can not create pods that reference persistentvolumeclaims`},
		{"a mirror pod elsewhere", func() error { return s.spy("node-1", true) },
			`pods "spy" is forbidden: node "node-0" can only create pods with spec.nodeName set to itself`},
		{"a token for ever", func() error { return s.token(nil) },
			`serviceaccounts "default" is forbidden: node requested token not bound to a pod`},
		{"a token of another's pod", func() error { return s.token(s.other) },
			`serviceaccounts "default" is forbidden: node requested token bound to a pod scheduled on a different node`},
		{"a token for somebody else's door", func() error { return s.token(s.mine, "vault") },
			`serviceaccounts "default" is forbidden: system:node:node-0 is not authorized to request tokens for audience "vault"`},
		{"cordon another node", func() error { return s.patchNode("node-1", `{"spec":{"unschedulable":true}}`) },
			`nodes "node-1" is forbidden: node "node-0" is not allowed to modify node "node-1"`},
		{"lure pods by a label", func() error {
			return s.patchNode("node-0", `{"metadata":{"labels":{"node-restriction.kubernetes.io/pci":"yes"}}}`)
		}, `nodes "node-0" is forbidden: is not allowed to modify labels: node-restriction.kubernetes.io/pci`},
		{"lure pods by a role", func() error {
			return s.patchNode("node-0", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`)
		}, `nodes "node-0" is forbidden: is not allowed to modify labels: node-role.kubernetes.io/control-plane`},
		{"change taints", func() error { return s.patchNode("node-0", `{"spec":{"taints":[{"key":"x","effect":"NoSchedule"}]}}`) },
			`nodes "node-0" is forbidden: node "node-0" is not allowed to modify taints`},
		{"another node's health", func() error {
			_, err := s.node.CoreV1().Nodes().Patch(s.ctx, "node-1", types.MergePatchType, []byte(`{"status":{"phase":"Terminated"}}`), metav1.PatchOptions{}, "status")
			return err
		}, `nodes "node-1" is forbidden: node "node-0" is not allowed to modify node "node-1"`},
		{"a node that is none", func() error {
			_, err := s.node.CoreV1().Nodes().Create(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-7"}}, metav1.CreateOptions{})
			return err
		}, `nodes "node-7" is forbidden: node "node-0" is not allowed to modify node "node-7"`},
		{"another's pod is ready", func() error { return s.patchStatus("other", `{"status":{"phase":"Failed"}}`) },
			`pods "other" is forbidden: node "node-0" can only update pod status for pods with spec.nodeName set to itself`},
		{"a service's traffic by labels", func() error { return s.patchStatus("mine", `{"metadata":{"labels":{"app":"bank"}}}`) },
			`pods "mine" is forbidden: node "node-0" cannot update labels through pod status`},
		{"evict another's pod", func() error { return s.evict("other") },
			`pods "other" is forbidden: node node-0 can only evict pods with spec.nodeName set to itself`},
		{"delete another's pod", func() error { return pods.Delete(s.ctx, "other", metav1.DeleteOptions{}) },
			`pods "other" is forbidden: node "node-0" can only delete pods with spec.nodeName set to itself`},
		{"another's lease", func() error { return s.lease("kube-node-lease") },
			`leases.coordination.k8s.io "node-7" is forbidden: can only access node lease with the same name as the requesting node`},
	}
}

// TestStolenNode: the credentials of a node give access to that node only.
func TestStolenNode(t *testing.T) {
	s := steal(t, cluster.Options{})
	for _, a := range s.attacks() {
		if err := a.try(); !apierrors.IsForbidden(err) || err.Error() != a.refusal {
			t.Errorf("%s: got %v, want %s", a.name, err, a.refusal)
		}
	}
	// What the Node authorizer refuses.
	core := s.node.CoreV1()
	for name, try := range map[string]func() error{
		"a secret": func() error {
			_, err := core.Secrets("kube-system").Get(s.ctx, "crown", metav1.GetOptions{})
			return err
		},
		"all secrets": func() error { _, err := core.Secrets("kube-system").List(s.ctx, metav1.ListOptions{}); return err },
		"a token of an account that no pod here has": func() error {
			_, err := core.ServiceAccounts("kube-system").CreateToken(s.ctx, "admin", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			return err
		},
		"all pods":            func() error { _, err := core.Pods("").List(s.ctx, metav1.ListOptions{}); return err },
		"another's pod":       func() error { _, err := core.Pods("default").Get(s.ctx, "other", metav1.GetOptions{}); return err },
		"delete another node": func() error { return core.Nodes().Delete(s.ctx, "node-1", metav1.DeleteOptions{}) },
		"delete itself":       func() error { return core.Nodes().Delete(s.ctx, "node-0", metav1.DeleteOptions{}) },
		"others' events":      func() error { _, err := core.Events("").List(s.ctx, metav1.ListOptions{}); return err },
		"delete events":       func() error { return core.Events("default").Delete(s.ctx, "x", metav1.DeleteOptions{}) },
		"a lease elsewhere":   func() error { return s.lease("kube-system") },
		"another's lease": func() error {
			return s.node.CoordinationV1().Leases("kube-node-lease").Delete(s.ctx, "node-1", metav1.DeleteOptions{})
		},
		"bind a pod": func() error {
			return core.Pods("default").Bind(s.ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-0"}}, metav1.CreateOptions{})
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.works()
}

// works checks what a node may do for its pods, as far as the kubelet does not do it in this test.
func (s *stolen) works() {
	s.t.Helper()
	yes := true
	mirror := testPod("static-node-0")
	mirror.Spec.NodeName = "node-0"
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	mirror.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-0", UID: s.uid, Controller: &yes}}
	pods := s.node.CoreV1().Pods("default")
	for name, try := range map[string]func() error{
		"a mirror pod": func() error {
			if _, err := pods.Create(s.ctx, mirror, metav1.CreateOptions{}); err != nil {
				return err
			}
			zero := int64(0)
			return pods.Delete(s.ctx, mirror.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
		},
		"a token of its pod": func() error { return s.token(s.mine) },
		"a label that describes it": func() error {
			return s.patchNode("node-0", `{"metadata":{"labels":{"topology.kubernetes.io/zone":"z","example.com/x":"y"}}}`)
		},
		"the status of its pod": func() error { return s.patchStatus("mine", `{"status":{"message":"x"}}`) },
	} {
		if err := try(); err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.evict("mine"); err != nil { // last, since it ends the pod that the others use
		s.t.Errorf("an eviction: %v", err)
	}
}

// TestStolenNodeWithoutPlugin: without the plugin, the attacks succeed.
func TestStolenNodeWithoutPlugin(t *testing.T) {
	s := steal(t, cluster.Options{Disable: []string{"NodeRestriction"}})
	for _, a := range s.attacks() {
		if err := a.try(); err != nil && err.Error() == a.refusal {
			t.Errorf("%s is refused by something else: %v", a.name, err)
		}
	}
	// The whole attack: a pod created by the attacker makes the secret that it mounts readable.
	if _, err := s.node.CoreV1().Secrets("kube-system").Get(s.ctx, "crown", metav1.GetOptions{}); err != nil {
		t.Errorf("the attack would not have worked: %v", err)
	}
}
