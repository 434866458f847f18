package cluster_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/cluster"
)

// without returns the optional plugins but some.
func without(names ...string) []cluster.AdmissionStage {
	return slices.DeleteFunc(cluster.OptionalAdmission(), func(s cluster.AdmissionStage) bool { return slices.Contains(names, s.Name) })
}

// TestOptionalAdmission: what each plugin that is off by default does once it is on.
func TestOptionalAdmission(t *testing.T) {
	c := start(t, cluster.Options{Disable: []string{"scheduler"}, Admission: append(cluster.DefaultAdmission(), without("AlwaysDeny")...)})
	cs, ctx := clientset(t, c.Config()), t.Context()
	pod := testPod("p")
	pod.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	dry := pod.DeepCopy()
	if _, err := cs.CoreV1().Pods("new").Create(ctx, dry, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run in a namespace that does not exist: %v", err)
	}
	got, err := cs.CoreV1().Pods("new").Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if policy := got.Spec.Containers[0].ImagePullPolicy; policy != corev1.PullAlways {
		t.Errorf("its pull policy is %s", policy)
	}
	if !slices.ContainsFunc(got.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "example.com/gpu" }) {
		t.Errorf("it tolerates %v", got.Spec.Tolerations)
	}
	if ns, err := cs.CoreV1().Namespaces().Get(ctx, "new", metav1.GetOptions{}); err != nil || ns.Labels["kubernetes.io/metadata.name"] != "new" {
		t.Errorf("namespace %v, %v", ns, err)
	}
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}, ExternalIPs: []string{"192.0.2.1"}}}
	_, err = cs.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
	refused(err, "Use of external IPs is denied by admission control")
	apart := testPod("apart")
	apart.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{}}},
	}}
	_, err = cs.CoreV1().Pods("default").Create(ctx, apart, metav1.CreateOptions{})
	refused(err, "only key kubernetes.io/hostname is allowed")
	ns, err := cs.CoreV1().Namespaces().Get(ctx, "new", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns.Annotations = map[string]string{
		"scheduler.alpha.kubernetes.io/node-selector":        "pool=blue",
		"scheduler.alpha.kubernetes.io/tolerationsWhitelist": `[{"operator":"Exists","effect":"NoExecute"}]`,
	}
	if _, err := cs.CoreV1().Namespaces().Update(ctx, ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := cs.CoreV1().Pods("new").Create(ctx, testPod("blue"), metav1.CreateOptions{}); err != nil || got.Spec.NodeSelector["pool"] != "blue" {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = cs.CoreV1().Pods("new").Create(ctx, func() *corev1.Pod { pod := pod.DeepCopy(); pod.Name = "gpu"; return pod }(), metav1.CreateOptions{})
	refused(err, "conflict with its namespace whitelist")
}

// TestOwnerReferences: who may not delete an object may not have it deleted with another.
func TestOwnerReferences(t *testing.T) {
	c := start(t, cluster.Options{Disable: []string{"scheduler", "garbage-collector-controller"}, Admission: append(cluster.DefaultAdmission(), without("AlwaysDeny")...)})
	cs, ctx := clientset(t, c.Config()), t.Context()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "writer"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get", "create", "update"}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "writer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "writer"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "writer"}},
	}
	if _, err := cs.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "writer"}
	maps := clientset(t, config).CoreV1().ConfigMaps("default")
	yes := true
	owned := func(name, kind string, blocks *bool) *corev1.ConfigMap {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if kind != "" {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: "owner", UID: types.UID("u"), BlockOwnerDeletion: blocks}}
		}
		return m
	}
	for _, step := range []struct {
		what string
		do   func() (*corev1.ConfigMap, error)
		want string
	}{
		{"a new object with an owner", func() (*corev1.ConfigMap, error) {
			return maps.Create(ctx, owned("a", "ConfigMap", nil), metav1.CreateOptions{})
		}, ""},
		{"a new object without", func() (*corev1.ConfigMap, error) {
			return maps.Create(ctx, owned("b", "", nil), metav1.CreateOptions{})
		}, ""},
		{"an owner for it", func() (*corev1.ConfigMap, error) {
			return maps.Update(ctx, owned("b", "ConfigMap", nil), metav1.UpdateOptions{})
		},
			"cannot set an ownerRef on a resource you can't delete"},
		{"one that it blocks", func() (*corev1.ConfigMap, error) {
			return maps.Create(ctx, owned("c", "ConfigMap", &yes), metav1.CreateOptions{})
		},
			"cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"},
		{"of a kind that there is not", func() (*corev1.ConfigMap, error) {
			return maps.Create(ctx, owned("c", "Nothing", &yes), metav1.CreateOptions{})
		},
			`cannot find RESTMapping for APIVersion v1 Kind Nothing: no matches for kind "Nothing" in version "v1"`},
	} {
		if _, err := step.do(); (err == nil) != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) {
			t.Errorf("%s: %v, want %q", step.what, err, step.want)
		}
	}
}

// TestTopologyLabels: a pod has the labels of its node's place once it is bound.
func TestTopologyLabels(t *testing.T) {
	c := start(t, cluster.Options{Disable: []string{"scheduler"}})
	cs, ctx := clientset(t, c.Config()), t.Context()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "placed", Labels: map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "r"}}}
	if _, err := cs.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request := func(cpu string) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}
	}
	made := testPod("p")
	made.Spec.Resources = request("500m")
	if _, err := cs.CoreV1().Pods("default").Create(ctx, made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bind := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "placed"}}
	if err := cs.CoreV1().Pods("default").Bind(ctx, bind, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := cs.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{})
	if err != nil || pod.Labels[corev1.LabelTopologyZone] != "z" || pod.Labels[corev1.LabelTopologyRegion] != "r" {
		t.Errorf("got %v, %v", pod.Labels, err)
	}
	// What the node does not declare cannot be asked of it.
	pod.Spec.Resources = request("1")
	_, err = cs.CoreV1().Pods("default").UpdateResize(ctx, "p", pod, metav1.UpdateOptions{})
	if err == nil || !strings.Contains(err.Error(), "pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node \"placed\"") {
		t.Errorf("a resize: %v", err)
	}
}

// Every plugin of upstream's default is on, in its order, but for one whose kind is not served and those that come with an
// extension.
func TestDefaultAdmission(t *testing.T) {
	elsewhere := []string{"PodGroupProtection", "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook"}
	want := slices.DeleteFunc(admission.UpstreamDefault(), func(name string) bool { return slices.Contains(elsewhere, name) })
	got := slices.DeleteFunc(cluster.StageNames(cluster.DefaultAdmission()), func(name string) bool { return name == "NodeRestriction" })
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	off := []string{"NodeRestriction", "ImagePolicyWebhook", "EventRateLimit"} // on by default; they need a configuration
	want = slices.DeleteFunc(admission.UpstreamOrder(), func(name string) bool {
		return slices.Contains(off, name) || slices.Contains(admission.UpstreamDefault(), name)
	})
	if got := cluster.StageNames(cluster.OptionalAdmission()); !slices.Equal(got, want) {
		t.Errorf("optional: got %v\nwant %v", got, want)
	}
}
