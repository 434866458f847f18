package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/component/kubescheduler"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestStore: a caller's store holds upstream's keys and outlives the cluster.
func TestStore(t *testing.T) {
	store := memory.New(memory.Options{})
	defer store.Close()
	for life := range 2 {
		c, err := cluster.Start(t.Context(), cluster.Options{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		maps := clientset(t, c.Config()).CoreV1().ConfigMaps("default")
		if life == 0 {
			_, err = maps.Create(t.Context(), configMap("kept"), metav1.CreateOptions{})
		} else {
			_, err = maps.Get(t.Context(), "kept", metav1.GetOptions{})
		}
		if err != nil {
			t.Errorf("life %d: %v", life, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		record, err := store.Get(t.Context(), "/registry/configmaps/default/kept")
		if err != nil || !strings.HasPrefix(string(record.Value), "k8s\x00") {
			t.Errorf("in the store after life %d: %q %v", life, record.Value, err)
		}
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if _, err := cluster.Start(t.Context(), cluster.Options{Store: store}); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a cluster on a closed store: %v", err)
	}
}

// TestAdmission: mutators run before validators, custom plugins after upstream's, and each refusal has the plugin's
// text.
func TestAdmission(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note := func(name string, r *admission.Request) bool {
		pod, ok := r.Object.(*corev1.Pod)
		if !ok || pod.Namespace != "default" {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		order = append(order, name)
		return true
	}
	mutate := func(name string) admission.Plugin {
		return admission.MutatorFunc(name, func(_ context.Context, r *admission.Request) error {
			if note("mutate "+name, r) {
				pod := r.Object.(*corev1.Pod)
				pod.Labels = map[string]string{"by": pod.Labels["by"] + name, "account": pod.Spec.ServiceAccountName}
			}
			return nil
		}, admission.Create)
	}
	validate := admission.ValidatorFunc("C", func(_ context.Context, r *admission.Request) error {
		if note("validate C", r) && strings.HasPrefix(r.Name, "bad") {
			return admission.Forbidden(r, "seen labels %s", r.Object.(*corev1.Pod).Labels["by"])
		}
		if strings.HasPrefix(r.Name, "odd") {
			return errors.New("the moon is full")
		}
		return nil
	}, admission.Create)
	c := start(t, cluster.Options{Admission: append(cluster.DefaultAdmission(), cluster.Plugins(validate, mutate("B"), mutate("A"))...), Disable: []string{"scheduler"}})
	pods := clientset(t, c.Config()).CoreV1().Pods("default")
	pod, err := pods.Create(t.Context(), testPod("good"), metav1.CreateOptions{})
	if err != nil || pod.Labels["by"] != "BA" {
		t.Errorf("mutated to %v: %v", pod.Labels, err)
	}
	if pod.Labels["account"] != "default" {
		t.Errorf("one's own plugin ran before ServiceAccount: %v", pod.Labels)
	}
	if want := []string{"mutate B", "mutate A", "validate C"}; !slices.Equal(order, want) {
		t.Errorf("order is %v, want %v", order, want)
	}
	if _, err := pods.Create(t.Context(), testPod("bad"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) || err.Error() != `pods "bad" is forbidden: seen labels BA` {
		t.Errorf("a refusal: %v", err)
	}
	// As upstream, an error that is not an API error refuses too.
	if _, err := pods.Create(t.Context(), testPod("odd"), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "the moon is full") {
		t.Errorf("an error of the plugin's own: %v", err)
	}
	if _, err := pods.Get(t.Context(), "bad", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was refused: %v", err)
	}
}

// TestAuthenticators: a bearer token identifies a client without an identity.
func TestAuthenticators(t *testing.T) {
	tokens := token.New(token.Static(map[string]*authn.Identity{
		"s3cret": {Name: "jane", Groups: []string{"shop"}, Extra: map[string][]string{"example.com/floor": {"2"}}},
	}))
	c := start(t, cluster.Options{Authenticators: []cluster.AuthenticatorStage{cluster.Ready[authn.Authenticator]("tokens", tokens)}})
	who := func(bearer string) (*authenticationv1.SelfSubjectReview, error) {
		config := c.Anonymous()
		config.BearerToken = bearer
		return clientset(t, config).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	}
	review, err := who("s3cret")
	if err != nil {
		t.Fatal(err)
	}
	if got := review.Status.UserInfo; got.Username != "jane" || !slices.Equal(got.Groups, []string{"shop", "system:authenticated"}) || got.Extra["example.com/floor"][0] != "2" {
		t.Errorf("the token is %+v", got)
	}
	if _, err := who("guess"); !apierrors.IsUnauthorized(err) {
		t.Errorf("a wrong token: %v", err)
	}
	if _, err := who(""); !apierrors.IsForbidden(err) {
		t.Errorf("no token, so anonymous, who may not review themselves: %v", err)
	}
}

// TestAuthorizers: authorizers before RBAC allow and deny; RBAC decides where they have no opinion.
func TestAuthorizers(t *testing.T) {
	night := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
		switch {
		case a.User.Name == "jane" && a.Resource == "configmaps":
			return authz.Decision{Verdict: authz.Allow}, nil
		case a.User.Name == "root" && a.Resource == "secrets":
			return authz.Decision{Verdict: authz.Deny, Reason: "not at night"}, nil
		}
		return authz.Decision{}, nil
	})
	c := start(t, cluster.Options{Authorizers: slices.Insert(cluster.DefaultAuthorizers(), 2, cluster.Ready[authz.Authorizer]("night", night))})
	jane := clientset(t, c.ConfigFor(cluster.User("jane"))).CoreV1()
	if _, err := jane.ConfigMaps("default").Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
		t.Errorf("what is allowed: %v", err)
	}
	if _, err := jane.Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what nobody allows: %v", err)
	}
	root := clientset(t, c.ConfigFor(cluster.User("root", "admins"))).CoreV1()
	if _, err := root.Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "not at night") {
		t.Errorf("what is denied: %v", err)
	}
}

// TestSchedulerOptions: predicates filter nodes, priorities rank them, and each decision is reported.
func TestSchedulerOptions(t *testing.T) {
	var mu sync.Mutex
	var decisions []scheduler.Decision
	profile := kubescheduler.Profile()
	notFirst := scheduler.PredicateFunc("NotFirst", func(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
		if n.Node.Name == "node-0" {
			return scheduler.Refuse("node(s) were the first")
		}
		return nil
	})
	last := scheduler.PriorityFunc("Last", func(_ *corev1.Pod, n *scheduler.NodeInfo) int64 {
		if n.Node.Name == "node-2" {
			return scheduler.MaxScore
		}
		return 0
	})
	profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: notFirst}, scheduler.Enabled{Plugin: last, Weight: 10})
	inBubble(t, cluster.Options{
		Nodes: cluster.Nodes{Count: 3},
		Components: component.With(cluster.DefaultComponents(), kubescheduler.Component(kubescheduler.Options{
			Profile: profile,
			OnDecision: func(d scheduler.Decision) {
				mu.Lock()
				defer mu.Unlock()
				decisions = append(decisions, d)
			},
		})),
	}, func(t *testing.T, w *world) {
		w.create(deploymentOf("web", 3))
		time.Sleep(5 * time.Second)
		for _, p := range w.running("web", 3, "") {
			if p.Spec.NodeName != "node-2" {
				t.Errorf("%s is on %s", p.Name, p.Spec.NodeName)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(decisions) != 3 || decisions[0].Node != "node-2" || decisions[0].Verdicts[0].RefusedBy != "NotFirst" {
			t.Errorf("decisions are %v", decisions)
		}
	})
}

// TestSeed: two clusters with the same seed generate the same UIDs and names; another seed gives others.
func TestSeed(t *testing.T) {
	play := func(seed uint64) (made []string) {
		o := nodes(2)
		o.Seed, o.Settle = &seed, time.Millisecond
		inBubble(t, o, func(t *testing.T, w *world) {
			w.create(deploymentOf("web", 3))
			time.Sleep(10 * time.Second)
			for _, p := range w.running("web", 3, "") {
				made = append(made, fmt.Sprint(p.Name, " ", p.UID, " ", p.Spec.NodeName))
			}
		})
		return made
	}
	first := play(1)
	if again := play(1); !slices.Equal(first, again) {
		t.Errorf("the same seed made\n%v and\n%v", first, again)
	}
	if other := play(2); slices.Equal(first, other) {
		t.Errorf("another seed made the same: %v", other)
	}
}

// TestSettle: however long components wait for related events, everything still happens.
func TestSettle(t *testing.T) {
	o := nodes(2)
	o.Settle = 20 * time.Millisecond
	inBubble(t, o, func(t *testing.T, w *world) {
		began := time.Now()
		w.create(deploymentOf("web", 3))
		time.Sleep(time.Minute)
		w.running("web", 3, "nginx")
		for _, p := range w.listed("web") {
			if p.CreationTimestamp.Equal(new(metav1.NewTime(began.Truncate(time.Second)))) {
				t.Errorf("%s was created at once, though the controllers wait", p.Name)
			}
		}
	})
}

// TestOnMutation: modifications of shared objects are detected.
func TestOnMutation(t *testing.T) {
	caught := make(chan error, 100)
	o := cluster.Options{Nodes: cluster.Nodes{Count: 1}, OnMutation: func(err error) { caught <- err }}
	inBubble(t, o, func(t *testing.T, w *world) {
		pod := testPod("victim")
		pod.Labels = map[string]string{"app": "web"}
		_, err := w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Minute)
		select {
		case err := <-caught:
			t.Fatalf("nobody changed anything: %v", err)
		default:
		}
		pods, _ := w.c.Registry().Resource(schema.GroupResource{Resource: "pods"})
		shared, err := pods.Get(w.ctx, "default", "victim", "0")
		w.check(err)
		synctest.Wait() // nothing is reading it now
		shared.Object.GetLabels()["vandal"] = "was here"
		// It is noticed when the object leaves the caches, or at the latest by Close.
		w.check(w.pods.Delete(w.ctx, "victim", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		select {
		case err := <-caught:
			if !strings.Contains(err.Error(), "victim") {
				t.Errorf("it does not say which object: %v", err)
			}
		default:
			t.Error("nobody noticed")
		}
	})
}

// TestNodes checks the nodes' count and capacity, the changes of Prepare, and the runtimes.
func TestNodes(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]bool{}
	o := cluster.Options{Nodes: cluster.Nodes{
		Count:    2,
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("3")},
		Prepare: func(n *corev1.Node) {
			n.Labels = map[string]string{"disk": "fast", "name": n.Name}
			if n.Name == "node-1" {
				n.Spec.Taints = []corev1.Taint{{Key: "only", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
				n.Status.Capacity["example.com/gpu"] = resource.MustParse("4")
			}
		},
		Runtime: func(node string) simulated.Options {
			mu.Lock()
			defer mu.Unlock()
			asked[node] = true
			return simulated.Options{Images: []string{"nginx:" + node}}
		},
	}}
	inBubble(t, o, func(t *testing.T, w *world) {
		l, err := w.cs.CoreV1().Nodes().List(w.ctx, metav1.ListOptions{LabelSelector: "disk=fast"})
		w.check(err)
		if len(l.Items) != 2 || l.Items[0].Labels["name"] != "node-0" || l.Items[0].Labels[corev1.LabelHostname] != "node-0" {
			t.Fatalf("nodes are %+v", l.Items)
		}
		if c := l.Items[0].Status.Capacity; c.Cpu().Value() != 2 || c.Pods().Value() != 3 {
			t.Errorf("capacity is %v", c)
		}
		if gpu := l.Items[1].Status.Allocatable["example.com/gpu"]; gpu.Value() != 4 {
			t.Errorf("what Prepare added: %v", l.Items[1].Status.Allocatable)
		}
		if _, leaked := l.Items[0].Status.Capacity["example.com/gpu"]; leaked {
			t.Error("what Prepare does to one node shows on the other")
		}
		if !slices.ContainsFunc(l.Items[1].Spec.Taints, func(t corev1.Taint) bool { return t.Key == "only" }) {
			t.Errorf("taints are %v", l.Items[1].Spec.Taints)
		}
		mu.Lock()
		defer mu.Unlock()
		if !asked["node-0"] || !asked["node-1"] || !strings.Contains(fmt.Sprint(l.Items[1].Status.Images), "nginx:node-1") {
			t.Errorf("runtimes were asked for %v, images are %v", asked, l.Items[1].Status.Images)
		}
		w.create(deploymentOf("web", 5))
		time.Sleep(10 * time.Second)
		at := map[string]int{}
		for _, p := range w.listed("web") {
			at[p.Spec.NodeName]++
		}
		if at["node-0"] != 3 || at[""] != 2 {
			t.Errorf("pods per node are %v", at)
		}
		n, err := w.c.Node("node-0")
		w.check(err)
		containers, err := n.Runtime().ListContainers(w.ctx, cri.Filter{})
		if err != nil || len(containers) != 3 {
			t.Errorf("the runtime of node-0 has %d containers: %v", len(containers), err)
		}
		if _, err := w.c.Node("node-2"); !errors.Is(err, cluster.ErrUnknownNode) {
			t.Errorf("a node that is not there: %v", err)
		}
	})
}

// TestBadOptions: New rejects invalid options, and its error names them.
func TestBadOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	twice := carts()
	builtin := carts()
	builtin.Names, builtin.GroupVersion = registry.Names{Kind: "Pod", Plural: "pods", Singular: "pod"}, corev1.SchemeGroupVersion
	run := func(name string) cluster.Component {
		return cluster.Component{Name: name, Identity: authn.NodeIdentity("n"), New: func(*component.Parts) (lifecycle.Runnable, error) {
			return lifecycle.Func(func(context.Context) error { return nil }), nil
		}}
	}
	for _, test := range []struct {
		name    string
		options cluster.Options
		want    string
	}{
		{"unknown component", cluster.Options{Disable: []string{"kubelet"}}, `cannot disable "kubelet"; there are deployment-controller,`},
		{"negative count", cluster.Options{Nodes: cluster.Nodes{Count: -1}}, "Nodes.Count is -1: must lie between 0 and 16384"},
		{"too many nodes", cluster.Options{Nodes: cluster.Nodes{Count: 1 << 20}}, "Nodes.Count is 1048576: must lie between"},
		{"a file for a directory", cluster.Options{Dir: file}, file},
		{"a kind twice", cluster.Options{Kinds: []registry.Kind{twice, twice}}, "carts.shop.example.com"},
		{"a kind that is there", cluster.Options{Kinds: []registry.Kind{builtin}}, "pods"},
		{"a kind of nothing", cluster.Options{Kinds: []registry.Kind{{}}}, "kind"},
		{"negative settle", cluster.Options{Settle: -time.Second}, "Settle is -1s"},
		{"components", cluster.Options{Components: []cluster.Component{run("a"), run("a")}}, "two are called a"},
		{"nobody's component", cluster.Options{Components: []cluster.Component{{Name: "a", New: run("a").New}}}, "component a has no Identity"},
		{"a plugin twice", cluster.Options{Admission: cluster.Plugins(admission.ValidatorFunc("P", nil), admission.ValidatorFunc("P", nil))}, `two admission plugins "P"`},
		{"an authorizer that is not made", cluster.Options{Authorizers: []cluster.AuthorizerStage{{Name: "A"}}}, `authorizer "A" has no New`},
		{"an authenticator that is not made", cluster.Options{Authenticators: []cluster.AuthenticatorStage{{Name: "A"}}}, `authenticator "A" has no New`},
		{"an issuer that is none", cluster.Options{Server: cluster.Server{TokenIssuer: ":x"}}, "Server.TokenIssuer"},
		{"two places for state", cluster.Options{Dir: t.TempDir(), Store: memory.New(memory.Options{})}, "Dir and Store"},
	} {
		c, err := cluster.New(test.options)
		if err == nil {
			t.Errorf("%s: made %v", test.name, c)
			continue
		}
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %q lacks %q", test.name, err, test.want)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "mine" {
		t.Errorf("the file is now %q: %v", got, err)
	}
}

// TestServerOnLoopback: a loopback address is not published to pods, and an issuer that cannot be discovered still
// signs tokens.
func TestServerOnLoopback(t *testing.T) {
	c := start(t, cluster.Options{Server: cluster.Server{
		Address: netip.MustParseAddrPort("127.0.0.1:6443"), TokenIssuer: "http://127.0.0.1:6443",
	}})
	api := clientset(t, c.Config())
	if _, err := api.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("pods are told of a server that they cannot reach: %v", err)
	}
	made, err := api.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	review, err := api.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: made.Status.Token},
	}, metav1.CreateOptions{})
	if err != nil || !slices.Equal(review.Status.Audiences, []string{"http://127.0.0.1:6443"}) {
		t.Errorf("the token is %+v, %v", review.Status, err)
	}
	if _, err := api.Discovery().RESTClient().Get().AbsPath("/.well-known/openid-configuration").DoRaw(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("it can be discovered: %v", err)
	}
}

// TestDirInUse: the second cluster on a directory is refused, and the first is not affected.
func TestDirInUse(t *testing.T) {
	dir := t.TempDir()
	c := start(t, cluster.Options{Dir: dir})
	if _, err := cluster.New(cluster.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("two clusters on one directory: %v", err)
	}
	if _, err := clientset(t, c.Config()).CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

// TestConfigIsACopy: changes to one client's config do not affect others.
func TestConfigIsACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, cluster.Options{})
		config := c.Config()
		config.Host, config.Transport, config.UserAgent = "http://nowhere.invalid", nil, "spoiled"
		cs := clientset(t, c.Config())
		if _, err := cs.AppsV1().Deployments("default").Patch(t.Context(), "none", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the next config: %v", err)
		}
		if _, err := cs.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{}, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("an empty deployment: %v", err)
		}
	})
}
