package cluster_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/registry"
)

// need is a permission that a request needed from RBAC, because neither system:masters nor the Node authorizer allowed
// it.
type need struct {
	user, verb, group, resource, subresource, namespace, name, path string
}

// witness records who requests which permissions, and who writes.
type witness struct {
	mu      sync.Mutex
	needs   map[need]authz.Attributes
	writers map[string]*authn.Identity
	log     bytes.Buffer
}

func newWitness() *witness {
	return &witness{needs: map[need]authz.Attributes{}, writers: map[string]*authn.Identity{}}
}

// options adds the witness to a cluster. As an authorizer it comes before RBAC and has no opinion; as an admission
// plugin it sees all writes, including those of system:masters.
func (w *witness) options(o cluster.Options) cluster.Options {
	o.Authorizers = slices.Insert(cluster.DefaultAuthorizers(), 2, cluster.Ready[authz.Authorizer]("witness", w))
	o.Admission = append(cluster.DefaultAdmission(), cluster.Plugins(w)...)
	o.Logger = slog.New(slog.NewTextHandler(lockedWriter{w}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return o
}

type lockedWriter struct{ *witness }

func (w lockedWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(line)
}

// Authorize implements authz.Authorizer.
func (w *witness) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.needs[need{a.User.Name, a.Verb, a.Group, a.Resource, a.Subresource, a.Namespace, a.Name, a.Path}] = a
	return authz.Decision{}, nil
}

// Name implements admission.Plugin.
func (*witness) Name() string { return "Witness" }

// Handles implements admission.Plugin.
func (*witness) Handles(admission.Operation) bool { return true }

// Validate implements admission.Validator.
func (w *witness) Validate(_ context.Context, r *admission.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writers[r.User.Name] = r.User
	return nil
}

// policy returns an authorizer for the cluster's current RBAC objects.
func policy(t *testing.T, c *cluster.Cluster) authz.Authorizer {
	t.Helper()
	return rbac.New(rbac.Sources{
		Roles:               liveRBAC[*rbacv1.Role](t, c, "roles"),
		RoleBindings:        liveRBAC[*rbacv1.RoleBinding](t, c, "rolebindings"),
		ClusterRoles:        liveRBAC[*rbacv1.ClusterRole](t, c, "clusterroles"),
		ClusterRoleBindings: liveRBAC[*rbacv1.ClusterRoleBinding](t, c, "clusterrolebindings"),
	})
}

func liveRBAC[T registry.Object](t *testing.T, c *cluster.Cluster, resource string) *registry.Live[T] {
	t.Helper()
	live, err := registry.NewLive[T](c.Registry(), schema.GroupResource{Group: rbacv1.GroupName, Resource: resource})
	if err != nil {
		t.Fatal(err)
	}
	return live
}

// upstreamUsers returns the identities of upstream's components, taken from the subjects of its default bindings.
func upstreamUsers() map[string]bool {
	users := map[string]bool{"system:kube-scheduler": true}
	var subjects []rbacv1.Subject
	for _, b := range bootstrap.Policy().ClusterRoleBindings {
		subjects = append(subjects, b.Subjects...)
	}
	for _, b := range bootstrap.Policy().RoleBindings {
		subjects = append(subjects, b.Subjects...)
	}
	for _, s := range subjects {
		if s.Kind == rbacv1.ServiceAccountKind {
			users["system:serviceaccount:"+s.Namespace+":"+s.Name] = true
		}
	}
	return users
}

// violations returns the observed violations of least privilege.
func (w *witness) violations(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	users, rules := upstreamUsers(), policy(t, c)
	known := func(name string) bool { return users[name] || strings.HasPrefix(name, "system:node:node-") }
	var bad []string
	for _, name := range slices.Sorted(maps.Keys(w.writers)) {
		switch {
		case name == cluster.Admin().Name:
		case !known(name):
			bad = append(bad, name+" is nobody upstream knows, and writes")
		case slices.Contains(w.writers[name].Groups, authn.GroupMasters):
			bad = append(bad, name+" is of "+authn.GroupMasters)
		}
	}
	order := func(a, b need) int {
		return cmp.Or(strings.Compare(a.user, b.user), strings.Compare(a.resource, b.resource), strings.Compare(a.verb, b.verb), strings.Compare(a.name, b.name))
	}
	for _, n := range slices.SortedFunc(maps.Keys(w.needs), order) {
		request := fmt.Sprintf("%s: %s %s/%s %s", n.user, n.verb, n.resource, n.subresource, n.name)
		if !known(n.user) {
			bad = append(bad, request+": nobody upstream knows")
		}
		if d, err := rules.Authorize(t.Context(), w.needs[n]); err != nil || d.Verdict != authz.Allow {
			bad = append(bad, request+": refused "+d.Why(w.needs[n]))
		}
	}
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, "cannot ") && strings.Contains(line, "forbidden") {
			bad = append(bad, "the log tells of a refusal: "+line)
		}
	}
	return bad
}

// silent returns the components that made no requests, about which nothing is therefore known.
func (w *witness) silent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := map[string]bool{}
	for n := range w.needs {
		asked[n.user] = true
	}
	for name := range w.writers {
		asked[name] = true
	}
	users := []string{"system:kube-scheduler", "system:node:node-0", "system:node:node-1"}
	for _, account := range []string{
		"clusterrole-aggregation-controller", "daemon-set-controller", "deployment-controller", "disruption-controller", "endpoint-controller", "endpointslice-controller",
		"generic-garbage-collector", "namespace-controller", "node-controller", "replicaset-controller", "replication-controller", "root-ca-cert-publisher", "service-account-controller",
	} {
		users = append(users, "system:serviceaccount:kube-system:"+account)
	}
	return slices.DeleteFunc(users, func(user string) bool { return asked[user] })
}

// TestLeastPrivilege: every component acts under upstream's identity and roles, and is refused nothing.
func TestLeastPrivilege(t *testing.T) {
	seen := newWitness()
	inBubble(t, seen.options(nodes(2)), func(t *testing.T, w *world) {
		tellShop(w)
		for _, bad := range seen.violations(t, w.c) {
			t.Error(bad)
		}
		if silent := seen.silent(); len(silent) > 0 {
			t.Errorf("the story does not tell of %q", silent)
		}
	})
}

// TestWitness: the witness detects violations.
func TestWitness(t *testing.T) {
	seen := newWitness()
	c := start(t, seen.options(cluster.Options{}))
	scheduler := &authn.Identity{Name: "system:kube-scheduler", Groups: []string{authn.GroupMasters}}
	if _, err := clientset(t, c.ConfigFor(scheduler)).CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	collector := authn.ServiceAccountIdentity("kube-system", "generic-garbage-collector")
	for _, id := range []*authn.Identity{cluster.User("jane"), collector} {
		if _, err := clientset(t, c.ConfigFor(id)).CoreV1().ConfigMaps("default").Create(t.Context(), configMap("b"), metav1.CreateOptions{}); err == nil {
			t.Errorf("%s may create", id.Name)
		}
	}
	got := seen.violations(t, c)
	want := []string{
		"system:kube-scheduler is of system:masters",
		"jane: create configmaps/ : nobody upstream knows", "jane: create configmaps/ : refused ",
		"system:serviceaccount:kube-system:generic-garbage-collector: create configmaps/ : refused ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("noticed %q, want %q", got, want)
	}
}

// tellShop exercises a namespace with a Deployment, a Service and a budget from creation to deletion.
func tellShop(w *world) {
	w.t.Helper()
	ctx := w.ctx
	_, err := w.cs.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "carts", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"shop.example.com"}, Resources: []string{"carts"}, Verbs: []string{"create"}}},
	}, metav1.CreateOptions{})
	w.check(err)
	_, err = w.cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
	w.check(err)
	time.Sleep(time.Second)
	labels := map[string]string{"app": "web"}
	_, err = w.cs.CoreV1().Services("shop").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	w.check(err)
	two := intstr.FromInt32(2)
	_, err = w.cs.PolicyV1().PodDisruptionBudgets("shop").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &two, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	w.check(err)
	tellOthers(w)
	deployments := w.cs.AppsV1().Deployments("shop")
	_, err = deployments.Create(ctx, deploymentOf("web", 3), metav1.CreateOptions{})
	w.check(err)
	time.Sleep(30 * time.Second)
	for _, patch := range []string{
		`{"spec":{"replicas":5}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:2"}]}}}}`,
		`{"spec":{"replicas":3,"revisionHistoryLimit":0}}`,
	} {
		_, err = deployments.Patch(ctx, "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		w.check(err)
		time.Sleep(time.Minute)
	}
	pods, err := w.cs.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
	w.check(err)
	if len(pods.Items) != 3 {
		w.t.Fatalf("%d pods", len(pods.Items))
	}
	w.check(w.cs.PolicyV1().Evictions("shop").Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pods.Items[0].Name}}))
	time.Sleep(time.Minute)
	node, err := w.c.Node("node-1")
	w.check(err)
	node.Stop()
	time.Sleep(8 * time.Minute)
	node.Start()
	time.Sleep(time.Minute)
	foreground := metav1.DeletePropagationForeground
	w.check(deployments.Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: &foreground}))
	time.Sleep(time.Minute)
	_, err = deployments.Create(ctx, deploymentOf("again", 2), metav1.CreateOptions{})
	w.check(err)
	time.Sleep(30 * time.Second)
	orphan := metav1.DeletePropagationOrphan
	w.check(deployments.Delete(ctx, "again", metav1.DeleteOptions{PropagationPolicy: &orphan}))
	time.Sleep(10 * time.Second)
	w.check(w.cs.CoreV1().Namespaces().Delete(ctx, "shop", metav1.DeleteOptions{}))
	time.Sleep(2 * time.Minute)
	if left, err := w.cs.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{}); err == nil {
		w.t.Errorf("the namespace is left: %+v", left.Status)
	}
}

// tellOthers does so with a DaemonSet and a ReplicationController.
func tellOthers(w *world) {
	w.t.Helper()
	sets, rcs := w.cs.AppsV1().DaemonSets("shop"), w.cs.CoreV1().ReplicationControllers("shop")
	set := daemonSetOf("log")
	set.Spec.RevisionHistoryLimit = new(int32(0))
	_, err := sets.Create(w.ctx, set, metav1.CreateOptions{})
	w.check(err)
	_, err = rcs.Create(w.ctx, rcOf("old", 3), metav1.CreateOptions{})
	w.check(err)
	time.Sleep(30 * time.Second)
	_, err = rcs.Patch(w.ctx, "old", types.StrategicMergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
	w.check(err)
	for _, image := range []string{"nginx:2", "nginx:3"} {
		patch := `{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"` + image + `"}]}}}}`
		_, err = sets.Patch(w.ctx, "log", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		w.check(err)
		time.Sleep(time.Minute)
	}
	background := metav1.DeletePropagationBackground
	w.check(sets.Delete(w.ctx, "log", metav1.DeleteOptions{PropagationPolicy: &background}))
	w.check(rcs.Delete(w.ctx, "old", metav1.DeleteOptions{PropagationPolicy: &background}))
	time.Sleep(time.Minute)
}
